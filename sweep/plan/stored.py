"""An experiment in a store: its cells, and the state that they are in."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sweep.errors import StoreError
from sweep.experiment.loading import parse_experiment
from sweep.experiment.schema import Experiment
from sweep.grid.cells import Cell, Grid
from sweep.grid.expansion import lay_out
from sweep.plan import tasks
from sweep.store import code
from sweep.store.folder import Store, open_
from sweep.store.ledger import Ledger


@dataclass(frozen=True, eq=False)
class StoredExperiment:
    """An experiment, its grids, and the store that keeps its results.

    Attributes
    ----------
    experiment : Experiment
        The experiment as loaded.
    grids : tuple of Grid
        Its cells, one grid for each group.
    store : Store
        The folder that keeps its results.
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
        """Ids of the cells that were solved by code other than the present."""
        codes = code.Codes()
        return [
            id_
            for id_, cell in self.cells.items()
            if ledger.is_of_other_code(
                id_, tasks.code_of(cell, codes), codes.of_bound(cell.workload.name)
            )
        ]

    def problems_renewed(self, chosen: Iterable[Cell], ledger: Ledger) -> set[str]:
        """Problems certified by other code whose cells of other code are all chosen.

        Any of these cells may have brought the bound, so it may be forgotten only if none of
        them stays as it is.
        """
        codes = code.Codes()
        held = list(chosen)
        solved = {cell.id: cell.problem_key for cell in held}
        left = (id_ for id_ in self.of_other_code(ledger) if id_ not in solved)
        outdated = {
            cell.problem_key
            for cell in held
            for ours in [codes.of_bound(cell.workload.name)]
            if ledger.bound_codes.get(cell.problem_key, ours) != ours
        }
        return outdated - {self.cells[id_].problem_key for id_ in left}

    def check_growth(self) -> None:
        """Refuse an experiment that no longer has all the cells of its store.

        Raises
        ------
        StoreError
            If a value was removed, or a file that it names has changed.
        """
        if not self.store.described:
            return
        gone = self.store.cells - self.cells.keys()
        if gone:
            raise StoreError(
                f"store {str(self.store.path)!r} holds {len(gone)} cells that experiment "
                f"{self.experiment.name!r} no longer has (it has {len(self.cells)}): a value was "
                "removed or changed (simulate counts too), or a file that it names has changed; a "
                "store can grow but not change: give another --store"
            )


def experiment_of(store: Store) -> Experiment:
    """The experiment as it was last run in this store."""
    return parse_experiment(store.text, f"{store.experiment}.yaml")


def of_store(store: str | Path) -> StoredExperiment:
    """The experiment of a store with its grids; no code that it names is run.

    Raises
    ------
    StoreError
        If the folder is not a store, or a file that its experiment names has changed.
    """
    found = open_(Path(store))
    experiment = experiment_of(found)
    stored = StoredExperiment(experiment, lay_out(experiment), found)
    stored.check_growth()
    return stored
