"""The history of single cells: every attempt in the journal, with full tracebacks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sweep.errors import DamagedSegmentError, StoreError, SweepError, UnknownNameError
from sweep.experiment.canonical import Scalar
from sweep.grid.grids import Grid
from sweep.plan.stored import of_store
from sweep.store import disk, segments
from sweep.store.folder import Store, open_
from sweep.store.journal import Journal
from sweep.store.keys import texts
from sweep.store.location import Location
from sweep.store.records import BoundRecord, CellRecord, ForgottenRecord


@dataclass(frozen=True)
class CellHistory:
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


def of_cells(store: str | Location, beginning: str) -> tuple[CellHistory, ...]:
    """The histories of the cells whose id begins with this text.

    Raises
    ------
    SweepError
        If there is none, or the folder is not a store.
    """
    opened = open_(store)
    chosen = sorted(cell for cell in texts(opened.cells) if cell.startswith(beginning))
    if not chosen:
        raise SweepError(
            f"no cell of store {str(opened.path)!r} has an id that begins with {beginning!r}; "
            "'sweep status --json' and the dataset's variable 'cell' have the ids"
        )
    try:
        grids = of_store(store).grids
    except (SweepError, UnknownNameError):
        grids = ()
    return _histories(opened, chosen, grids)


def where(store: str | Location, condition: str) -> tuple[CellHistory, ...]:
    """The histories of the cells for which a condition holds, as `sweep.rerun` selects them.

    Raises
    ------
    SweepError
        If the condition is not valid or holds for no cell, or the folder is not a store.
    """
    from sweep.runner.selection import selected

    stored = of_store(store)
    ledger = Journal(stored.store.journal).refresh()
    chosen = [cell.id for cell in selected(stored, ledger, condition)]
    return _histories(stored.store, chosen, stored.grids)


def _histories(
    store: Store, chosen: Sequence[str], grids: Iterable[Grid]
) -> tuple[CellHistory, ...]:
    """The histories of these cells; without labels if a mechanism or a file is not known here."""
    records = _records(store.journal, chosen)
    places = {
        cell: (grid.group, grid.cells[place].coords)
        for grid in grids
        for cell, place in zip(chosen, grid.cells.places(chosen).tolist(), strict=True)
        if place >= 0
    }
    return tuple(CellHistory(cell, *places.get(cell, ("", {})), records[cell]) for cell in chosen)


def _records(
    folder: Location, cells: Sequence[str]
) -> dict[str, tuple[tuple[str, CellRecord | ForgottenRecord], ...]]:
    by_id: dict[str, list[tuple[str, CellRecord | ForgottenRecord]]] = {cell: [] for cell in cells}
    for name in disk.names(folder):
        if not name.endswith(segments.SUFFIX):
            continue
        try:
            held = segments.read_segment(folder / name, by_id)
        except DamagedSegmentError:
            continue
        except StoreError as error:
            if segments.was_removed(folder / name, error):
                return _records(folder, cells)
            raise
        for record in held:
            if isinstance(record, BoundRecord):
                continue
            kept = by_id[record.cell]
            if all(record != earlier for _, earlier in kept):
                kept.append((name.removesuffix(segments.SUFFIX), record))
    return {cell: tuple(kept) for cell, kept in by_id.items()}
