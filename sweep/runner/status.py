"""How a store stands, read from its journal alone: from any terminal, while a run goes on."""

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweep.errors import SweepError
from sweep.experiment.canonical import Scalar
from sweep.grid.cells import Grid
from sweep.plan.stored import of_store
from sweep.runner import history
from sweep.store import code
from sweep.store.folder import open_
from sweep.store.journal import Journal, Ledger
from sweep.store.records import CellRecord


@dataclass(frozen=True)
class Trouble:
    """A cell that failed, timed out or was lost.

    Attributes
    ----------
    group : str
        Its group.
    coords : Mapping[str, Scalar]
        Its coordinates.
    record : CellRecord
        What was recorded.
    """

    group: str
    coords: Mapping[str, Scalar]
    record: CellRecord


@dataclass(frozen=True)
class StoreStatus:
    """How a store stands.

    Attributes
    ----------
    store : Path
        Its folder.
    experiment : str
        Its experiment's name.
    totals : Mapping[str, int]
        Number of cells by status; a cell of two groups counts once.
    groups : Mapping[str, Mapping[str, int]]
        The same for every group.
    user : str or None
        Who runs a sweep in it now.
    running_s : float or None
        For how long, in seconds.
    done_since : int
        Cells that the last run has finished so far.
    troubles : tuple of Trouble
        What went wrong.
    bound_errors : tuple of str
        Certificates that could not be computed: why.
    of_other_code : int
        Cells that other code than this has solved.
    results : Path or None
        The dataset, if there is one.
    damage : str, optional
        What became of the dataset since it was written.
    damaged_segments : tuple of str
        What is said of the journal segments that hold something else than was written.
    obstacle : str, optional
        Why there are no groups: the experiment cannot be laid out here and now (a file that it
        names is elsewhere, for instance).
    """

    store: Path
    experiment: str
    totals: Mapping[str, int]
    groups: Mapping[str, Mapping[str, int]]
    user: str | None
    running_s: float | None
    done_since: int
    troubles: tuple[Trouble, ...]
    bound_errors: tuple[str, ...]
    of_other_code: int
    results: Path | None
    damage: str | None
    damaged_segments: tuple[str, ...]
    obstacle: str | None


def status(store: Path) -> StoreStatus:
    """How a store stands.

    Raises
    ------
    StoreError
        If the folder is no store.
    """
    found = open_(store)
    journal = Journal(found.journal)
    ledger = journal.refresh()
    user, began = found.user, _last_start(found.path)
    try:
        grids: Sequence[Grid] = of_store(store).grids
        obstacle = None
    except SweepError as error:
        grids, obstacle = (), str(error)
    return StoreStatus(
        found.path,
        found.experiment,
        Counter(ledger.status(cell).label for cell in found.cells),
        {
            grid.group: Counter(ledger.status(cell.id).label for cell in grid.cells)
            for grid in grids
        },
        user,
        time.time() - began if user and began else None,
        sum(record.started >= (began or 0.0) for record in ledger.cells.values()),
        _troubles(grids, ledger),
        tuple(sorted({one.error for one in ledger.bound_errors.values()})),
        sum(ledger.is_of_other_code(cell, code.digest()) for cell in found.cells),
        found.results if found.results.exists() else None,
        found.damage,
        tuple(journal.damaged.values()),
        obstacle,
    )


def _troubles(grids: Sequence[Grid], ledger: Ledger) -> tuple[Trouble, ...]:
    return tuple(
        Trouble(grid.group, cell.coords, ledger.cells[cell.id])
        for grid in grids
        for cell in grid.cells
        if ledger.status(cell.id).troubled
    )


def _last_start(store: Path) -> float | None:
    path = store / history.NAME
    if not path.exists():
        return None
    lines: list[dict[str, Any]] = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            continue
    starts = [line["time"] for line in lines if line.get("event") == "RunStarted"]
    return float(starts[-1]) if starts else None
