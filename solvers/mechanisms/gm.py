"""Gaussian mechanism: independent noise of one variance on every query."""

import numpy as np
import scipy.sparse as sp

from solvers.mechanism import Mechanism, Work
from solvers.problem import Problem
from solvers.solution import Solution
from workloads.operators import Array, Explicit


def solve(problem: Problem) -> Solution:
    """Δ² = max squared column norm of W / min c; no query is derived from another.

    Every query gets the variance min c, so only the tightest target is just met
    (KDD'16, section 2; design.md section 2). The covariance is a read-only view that
    takes O(m) memory.
    """
    variance = float(problem.targets.min())
    workload = problem.workload
    return Solution(
        "GM",
        problem,
        basis=workload.dense,
        queries=Explicit(sp.eye_array(workload.m, format="csr")),
        covariance=scaled_identity(workload.m, variance),
        query_variances=np.full(workload.m, variance),
        privacy_profile=workload.operator.squared_column_norms() / variance,
    )


def scaled_identity(size: int, value: float) -> Array:
    """``value * I`` as a read-only view of a vector of 2 size - 1 numbers."""
    centred = np.zeros(2 * size - 1)
    centred[size - 1] = value
    return np.lib.stride_tricks.sliding_window_view(centred, size)[::-1]


def work(m: int, d: int) -> Work:
    """A pass over W."""
    return Work(flops=4.0 * m * d, bytes=16.0 * m * d)


MECHANISMS = (
    Mechanism(
        "GM",
        "Gaussian mechanism: independent noise of one variance on every query",
        solve,
        source="KDD'16, section 2 [15]; PVLDB 14(10), section 7",
        work=work,
    ),
)
