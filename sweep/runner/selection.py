"""Selects the cells of a store for which a condition holds.

A condition may use everything that the dataset records about a cell: coordinates, numbers such as
``variance_ratio``, and the solve's host, start, status and code.
"""

import numpy as np

from sweep.dataset import build, frames
from sweep.errors import SweepError
from sweep.grid.cells import Cells
from sweep.state.stored import StoredExperiment, list_code_states, select_troubled
from sweep.store.ledger import Ledger
from workloads import conditions
from workloads.parameters import nearest

STALE = "code == 'other'"
"""The condition for cells that were solved or certified by code other than the current code."""


def select_cells(stored: StoredExperiment, ledger: Ledger, where: str | None) -> Cells:
    """Return the cells for which a condition holds.

    A condition does not hold for a cell that lacks a value needed to evaluate it: a coordinate that
    the cell's group does not have, or a number that the cell does not have (a failed cell has no
    ``gap``).

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
        If the condition is not valid, or holds for no cell (unless it is `STALE`).
    """
    if where is None:
        return select_troubled(stored.cells, ledger)
    condition = conditions.parse(where)
    names, chosen = {"group"}, [np.empty(0, dtype=np.int32)]
    without_budgets = stored.experiment.model_copy(update={"epsilon": (), "delta": ()})
    states = list_code_states(stored.cells, ledger)
    for grid in stored.grids:
        data = build.build_group(grid, ledger, without_budgets)
        names.update(map(str, data.variables))
        needed = {"cell", "status"} | (condition.names & data.data_vars.keys())
        bare = data[[*needed]].drop_attrs(deep=False)  # else the experiment's text is parsed again
        cells = frames.to_frame(bare).assign(group=grid.group)
        positions = stored.cells.index.positions(cells["cell"].to_list())
        cells["code"] = states[positions]
        chosen.append(positions[frames.mask_rows(condition, cells)])
    for name in sorted(condition.names - names):
        raise SweepError(
            f"condition {where!r} uses {name!r}, which has no value for each cell of store "
            f"{str(stored.store.path)!r}; {nearest(name, sorted(names))}"
        )
    cells_chosen = np.unique(np.concatenate(chosen))
    if not len(cells_chosen) and where != STALE:
        raise SweepError(
            f"condition {where!r} holds for no cell of store {str(stored.store.path)!r}; "
            "'sweep show' shows the labels of its cells"
        )
    return stored.cells.take(cells_chosen)
