"""The cells of a store that a condition selects.

A condition may use everything that the dataset has about a cell: coordinates, numbers such as
``variance_ratio``, and the solve's host, start, status and code.
"""

from typing import Any

import numpy as np
import pandas as pd

from sweep.dataset import build, frames
from sweep.dataset.derivation import Table, Terms
from sweep.errors import SweepError
from sweep.experiment.variables import BUDGETS
from sweep.grid.cells import Cells
from sweep.grid.grids import Grid
from sweep.plan.stored import StoredExperiment, solved_by_other_code, troubled
from sweep.store.ledger import Ledger
from sweep.store.records import Status
from workloads import conditions
from workloads.conditions import Condition
from workloads.parameters import nearest

STALE = "code == 'other'"
"""The condition for cells that other code solved."""


def selected(stored: StoredExperiment, ledger: Ledger, where: str | None) -> Cells:
    """The cells for which a condition holds.

    It does not hold for a cell without a value that it needs: a coordinate that its group does not
    have, or a number that the cell does not have (a failed cell has no ``gap``).

    Parameters
    ----------
    stored : StoredExperiment
        The experiment and its store.
    ledger : Ledger
        The records of the store's journal.
    where : str, optional
        The condition; by default the failed, timed-out and lost cells.

    Raises
    ------
    SweepError
        If the condition is not valid, or holds for no cell (which only `STALE` may).
    """
    if where is None:
        return troubled(stored.cells, ledger)
    condition = conditions.parse(where)
    tables = [_columns(grid, stored, ledger) for grid in stored.grids]
    _check_names(condition, {name for table in tables for name in table}, stored)
    chosen: set[str] = set()
    for grid, table in zip(stored.grids, tables, strict=True):
        needed = {name: table[name] for name in condition.names & table.keys()}
        cells = pd.DataFrame(needed, index=range(len(grid.cells)))
        chosen |= set(grid.cells.ids[frames.holding(condition, cells)].tolist())
    if not chosen and where != STALE:
        raise SweepError(
            f"condition {where!r} holds for no cell of store {str(stored.store.path)!r}; "
            "'sweep status' shows its cells"
        )
    return stored.cells.take(np.sort(stored.cells.places(list(chosen))))


def _columns(grid: Grid, stored: StoredExperiment, ledger: Ledger) -> dict[str, Any]:
    """The values that a condition can use, by name: one for every cell, or one for all."""
    table: dict[str, Any] = {
        **build.columns(Table(grid, ledger, Terms(reference=stored.experiment.reference))),
        **grid.scalars,
    }
    others = solved_by_other_code(grid.cells, ledger)
    rows = ledger.rows(grid.cells.ids)
    for axis in grid.axes:
        table[axis.name] = [cell.coords[axis.name] for cell in grid.cells]
        for name, labels in axis.companions.items():
            label_at = dict(zip(axis.values, labels, strict=True))
            table[name] = [label_at[value] for value in table[axis.name]]
    table["group"] = grid.group
    table["status"] = [Status(status).label for status in ledger.statuses(rows)]
    table["code"] = np.where(others, "other", "current")
    return table


def _check_names(condition: Condition, known: set[str], stored: StoredExperiment) -> None:
    for name in sorted(condition.names - known):
        if name in BUDGETS:
            raise SweepError(
                f"condition {condition.text!r} uses {name!r}, of which a cell has one value for "
                f"every {' and '.join(BUDGETS[name])}; use squared_privacy_cost, or the dataset "
                "itself"
            )
        raise SweepError(
            f"condition {condition.text!r} uses {name!r}, which store "
            f"{str(stored.store.path)!r} does not have; {nearest(name, sorted(known))}"
        )
