"""Input perturbation: independent noise of one variance on every cell of x."""

import numpy as np

from solvers.mechanism import Mechanism
from solvers.problem import Problem
from solvers.solution import Solution


def solve(problem: Problem) -> Solution:
    """Δ² = max_j ||w_j||² / c_j (PVLDB 14(10), section 7: "IP"; GM of arXiv v1's tables)."""
    workload = problem.workload
    norms = workload.operator.squared_row_norms()
    variance = 1.0 / float(np.max(norms / problem.targets))
    identity = np.eye(workload.d)
    return Solution(
        "IP",
        problem,
        basis=identity,
        queries=workload.operator,
        covariance=variance * identity,
        query_variances=variance * norms,
        privacy_profile=np.full(workload.d, 1.0 / variance),
    )


MECHANISMS = (
    Mechanism(
        "IP",
        "input perturbation: independent noise of one variance on every cell of x",
        solve,
        source="PVLDB 14(10), section 7",
    ),
)
