"""Input perturbation: independent noise of one variance on every cell of x."""

import numpy as np

from solvers.factorisation import Factorisation, InBasis, identity, multiplied
from solvers.mechanism import Mechanism
from solvers.problem import Problem
from solvers.solution import Solution


def solve(problem: Problem) -> Solution:
    """Δ² = max_j ||w_j||² / c_j (PVLDB 14(10), section 7: "IP"; GM of arXiv v1's tables).

    B is a multiple of the identity, L of W.
    """
    workload = problem.workload.operator
    ratios = workload.squared_row_norms() / problem.targets
    deviation = float(np.max(ratios)) ** -0.5
    cells = identity(problem.workload.d)
    noise = Factorisation(
        multiplied(workload, deviation),
        multiplied(cells, 1 / deviation),
        InBasis(cells, workload, deviation),
    )
    return Solution("IP", problem, noise)


MECHANISMS = (
    Mechanism(
        "IP",
        "input perturbation: independent noise of one variance on every cell of x",
        solve,
        source="PVLDB 14(10), section 7",
    ),
)
