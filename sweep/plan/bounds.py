"""The bounds that have to be computed, because no solve proves them."""

from collections.abc import Iterable

import numpy as np

import solvers
from solvers.forms.differences import OnDifferences
from sweep.grid.cells import Cell, Cells
from sweep.plan.costs import CERTIFIER, Costs
from sweep.plan.items import Bound
from sweep.store import code
from sweep.store.ledger import Ledger
from sweep.store.records import Status


def missing(cells: Iterable[Cell], ledger: Ledger, costs: Costs) -> list[Bound]:
    """The certificates that were never attempted and that no solve will prove.

    A problem needs one if its workload is a query matrix and none of its mechanisms certifies
    itself, or those that do have failed.
    """
    columns, codes = Cells.of(cells), code.Codes()
    keys, problem = columns.problems
    hopeful = np.isin(ledger.statuses(ledger.rows(columns.ids)), [Status.PENDING, Status.OK])
    brought = np.bincount(problem, hopeful & columns.by_family(_certifies)) > 0
    used, first = np.unique(problem, return_index=True)
    return [
        Bound(
            problem=key,
            workload_key=cell.workload_key,
            workload=cell.workload,
            targets=cell.targets,
            seconds=costs.seconds(CERTIFIER, cell),
            time_limit=costs.limit(CERTIFIER),
            bytes=costs.bytes(CERTIFIER, cell),
            neighbours=cell.neighbours,
            code=codes.of_bound(cell.workload.name),
        )
        for number in np.sort(first[~brought[used]]).tolist()
        for key in [keys[problem[number]].decode()]
        if key not in ledger.bounds and key not in ledger.bound_errors
        for cell in [columns[number]]
        if cell.workload.kind == "matrix"
    ]


def _certifies(cell: Cell) -> bool:
    """Whether a solve of a cell proves a bound on its problem."""
    mechanism = solvers.all_mechanisms()[cell.solved_mechanism.name]
    concerned = cell.neighbours.add_remove or mechanism.variant(OnDifferences) is not None
    return concerned and mechanism.certifies(cell.solved_mechanism.options)
