"""The experiment of a store: its cells and their state."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

import solvers
from sweep.errors import ExperimentError, StoreError, UnknownNameError
from sweep.experiment.loading import parse_experiment
from sweep.experiment.schema import Experiment
from sweep.grid.axes import is_available
from sweep.grid.cells import Cells
from sweep.grid.expansion import lay_out
from sweep.grid.grids import Grid, unite_cells
from sweep.store import code
from sweep.store.folder import Store, open_
from sweep.store.journal import Journal
from sweep.store.keys import KEY
from sweep.store.ledger import Ledger
from sweep.store.paths import Location
from sweep.store.records import FINAL, REVISED, TROUBLED, Status


@dataclass(frozen=True, eq=False)
class StoredExperiment:
    """An experiment, its grids, and the store with its results."""

    experiment: Experiment
    grids: tuple[Grid, ...]
    store: Store

    @cached_property
    def cells(self) -> Cells:
        """The cells of all grids."""
        return unite_cells(self.grids)

    def label(self, cell: str) -> str:
        """Return the labels of the cell with this id, as text."""
        coords = self.cells.of_id(cell).coords
        return ", ".join(f"{axis}={label}" for axis, label in coords.items()) or cell

    @property
    def gone(self) -> int:
        """Number of the store's cells that are no longer in the experiment."""
        stored = self.store.cells
        if np.array_equal(stored, self.cells.ids):
            return 0
        return int((self.cells.index.positions(stored) < 0).sum())

    def check_kinship(self) -> None:
        """Raise an error if the store contains cells, but none of the experiment's.

        Raises
        ------
        StoreError
            If the store lists cells, but neither lists nor records a cell of the experiment. Then
            it belongs to another experiment, or a value on which all cells depend has changed.
        """
        gone = self.gone
        if not gone or gone < len(self.store.cells):
            return
        recorded = Journal(self.store.journal).refresh()
        if (recorded.rows(self.cells.ids) == 0).all():
            raise StoreError(
                f"store {str(self.store.path)!r} holds {gone} cells of experiment "
                f"{self.store.about.experiment!r}, none of which experiment "
                f"{self.experiment.name!r} has (it has {len(self.cells)}): it is another "
                "experiment, a file that it names has changed, or a value that all cells depend on "
                "(simulate counts too); give another --store"
            )


def count_statuses(ids: ArrayLike, ledger: Ledger) -> dict[str, int]:
    """Count the cells with these ids by status."""
    numbers = np.bincount(ledger.statuses(ledger.rows(ids)))
    return {Status(n).label: int(numbers[n]) for n in np.flatnonzero(numbers).tolist()}


def select_troubled(cells: Cells, ledger: Ledger) -> Cells:
    """Return the cells that failed, timed out or were lost."""
    return cells.take(np.isin(ledger.statuses(ledger.rows(cells.ids)), TROUBLED))


def select_unfinished(cells: Cells, ledger: Ledger) -> Cells:
    """Return the cells without a final status: those that are pending or were lost."""
    return cells.take(~np.isin(ledger.statuses(ledger.rows(cells.ids)), FINAL))


def compare_code(cells: Cells, ledger: Ledger) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return two masks: cells with stale results, and cells whose code was merely edited.

    A result is stale if its cell was solved, or its problem certified, by other code. Code was
    merely edited if a module that defines the mechanism or the workload family has changed since
    the solve, but no revision was raised.
    """
    codes, rows = code.Codes(), ledger.rows(cells.ids)
    final = np.isin(ledger.statuses(rows), FINAL)
    number, texts = ledger.texts("code", rows)
    solved = np.array(texts, KEY)[number]
    present = cells.by_family(
        lambda cell: codes.of_solve(cell.workload.name, cell.solved).encode()
    ).astype(KEY)
    revised = solved.astype(REVISED) != present.astype(REVISED)
    stale = final & (revised | find_other_certifiers(cells, ledger, codes))
    return stale, final & (solved != present) & ~stale


def list_code_states(cells: Cells, ledger: Ledger) -> NDArray[np.str_]:
    """Return the value of ``code`` in conditions for every cell.

    It is ``other`` for stale results, ``edited`` if the code was merely edited since the solve, and
    ``current`` for all other cells, including those without a result.
    """
    stale, edited = compare_code(cells, ledger)
    return np.select([stale, edited], ["other", "edited"], "current")


def find_other_certifiers(cells: Cells, ledger: Ledger, codes: code.Codes) -> NDArray[np.bool_]:
    """Return a mask of the recorded cells whose problem was certified by other code."""
    problem, keys = ledger.texts("problem", ledger.rows(cells.ids))
    certified = np.array([key in ledger.bound_codes for key in keys])[problem]
    certifier = np.array([ledger.bound_codes.get(key, "") for key in keys], np.bytes_)[problem]
    present = cells.by_family(lambda cell: codes.of_bound(cell.workload.name).encode())
    return np.asarray(certified & (certifier != present), dtype=bool)


def load_stored(store: str | Path | Location) -> StoredExperiment:
    """Load the experiment of a store, with its grids, without running code that it names.

    Raises
    ------
    StoreError
        If the folder is not a store, or a file that its experiment names has changed.
    UnknownNameError
        If the experiment has mechanisms that are unknown here.
    """
    opened = open_(store)
    text = opened.text
    try:
        experiment = parse_experiment(text, f"{opened.about.experiment}.yaml")
    except ExperimentError as error:
        raise StoreError(
            f"{str(opened.path / 'experiment.yaml')!r} is damaged ({error}); restore the file"
        ) from None
    entries = (entry for block in experiment.blocks for entry in block.mechanism)
    named = dict.fromkeys(entry.name for entry in entries if is_available(entry))
    # unknown mechanisms were given in Python, or by a plug-in that is missing here
    if unknown := [name for name in named if name not in solvers.all_mechanisms()]:
        raise UnknownNameError(
            f"store {str(opened.path)!r} has results of {', '.join(map(repr, unknown))}, and no "
            "mechanism here has that name; one that was given in Python is known only where it is "
            "given again: sweep.rerun(..., mechanisms={NAME: FUNCTION})"
        )
    stored = StoredExperiment(experiment, lay_out(experiment), opened)
    if gone := stored.gone:
        if opened.text != text:  # a run has just changed the experiment
            return load_stored(store)
        raise StoreError(
            f"store {str(opened.path)!r} holds {gone} cells that experiment {experiment.name!r} no "
            f"longer has (it has {len(stored.cells)}): a file that it names has changed, or a "
            "mechanism or workload has options in this version that it did not have; restore the "
            "file, let 'sweep run' solve the cells again, or give another --store"
        )
    return stored
