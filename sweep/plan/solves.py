"""Determine the solves that cells need, and the solves that only prove lower bounds.

A solve may serve several cells.
"""

from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache

import numpy as np

import solvers
from solvers.forms.differences import OnDifferences
from sweep.experiment.canonical import canonical, digest
from sweep.grid.cells import Cell, Cells
from sweep.plan.costs import Costs
from sweep.plan.tasks import CERTIFIER, CellTask, Cost, Solve, Solves
from sweep.store import code
from sweep.store.keys import KEY, number_keys
from sweep.store.ledger import Ledger
from sweep.store.records import CellRecord, SolveCode, Status

_KEPT_FAMILIES = 1024
"""Number of families whose cost is kept at hand; solves of one family follow each other closely."""


def list_solves(
    cells: Cells,
    ledger: Ledger,
    costs: Costs,
    along: str | None = None,
) -> Solves:
    """Return one solve for each distinct solve key of the cells, in order of first occurrence.

    If ``along`` names an axis, solves that differ only in their label along this axis form a chain,
    in which each solve starts from the previous one's dual weights.
    """
    key_of_cell = number_keys(cells.keys("solve"))
    # 32-bit integers take half the memory
    order = np.argsort(key_of_cell, kind="stable").astype(np.int32)
    changes = np.diff(key_of_cell[order], prepend=-1, append=len(order))
    first = np.flatnonzero(changes).astype(np.int32)
    if len(first) > len(cells):  # every cell has its own solve, so no further arrays are needed
        order, firsts = first, cells
    else:
        firsts = cells.take(order[first[:-1]])
    rows = ledger.rows(cells.ids)
    attempts, good = ledger.attempts(rows) + 1, ledger.statuses(rows) == Status.OK
    if along is None:
        chains = np.broadcast_to(np.array(b"", KEY), len(firsts))
    else:
        chains = np.array([_name_chain(cell, along) for cell in firsts], KEY)

    @lru_cache(_KEPT_FAMILIES)
    def shared(family: int) -> tuple[Cost, SolveCode]:
        """Return the cost of a family's solves, and the identity of their code."""
        cell = firsts.families[family]
        code_of_solve = costs.codes.of_solve(cell.workload.name, cell.solved)
        return costs.of(cell.solved, cell), code_of_solve

    def solve(number: int) -> Solve:
        cell, served = firsts[number], order[slice(*first[number : number + 2])].tolist()
        cost, code_of_solve = shared(int(firsts.family[number]))
        return Solve(
            key=cell.key("solve", cell.replicate),
            problem=cell.key("problem", cell.replicate),
            workload_key=cell.key("workload", cell.replicate),
            workload=cell.workload,
            targets=cell.targets,
            mechanism=cell.solved,
            cells=tuple(
                CellTask(
                    cells.ids[row].decode(),
                    cells.families[cells.family[row]].simulate,
                    int(attempts[row]),
                )
                for row in served
            ),
            cost=cost,
            chain=chains[number].decode(),
            neighbours=cell.neighbours,
            code=code_of_solve,
            has_result=bool(good[served].any()),
        )

    seconds = firsts.by_family(lambda cell: costs.of(cell.solved, cell).seconds)
    return Solves(seconds, lambda: firsts.keys("workload"), chains, solve)


def reuse_records(cells: Cells, ledger: Ledger) -> list[CellRecord]:
    """Return records for the cells whose solve the current code has already done for another cell.

    There is no such record for a cell with simulated noise.
    """
    if not len(cells) or not len(ledger.current):
        return []
    codes, rows = code.Codes(), ledger.solved(cells.keys("solve"))
    return [
        replace(record, cell=cell.id)
        for cell, record in zip(cells.take(rows > 0), ledger.records(rows[rows > 0]), strict=True)
        if cell.simulate == 0 and record.code == codes.of_solve(cell.workload.name, cell.solved)
    ]


def _name_chain(cell: Cell, along: str) -> str:
    """Return the ``chain`` of a cell's solve along an axis; empty if the solve is independent."""
    mechanism = solvers.all_mechanisms()[cell.solved.name]
    if along not in cell.coords or "start" not in mechanism.params():
        return ""
    others = {name: at for name, at in cell.coords.items() if name != along}
    return digest(canonical([cell.group, others]))


def list_proofs(
    cells: Cells, ledger: Ledger, costs: Costs, again: Collection[str] = ()
) -> list[Solve]:
    """Return solves that prove the missing lower bounds, and new bounds for problems in ``again``.

    A problem gets such a solve only if its workload is a query matrix, and no solve of its pending
    or ``ok`` cells proves a bound.
    """

    def certifies(cell: Cell) -> bool:
        """Return whether the solve of a cell proves a lower bound for the cell's problem."""
        mechanism = solvers.all_mechanisms()[cell.solved.name]
        concerned = cell.neighbours.add_remove or issubclass(mechanism, OnDifferences)
        return concerned and mechanism(**cell.solved.params).certifies

    keys, problem = cells.problems
    hopeful = np.isin(ledger.statuses(ledger.rows(cells.ids)), [Status.PENDING, Status.OK])
    brought = np.bincount(problem, hopeful & cells.by_family(certifies)) > 0
    used, first = np.unique(problem, return_index=True)
    return [
        Solve(
            key=key,
            problem=key,
            workload_key=cell.key("workload", cell.replicate),
            workload=cell.workload,
            targets=cell.targets,
            cost=costs.of(CERTIFIER, cell),
            neighbours=cell.neighbours,
            code=costs.codes.of_bound(cell.workload.name),
        )
        for number in np.sort(first[~brought[used]]).tolist()
        for key in [keys[problem[number]].decode()]
        if key in again or not (key in ledger.bounds or key in ledger.bound_errors)
        for cell in [cells[number]]
        if cell.kind == "matrix"
    ]
