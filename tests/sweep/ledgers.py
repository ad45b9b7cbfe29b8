"""What a ledger holds, as records."""

from sweep.store.records import Status


def cells(ledger):
    """The current record of every cell."""
    return {record.cell: record for record in map(ledger.record, ledger.current.tolist())}


def solved(ledger):
    """The last record with status ``ok`` of every solve."""
    solves = {record.solve for record in cells(ledger).values()}
    rows = zip(solves, ledger.solved(list(solves)).tolist(), strict=True)
    return {solve: ledger.record(row) for solve, row in rows if row >= 0}


def status(ledger, cell):
    """The status of one cell."""
    return Status(int(ledger.statuses(ledger.rows([cell]))[0]))


def count(ledger, name, cell):
    """A count of one cell."""
    return int(ledger.counts(name, ledger.rows([cell]))[0])
