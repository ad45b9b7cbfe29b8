"""Adaptive mechanism: the eigen-queries of W with the best weights.

KDD'16, eq. (5), after Li and Miklau (PVLDB 5(6), 2012). With the singular value
decomposition W = U diag(d) P, the strategy is diag(λ) P, whose total error at Δ² = 1 is

    minimise sum_i d_i² / u_i   subject to   M u <= 1,   M = (P ∘ P)ᵀ,   u = λ².

It is solved through its dual, to a certified gap: for p >= 0 with s = Mᵀp, the value
``(sum_i d_i sqrt(s_i))² / sum(p)`` is a lower bound, and u_i = d_i / sqrt(s_i), scaled to be
feasible, the answer. A log barrier on p and Newton steps; a barrier optimum is feasible and
its gap is exactly the number of cells times the barrier weight.

Where the papers leave a choice open: KDD'16 prints Q (m x n) where the eigen-queries, the
rows of P, are meant. Li and Miklau end by adding one query on every cell whose column norm
is below the largest, which costs no privacy: ``complete`` (the default; without it the
strategy is that of eq. (5)). Where W has repeated singular values the eigen-queries are not
unique; they are those that LAPACK returns.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg as sla

from solvers.deadline import Deadline
from solvers.mechanism import Mechanism, Work
from solvers.problem import Problem
from solvers.solution import Solution
from solvers.strategy import compact, from_strategy
from workloads.operators import Array

_BARRIER_STEP = 0.1
_CENTRED = 0.1
_KEEP_POSITIVE = 0.95
_TINY = np.finfo(float).tiny


@dataclass(frozen=True, eq=False)
class QueryWeights:
    """The best weights of fixed strategy queries.

    Attributes
    ----------
    squared : numpy.ndarray, shape (k,)
        u: the squared weights; the largest of ``M u`` is 1.
    objective, lower_bound : float
        ``sum(d² / u)`` and the certified lower bound on it.
    iterations : int
        Newton steps.
    """

    squared: Array
    objective: float
    lower_bound: float
    iterations: int = 0

    @property
    def gap(self) -> float:
        """``objective / lower_bound - 1``."""
        return self.objective / self.lower_bound - 1.0


def solve(
    problem: Problem,
    *,
    complete: bool = True,
    tol: float = 1e-6,
    max_iterations: int = 200,
    time_limit: float | None = None,
) -> Solution:
    """Weigh the eigen-queries for the least total error.

    Parameters
    ----------
    problem : Problem
        The workload and the targets; the targets only scale the answer.
    complete : bool
        Whether to fill up the columns of the strategy to equal norms, as Li and Miklau do.
    tol : float
        Certified relative gap of the weights to reach.
    max_iterations : int
        Newton steps at most.
    time_limit : float, optional
        In seconds.

    Returns
    -------
    Solution
    """
    deadline = Deadline.after(time_limit)
    singular, rows = compact(problem.workload.matrix)
    weights = best_weights(np.square(rows).T, singular, tol, max_iterations, deadline)
    strategy = np.sqrt(weights.squared)[:, None] * rows
    converged = weights.gap <= tol
    return from_strategy(
        "AM",
        problem,
        _completed(strategy) if complete else strategy,
        iterations=weights.iterations,
        converged=converged,
        timed_out=deadline.passed and not converged,
    )


def best_weights(
    M: Array, d: Array, tol: float, max_iterations: int, deadline: Deadline
) -> QueryWeights:
    """The minimiser of ``sum(d² / u)`` with ``M u <= 1``.

    Parameters
    ----------
    M : numpy.ndarray, shape (cells, k)
        Squared entries of the strategy queries, one column for each; no column is zero.
    d : numpy.ndarray, shape (k,)
        Positive.
    tol : float
        Relative gap to reach.
    max_iterations : int
        Newton steps at most.
    deadline : Deadline
        When to stop with the best so far.

    Returns
    -------
    QueryWeights
    """
    p = np.full(len(M), 1.0 / len(M))
    unit = float(d @ np.sqrt(M.T @ p))
    barrier, iterations = _BARRIER_STEP / len(M), 0
    best = _feasible(M, d / unit, p)
    while best.gap > tol and iterations < max_iterations and not deadline.passed:
        step, decrement = _newton_step(M, d / unit, p, barrier)
        p = p * (1 + min(1.0, _KEEP_POSITIVE / max(-step.min(), _TINY)) * step)
        iterations += 1
        best = _better(best, _feasible(M, d / unit, p))
        if decrement < _CENTRED * np.sqrt(barrier):
            barrier *= _BARRIER_STEP
    return QueryWeights(
        best.squared, best.objective * unit**2, best.lower_bound * unit**2, iterations
    )


def _feasible(M: Array, d: Array, p: Array) -> QueryWeights:
    """The answer and the bound that belong to the column weights p."""
    roots = np.sqrt(M.T @ p)
    direction = d / roots
    squared = direction / (M @ direction).max()
    lower = float(d @ roots) ** 2 / float(p.sum())
    return QueryWeights(squared, float(np.sum(np.square(d) / squared)), lower)


def _better(first: QueryWeights, second: QueryWeights) -> QueryWeights:
    answer = min(first, second, key=lambda w: w.objective)
    return replace(answer, lower_bound=max(first.lower_bound, second.lower_bound))


def _newton_step(M: Array, d: Array, p: Array, barrier: float) -> tuple[Array, float]:
    """The relative step of p towards the barrier optimum, and the Newton decrement."""
    s = M.T @ p
    gradient = p * (M @ (d / np.sqrt(s)) - 1.0) + barrier
    scaled = p[:, None] * M * np.sqrt(d / 2 * s**-1.5)
    hessian = scaled @ scaled.T
    hessian[np.diag_indices_from(hessian)] += barrier
    step = sla.cho_solve(sla.cho_factor(hessian, lower=True, check_finite=False), gradient)
    return step, max(float(gradient @ step), 0.0) ** 0.5


def _completed(strategy: Array) -> Array:
    norms = np.square(strategy).sum(axis=0)
    room = norms.max() - norms
    short = room > np.finfo(float).eps * len(norms) * norms.max()
    return np.vstack([strategy, np.diag(np.sqrt(room))[short]])


def work(m: int, d: int) -> Work:
    """A singular value decomposition and about 45 Newton steps of size d."""
    return Work(flops=6.0 * m * d**2 + 105.0 * d**3, bytes=8.0 * (6 * d**2 + 2 * m * d))


MECHANISMS = (
    Mechanism(
        "AM",
        "adaptive mechanism: the workload's eigen-queries with the best weights",
        solve,
        source="Li and Miklau, PVLDB 5(6), 2012; KDD'16, eq. (5)",
        work=work,
    ),
)
