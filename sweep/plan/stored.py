"""An experiment laid out in a store: its cells, and how they stand."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sweep.errors import StoreError
from sweep.experiment.schema import Experiment, parse_experiment
from sweep.grid.cells import Cell, Grid
from sweep.grid.expansion import lay_out
from sweep.plan import tasks
from sweep.store import code
from sweep.store.folder import Store, open_
from sweep.store.journal import Ledger


@dataclass(frozen=True, eq=False)
class StoredExperiment:
    """An experiment laid out in a store.

    Attributes
    ----------
    experiment : Experiment
        What is asked.
    grids : tuple of Grid
        Its cells.
    store : Store
        Where the answers are kept.
    """

    experiment: Experiment
    grids: tuple[Grid, ...]
    store: Store

    @cached_property
    def cells(self) -> Mapping[str, Cell]:
        """The cells of all grids, by id."""
        return tasks.distinct(self.grids)

    def statuses(self, ledger: Ledger) -> dict[str, int]:
        """Number of cells by status."""
        return dict(Counter(ledger.status(cell).label for cell in self.cells))

    def of_other_code(self, ledger: Ledger) -> list[str]:
        """Ids of the cells that other code than this process's has solved."""
        return [cell for cell in self.cells if ledger.is_of_other_code(cell, code.digest())]

    def problems_renewed(self, chosen: Iterable[Cell], ledger: Ledger) -> set[str]:
        """Problems that other code has certified, if all cells that this concerns are chosen.

        Some of them may bring the bound, so it must not be forgotten while others stay.
        """
        ours, codes = code.digest(), ledger.bound_codes
        solved = {cell.id: cell.problem_key for cell in chosen}
        left = (id_ for id_ in self.of_other_code(ledger) if id_ not in solved)
        outdated = {key for key in solved.values() if codes.get(key, ours) != ours}
        return outdated - {self.cells[id_].problem_key for id_ in left}

    def check_growth(self) -> None:
        """Refuse an experiment that no longer has all the cells of its store.

        Raises
        ------
        StoreError
            If a value was taken out, or a file that it names holds something else now.
        """
        if not self.store.described:
            return
        gone = self.store.cells - self.cells.keys()
        if gone:
            raise StoreError(
                f"store {str(self.store.path)!r} holds {len(gone)} cells that experiment "
                f"{self.experiment.name!r} does not have as it is now (it has {len(self.cells)}): "
                "a value was taken out or changed (simulate too), or a file that it names holds "
                "something else now; a store can grow, not change: give another --store"
            )


def experiment_of(store: Store) -> Experiment:
    """The experiment that a store was last run with."""
    return parse_experiment(store.text, f"{store.experiment}.yaml")


def of_store(store: str | Path) -> StoredExperiment:
    """The experiment of a store, laid out; nothing that it names is run.

    Raises
    ------
    StoreError
        If the folder is no store, or a file that its experiment names holds something else
        now.
    """
    found = open_(Path(store))
    experiment = experiment_of(found)
    stored = StoredExperiment(experiment, lay_out(experiment), found)
    stored.check_growth()
    return stored
