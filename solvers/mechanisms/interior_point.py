"""Interior point: Problem 1 itself by a primal logarithmic barrier.

The baseline of Table 2 (arXiv v1, section 7.1.1, which cites Boyd and Vandenberghe and gives
no details). Newton's method follows the barrier's minimisers (`solvers.algorithms.primal_barrier`)
while t grows by a constant factor. The answer is certified without them: the multipliers
p_i = 1/(s - g_i) and q_j = 1/(1 - h_j), moved along the Newton step and scaled to sum to one, bound
the optimum from below by the squared nuclear norm of diag(q/c)^1/2 W diag(p)^1/2 (docs/optimal.md),
taken from W directly.

The paper leaves the start open. Here it is input perturbation, Σ = BBᵀ, scaled into the middle of
its constraints: strictly feasible for every workload.

The Newton system has about k⁴/4 entries, which ends the mechanism at k of about two hundred; the
paper names d = 64 as the limit of its own. `optimal` has no such limit: the two share only
the factorisation of the workload.
"""

import numpy as np
import scipy.linalg as sla

from solvers.algorithms.primal_barrier import Point, line_search, newton_step
from solvers.dual.iteration import Deadline, Stop, Stopping
from solvers.dual.programs import Weights
from solvers.errors import NotApplicableError
from solvers.mechanism import Mechanism, Work
from solvers.problem import Problem
from solvers.solution import Solution
from solvers.strategy import from_root
from workloads.operators import Array, Explicit

LARGEST_BYTES = 4 * 2**30
_GROWTH = 10.0
_CENTRED = 0.2


def solve(
    problem: Problem,
    *,
    tol: float = 1e-7,
    max_iterations: int = 500,
    time_limit: float | None = None,
) -> Solution:
    """The least Δ² of Problem 1 by a primal barrier method.

    Parameters
    ----------
    max_iterations : int
        Newton steps at most.

    Raises
    ------
    NotApplicableError
        If the Newton system would not fit in memory.
    """
    stopping = Stopping(tol, max_iterations, Deadline.after(time_limit))
    m, d = problem.workload.shape
    _refuse_too_large(problem.factors.rank, m, d, problem.workload.name)
    point, unit = _start(problem)
    t, iterations = (d + m) / point.bound, 0
    point = point.bounded(t)
    best, proof = point, point.multipliers
    lower = _lower_bound(problem, *proof) / unit
    while (stop := stopping.reason(lower, best.value, iterations)) is None:
        step = newton_step(point, t)
        if step is None:
            break
        iterations += 1
        if step.decrement < 1:
            bound = _lower_bound(problem, *step.multipliers) / unit
            if bound > lower:
                lower, proof = bound, step.multipliers
        moved = line_search(step, t)
        if moved is None and step.decrement >= _CENTRED:
            break
        point = moved or point
        best = min(best, point, key=lambda at: at.value)
        if step.decrement < _CENTRED:
            t *= _GROWTH
            point = point.bounded(t)
    return from_root(
        "interior-point",
        problem,
        problem.basis,
        problem.representation,
        best.lower,
        known_lower_bound=lower * unit,
        weights=Weights(*proof),
        iterations=iterations,
        converged=best.value <= lower * (1 + tol),
        timed_out=stop is Stop.TIMED_OUT,
    )


def system_bytes(rank: int, m: int, d: int) -> float:
    """Memory of one Newton system, in bytes: its matrix, and its factor of d + m columns."""
    unknowns = rank * (rank + 1) / 2 + 1
    return 8.0 * unknowns * (unknowns + 2 * (d + m))


def _refuse_too_large(rank: int, m: int, d: int, name: str) -> None:
    needed = system_bytes(rank, m, d)
    if needed > LARGEST_BYTES:
        raise NotApplicableError(
            f"interior-point: workload {name!r} of rank {rank} needs {needed / 2**30:.1f} GiB for "
            f"its Newton system in {rank * (rank + 1) // 2 + 1} unknowns, more than the limit of "
            f"{LARGEST_BYTES // 2**30} GiB; use 'optimal', which solves the same problem"
        )


def _start(problem: Problem) -> tuple[Point, float]:
    """Input perturbation in the middle of its constraints, and the unit of Δ²."""
    basis, queries = problem.basis, problem.factors.left
    covariance = basis @ basis.T
    scale = 2 * float(Explicit(queries).quadratic_forms(covariance).max())
    lower = sla.cholesky(covariance / scale, lower=True)
    whitened = sla.solve_triangular(lower, basis, lower=True)
    unit = 2 * float(np.square(whitened).sum(axis=0).max())
    return Point(lower, 1.0, whitened / np.sqrt(unit), queries @ lower), unit


def _lower_bound(problem: Problem, p: Array, q: Array) -> float:
    """The squared nuclear norm at positive weights, from the scaled workload itself."""
    weighted = np.sqrt(q)[:, None] * (problem.factors.left @ (problem.basis * np.sqrt(p)))
    return float(np.linalg.norm(weighted, "nuc")) ** 2 / float(p.sum() * q.sum())


def work(m: int, d: int) -> Work:
    """About forty Newton steps, each a dense system in d(d+1)/2 + 1 unknowns."""
    unknowns = d * (d + 1) / 2 + 1
    step = unknowns**3 / 3 + unknowns**2 * (d + m)
    return Work(flops=40 * step, bytes=system_bytes(d, m, d))


MECHANISMS = (
    Mechanism(
        "interior-point",
        "the optimum of Problem 1 by a primal barrier, for small workloads",
        solve,
        source="arXiv v1, section 7.1.1, Table 2",
        self_certifying=True,
        work=work,
    ),
)
