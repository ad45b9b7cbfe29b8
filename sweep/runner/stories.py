"""What happened to single cells: every attempt that the journal has, with whole tracebacks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sweep.errors import DamagedSegmentError, StoreError, SweepError, UnknownNameError
from sweep.experiment.canonical import Scalar
from sweep.grid.grids import Grid
from sweep.plan.stored import of_store
from sweep.store import disk, journal
from sweep.store.folder import Store, open_
from sweep.store.journal import Journal
from sweep.store.keys import texts
from sweep.store.location import Location
from sweep.store.records import BoundRecord, CellRecord, ForgottenRecord


@dataclass(frozen=True)
class CellStory:
    """One cell, and what was recorded of it.

    Attributes
    ----------
    cell : str
        Its id.
    group : str
        The group that it belongs to; empty if the experiment cannot be laid out here.
    coords : Mapping[str, Scalar]
        Its label along every axis.
    records : tuple of (str, CellRecord or ForgottenRecord)
        Its records, oldest first, each with the name of its journal segment.
    """

    cell: str
    group: str
    coords: Mapping[str, Scalar]
    records: tuple[tuple[str, CellRecord | ForgottenRecord], ...]


def of_cells(store: str | Location, beginning: str) -> tuple[CellStory, ...]:
    """The stories of the cells whose id begins so.

    Raises
    ------
    SweepError
        If there is none, or the folder is not a store.
    """
    found = open_(store)
    chosen = sorted(cell for cell in texts(found.cells) if cell.startswith(beginning))
    if not chosen:
        raise SweepError(
            f"no cell of store {str(found.path)!r} has an id that begins with {beginning!r}; "
            "'sweep status --json' and the dataset's variable 'cell' have the ids"
        )
    try:
        grids = of_store(store).grids
    except (SweepError, UnknownNameError):
        grids = ()
    return _told(found, chosen, grids)


def where(store: str | Location, condition: str) -> tuple[CellStory, ...]:
    """The stories of the cells for which a condition holds, as `sweep.rerun` selects them.

    Raises
    ------
    SweepError
        If the condition is not valid or holds for no cell, or the folder is not a store.
    """
    from sweep.runner.selection import selected

    stored = of_store(store)
    ledger = Journal(stored.store.journal).refresh()
    chosen = [cell.id for cell in selected(stored, ledger, condition)]
    return _told(stored.store, chosen, stored.grids)


def _told(store: Store, chosen: Sequence[str], grids: Iterable[Grid]) -> tuple[CellStory, ...]:
    """The stories of these cells; without labels if a mechanism or a file is not known here."""
    records = _records(store.journal, chosen)
    places = {
        cell: (grid.group, grid.cells[place].coords)
        for grid in grids
        for cell, place in zip(chosen, grid.cells.places(chosen).tolist(), strict=True)
        if place >= 0
    }
    return tuple(CellStory(cell, *places.get(cell, ("", {})), records[cell]) for cell in chosen)


def _records(
    folder: Location, cells: Sequence[str]
) -> dict[str, tuple[tuple[str, CellRecord | ForgottenRecord], ...]]:
    found: dict[str, list[tuple[str, CellRecord | ForgottenRecord]]] = {cell: [] for cell in cells}
    for name in disk.names(folder):
        if not name.endswith(journal.SUFFIX):
            continue
        try:
            held = journal.read_segment(folder / name, found)
        except DamagedSegmentError:
            continue
        except StoreError as error:
            if journal.was_removed(folder / name, error):
                return _records(folder, cells)
            raise
        for record in held:
            if isinstance(record, BoundRecord):
                continue
            kept = found[record.cell]
            if all(record != one for _, one in kept):
                kept.append((name.removesuffix(journal.SUFFIX), record))
    return {cell: tuple(kept) for cell, kept in found.items()}
