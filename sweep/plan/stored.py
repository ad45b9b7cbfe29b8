"""An experiment laid out in a store: its cells, how they stand, and which a condition means."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sweep.errors import StoreError, SweepError
from sweep.experiment.schema import Experiment, parse_experiment
from sweep.grid import conditions
from sweep.grid.cells import Cell, Grid
from sweep.grid.expansion import lay_out
from sweep.plan import tasks
from sweep.store import code
from sweep.store.folder import Store, open_
from sweep.store.journal import Ledger
from workloads.parameters import nearest

STALE = "code == 'other'"
"""The condition that holds for the cells that other code has solved."""


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


def selected(stored: StoredExperiment, ledger: Ledger, where: str | None) -> list[Cell]:
    """The cells for which a condition holds; those in trouble if there is none.

    It holds for no cell of a group that lacks a coordinate which decides it.

    Raises
    ------
    SweepError
        If the condition is not valid, or is another than `STALE` and holds for no cell.
    """
    if where is None:
        return [cell for id_, cell in stored.cells.items() if ledger.status(id_).troubled]
    condition = conditions.parse(where)
    coordinates = [
        (cell, _coordinates(grid, cell, ledger)) for grid in stored.grids for cell in grid.cells
    ]
    known = sorted({name for _, own in coordinates for name in own})
    for name in sorted(condition.names.difference(known)):
        raise SweepError(
            f"condition {where!r} speaks of {name!r}, which is no coordinate of store "
            f"{str(stored.store.path)!r}; {nearest(name, known)}"
        )
    found = {cell.id: cell for cell, own in coordinates if _holds(condition, own)}
    if not found and where != STALE:
        raise SweepError(
            f"condition {where!r} holds for no cell of store {str(stored.store.path)!r}; "
            "'sweep status' shows what it holds"
        )
    return list(found.values())


def _coordinates(grid: Grid, cell: Cell, ledger: Ledger) -> dict[str, Any]:
    return {
        **grid.scalars,
        **_companions(grid, cell),
        **cell.coords,
        "group": grid.group,
        "status": ledger.status(cell.id).label,
        "code": "other" if ledger.is_of_other_code(cell.id, code.digest()) else "current",
    }


def _holds(condition: conditions.Condition, coordinates: Mapping[str, Any]) -> bool:
    """False too where the group has no such coordinate."""
    try:
        return condition.holds(coordinates)
    except conditions.MissingCoordinateError:
        return False


def _companions(grid: Grid, cell: Cell) -> dict[str, Any]:
    return {
        name: values[axis.values.index(cell.coords[axis.name])]
        for axis in grid.axes
        for name, values in axis.companions.items()
    }
