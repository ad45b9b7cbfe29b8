"""Reports the state of a store and the history of its cells, even while a run uses the store."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sweep.errors import DamagedSegmentError, SweepError, command
from sweep.events import Progressed
from sweep.experiment.canonical import Scalar
from sweep.grid.grids import Grid
from sweep.runner import log
from sweep.state.stored import compare_code, count_statuses, load_stored
from sweep.store.folder import open_
from sweep.store.journal import SUFFIX, Journal, read_segment
from sweep.store.keys import to_texts
from sweep.store.paths import Location
from sweep.store.records import TROUBLED, BoundRecord, CellRecord, ForgottenRecord, Status

_WELL = (Status.ABSENT, Status.OK, Status.NOT_APPLICABLE)


@dataclass(frozen=True)
class Trouble:
    """A cell that failed, timed out or was lost.

    Attributes
    ----------
    group : str
        The group that the cell belongs to; empty if the experiment cannot be laid out here.
    coords : Mapping[str, Scalar]
        The cell's label along every axis of the group's grid. If the experiment cannot be laid out
        here, only the cell's id, under the key ``cell``.
    record : CellRecord
        The cell's current record, with the error.
    """

    group: str
    coords: Mapping[str, Scalar]
    record: CellRecord


@dataclass(frozen=True)
class StoreStatus:
    """The state of a store: its cells by status, the run in progress, errors and damage.

    Attributes
    ----------
    store : Path or ObjectPath
        The store's folder.
    experiment : str
        The experiment's name.
    statuses : Mapping[str, int]
        Number of cells by status; a cell that belongs to two groups is counted once.
    groups : Mapping[str, Mapping[str, int]]
        Number of cells by status, for every group.
    running : str or None
        The process that uses the store now, as "process 123 on HOST"; None if no process uses it.
    progress : Progressed, optional
        The latest statistics of the run in progress, or else of the last run that solved
        anything; None if there are none.
    troubles : tuple of Trouble
        The failed, timed-out and lost cells.
    certificate_errors : tuple of str
        The reasons why certificates could not be computed or were stopped.
    cells_of_other_code : int
        Number of cells that were solved, or whose problem was certified, by code other than this
        process's; 0 if there is an ``obstacle``.
    cells_edited_since : int
        Number of cells that were solved before a module of their mechanism or workload was edited
        without a new revision number; 0 if there is an ``obstacle``.
    dataset : Path, ObjectPath or None
        The dataset, if there is one.
    damage : str, optional
        How the stored dataset differs from the dataset that was written; None if it is intact or
        missing.
    damaged_segments : tuple of str
        What is wrong with each journal segment that has changed since it was written.
    obstacle : str, optional
        Why the experiment cannot be laid out here, for instance because a file that it names is
        missing; ``groups`` is then empty, and ``troubles`` have no labels.
    """

    store: Location
    experiment: str
    statuses: Mapping[str, int]
    groups: Mapping[str, Mapping[str, int]]
    running: str | None
    progress: Progressed | None
    troubles: tuple[Trouble, ...]
    certificate_errors: tuple[str, ...]
    cells_of_other_code: int
    cells_edited_since: int
    dataset: Location | None
    damage: str | None
    damaged_segments: tuple[str, ...]
    obstacle: str | None

    @property
    def running_s(self) -> float | None:
        """Seconds since the run in progress started; None without a run or its statistics.

        Never negative, even if the clocks of two machines disagree.
        """
        if not self.running or self.progress is None:
            return None
        return max(time.time() - self.progress.began, 0.0)

    @property
    def progress_age_s(self) -> float:
        """Seconds since the statistics were taken; 0 if there are none."""
        if self.progress is None:
            return 0.0
        return max(time.time() - self.progress.began - self.progress.seconds, 0.0)

    @property
    def healthy(self) -> bool:
        """Whether no cell is pending, failed, timed out or lost, and nothing is damaged."""
        done = all(Status[name.upper()] in _WELL for name in self.statuses)
        return done and self.damage is None and not self.damaged_segments


def status(store: str | Path | Location) -> StoreStatus:
    """Return the state of a store.

    Raises
    ------
    StoreError
        If the folder is not a store.
    """
    opened = open_(store)
    journal = Journal(opened.journal)
    ledger = journal.refresh()
    cells = opened.cells
    grids: Sequence[Grid] = ()
    obstacle = None
    try:
        stored = load_stored(store)
        stale, edited = (int(mask.sum()) for mask in compare_code(stored.cells, ledger))
        grids = stored.grids
    except SweepError as error:
        stale, edited, obstacle = 0, 0, str(error)
    rows = ledger.rows(cells)
    records = ledger.records(rows[np.isin(ledger.statuses(rows), TROUBLED)])
    places = _locate([record.cell for record in records], grids)
    return StoreStatus(
        store=opened.path,
        experiment=opened.about.experiment,
        statuses=count_statuses(cells, ledger),
        groups={grid.group: count_statuses(grid.cells.ids, ledger) for grid in grids},
        running=opened.user,
        progress=log.read_progress(opened.path),
        troubles=tuple(
            Trouble(*places.get(record.cell, ("", {"cell": record.cell})), record)
            for record in records
        ),
        certificate_errors=tuple(sorted(set(ledger.bound_errors.values()))),
        cells_of_other_code=stale,
        cells_edited_since=edited,
        dataset=opened.dataset.path if opened.dataset.exists else None,
        damage=opened.dataset.damage,
        damaged_segments=tuple(journal.damaged.values()),
        obstacle=obstacle,
    )


def _locate(
    cells: Sequence[str], grids: Iterable[Grid]
) -> dict[str, tuple[str, Mapping[str, Scalar]]]:
    """Return the group and the labels of each cell that is in one of the grids."""
    return {
        cell: (grid.group, grid.cells[place].coords)
        for grid in grids
        for cell, place in zip(cells, grid.cells.index.positions(cells).tolist(), strict=True)
        if place >= 0
    }


@dataclass(frozen=True)
class CellHistory:
    """One cell and all its records.

    Attributes
    ----------
    cell : str
        The cell's id.
    group : str
        The group that the cell belongs to; empty if the experiment cannot be laid out here.
    coords : Mapping[str, Scalar]
        The cell's label along every axis; empty if the experiment cannot be laid out here.
    records : sequence of (str, CellRecord or ForgottenRecord)
        Pairs of a journal segment's name and a record of the cell in that segment, oldest first.
    """

    cell: str
    group: str
    coords: Mapping[str, Scalar]
    records: Sequence[tuple[str, CellRecord | ForgottenRecord]]


def read_histories(
    store: str | Location, beginning: str = "", where: str | None = None
) -> tuple[CellHistory, ...]:
    """Return the histories of some cells, without labels if the experiment cannot be laid out here.

    Parameters
    ----------
    store : str, Path or ObjectPath
        The store.
    beginning : str
        Text with which the cells' ids begin; an empty text selects all cells.
    where : str, optional
        A condition, as for `sweep.rerun`, that selects the cells; ``beginning`` is then ignored.

    Raises
    ------
    SweepError
        If no cell is selected, the condition is not valid, or the folder is not a store.
    """
    opened = open_(store)
    grids: Sequence[Grid] = ()
    if where is not None:
        from sweep.runner.selection import select_cells

        stored = load_stored(store)
        grids, ledger = stored.grids, Journal(opened.journal).refresh()
        chosen = to_texts(select_cells(stored, ledger, where).ids)
    else:
        chosen = sorted(cell for cell in to_texts(opened.cells) if cell.startswith(beginning))
        if not chosen:
            raise SweepError(
                f"no cell of store {str(opened.path)!r} has an id that begins with {beginning!r}; "
                f"{command('logs', opened.path, '--where CONDITION')} shows the ids of cells"
            )
        with suppress(SweepError):
            grids = load_stored(store).grids
    records, places = _read_records(opened.journal, chosen), _locate(chosen, grids)
    return tuple(CellHistory(cell, *places.get(cell, ("", {})), records[cell]) for cell in chosen)


def _read_records(
    folder: Location, cells: Sequence[str]
) -> dict[str, list[tuple[str, CellRecord | ForgottenRecord]]]:
    by_id: dict[str, list[tuple[str, CellRecord | ForgottenRecord]]] = {cell: [] for cell in cells}
    for name in (name for name in folder.names() if name.endswith(SUFFIX)):
        try:
            for record in read_segment(folder / name):
                if not isinstance(record, BoundRecord) and record.cell in by_id:
                    kept = by_id[record.cell]
                    if all(record != earlier for _, earlier in kept):
                        kept.append((name.removesuffix(SUFFIX), record))
        except DamagedSegmentError:
            continue
        except FileNotFoundError:  # a compaction has removed it
            return _read_records(folder, cells)
    return by_id
