"""What the ledger of a store holds, and who may use the store."""

import pytest

from sweep.errors import StoreError
from sweep.store.journal import Journal, read_segment, write_segment
from sweep.store.paths import DiskPath
from sweep.store.records import Status


def check_in_use(store, user):
    """Check that a store is refused because this user has it."""
    with pytest.raises(StoreError, match=f"in use by {user}"), store.locked():
        pass


def rewrite(store, change):
    """Replace every record of a store's journal."""
    for path in DiskPath(store, "journal").glob("*.jsonl"):
        write_segment(path.parent, path.stem, map(change, read_segment(path)))


def compacted(place, name):
    """Compact a journal, as another process may."""
    journal = Journal(DiskPath(place))
    journal.refresh()
    journal.compact(name)


def cells(ledger):
    """The current record of every cell."""
    return {record.cell: record for record in ledger.records(ledger.current)}


def solved(ledger):
    """The last record with status ``ok`` of every solve."""
    solves = {record.solve for record in cells(ledger).values()}
    rows = ledger.solved(list(solves))
    return {record.solve: record for record in ledger.records(rows[rows > 0])}


def contents(ledger):
    """All that it says of cells, solves and problems."""
    known = cells(ledger)
    counts = [(attempts(ledger, cell), deaths(ledger, cell)) for cell in sorted(known)]
    bounds = ledger.bounds, ledger.bound_codes, ledger.bound_errors
    return known, counts, bounds, solved(ledger)


def status(ledger, cell):
    """The status of one cell."""
    return Status(int(ledger.statuses(ledger.rows([cell]))[0]))


def attempts(ledger, cell):
    """The highest attempt number of one cell."""
    return int(ledger.attempts(ledger.rows([cell]))[0])


def deaths(ledger, cell):
    """The number of workers that one cell has killed."""
    return int(ledger.deaths(ledger.rows([cell]))[0])
