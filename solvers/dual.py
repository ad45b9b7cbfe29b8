"""Problem 1 and its relatives solved through their dual, with certificates.

For A = diag(c)^-1/2 W and f(p, q) = || diag(q)^1/2 A diag(p)^1/2 ||_* (design.md section 4):

- the optimum of Problem 1 is the largest f² over the two simplices;
- the least total error sum_j omega_j var_j / c_j at Δ² <= 1 (CA, the matrix mechanism) is
  the largest f(p, omega)² over the simplex of columns;
- the hybrid with total error adds omega to the query weights.

Any weights give a lower bound, and the inner solution at any weights an upper bound.
"""

from dataclasses import dataclass, replace

import numpy as np

from solvers.deadline import Deadline
from solvers.factors import Factors
from solvers.interior_point import (
    Point,
    Progress,
    WeightProgram,
    evaluate,
    maximise,
    multiplicative_step,
)
from workloads.operators import Array

_WARM_STEPS = 1
_UNIFORM_SHARE = 0.03


@dataclass(frozen=True, eq=False)
class DualResult:
    """A certified solution of one of the programs.

    Attributes
    ----------
    best : Point
        The weights whose inner solution has the value ``upper``.
    proof : Point
        The weights that prove ``lower``: bounds from above and from below are seldom best at
        the same point.
    lower, upper : float
        Certified bounds on the optimal value.
    iterations, factorisations, products : int
        Newton steps, spectra and Hessian products.
    converged, timed_out : bool
        Whether the gap reached ``tol``; whether time ran out before.
    """

    best: Point
    proof: Point
    lower: float
    upper: float
    iterations: int
    factorisations: int
    products: int
    converged: bool
    timed_out: bool

    @property
    def gap(self) -> float:
        """``upper / lower - 1``."""
        return max(self.upper / self.lower - 1.0, 0.0)


@dataclass(frozen=True, eq=False)
class Weights:
    """A dual point: column weights p (d,) and query weights q (m,).

    Where there are more than 10^7 cells p has one entry for all, where the queries are not listed
    q has one for each group of them.
    """

    p: Array
    q: Array

    def resized(self, d: int, m: int) -> "Weights":
        """The weights of a neighbour with d cells and m queries, read off by position."""
        return Weights(_resampled(self.p, d), _resampled(self.q, m))


def optimum(
    factors: Factors,
    *,
    tol: float,
    start: Weights | None = None,
    max_iterations: int = 60,
    time_limit: float | None = None,
) -> DualResult:
    """The least Δ² that meets every target (Problem 1), with its certificate.

    Parameters
    ----------
    factors : Factors
        Of the scaled workload A.
    tol : float
        Relative gap to reach.
    start : Weights, optional
        Of a neighbouring problem, of any size; changes no result beyond the gap.
    max_iterations : int
        Newton steps at most.
    time_limit : float, optional
        In seconds.

    Returns
    -------
    DualResult
        Bounds on Δ².
    """
    deadline = Deadline.after(time_limit)
    program = _both_simplices(factors, np.zeros(factors.queries))
    point = _first_point(program, start)
    for _ in range(_WARM_STEPS):
        point = evaluate(program, multiplicative_step(point))
    progress = maximise(
        program,
        point,
        _largest_entries,
        tol=tol,
        max_iterations=max_iterations,
        deadline=deadline,
    )
    return _result(progress, extra_factorisations=1 + _WARM_STEPS)


def least_total_error(
    factors: Factors,
    weights: Array,
    *,
    tol: float,
    max_iterations: int = 60,
    time_limit: float | None = None,
) -> DualResult:
    """The least weighted total error at Δ² = 1: the matrix mechanism's optimum.

    Parameters
    ----------
    factors : Factors
        Of the scaled workload A.
    weights : numpy.ndarray, shape (m,)
        omega >= 0; the objective is ``sum(omega * variances / targets)``.
    tol : float
        Relative gap to reach.
    max_iterations : int
        Newton steps at most.
    time_limit : float, optional
        In seconds.

    Returns
    -------
    DualResult
        Bounds on the total error at Δ² = 1.
    """
    d = factors.cells
    program = WeightProgram(
        factors,
        offset=weights / weights.sum(),
        free_queries=False,
        cost=np.zeros(d),
        groups=np.ones((d, 1)),
    )
    point = evaluate(program, np.full(d, 1 / d))
    progress = maximise(
        program,
        point,
        _total_error_bounds,
        tol=tol,
        max_iterations=max_iterations,
        deadline=Deadline.after(time_limit),
    )
    return _scaled(_result(progress, extra_factorisations=1), float(weights.sum()))


def hybrid(
    factors: Factors,
    weights: Array,
    *,
    tol: float,
    start: Weights | None = None,
    max_iterations: int = 60,
    time_limit: float | None = None,
) -> DualResult:
    """The least max(profile) + max(ratios) + sum(weights * ratios) over all covariances.

    The hybrid of PVLDB 14(10), section 6.1, without the soft maximum: Problem 3 with a
    term for total error.

    Parameters
    ----------
    factors : Factors
        Of the scaled workload A.
    weights : numpy.ndarray, shape (m,)
        Of the variance ratios in the total; all zero gives Problem 1.
    tol : float
        Relative gap to reach.
    start : Weights, optional
        Of a neighbouring problem, of any size; changes no result beyond the gap.
    max_iterations : int
        Newton steps at most.
    time_limit : float, optional
        In seconds.

    Returns
    -------
    DualResult
        Bounds on the objective.
    """
    program = _both_simplices(factors, weights)
    progress = maximise(
        program,
        _first_point(program, start),
        _hybrid_bounds,
        tol=tol,
        max_iterations=max_iterations,
        deadline=Deadline.after(time_limit),
    )
    return _result(progress, extra_factorisations=1)


def lower_bound_from(factors: Factors, weights: Weights) -> float:
    """The certified lower bound on Δ² from any positive weights."""
    program = _both_simplices(factors, np.zeros(factors.queries))
    return _largest_entries(evaluate(program, np.concatenate([weights.p, weights.q])))[0]


def _both_simplices(factors: Factors, offset: Array) -> WeightProgram:
    d, m = factors.cells, factors.queries
    groups = np.zeros((d + m, 2))
    groups[:d, 0] = 1
    groups[d:, 1] = 1
    return WeightProgram(factors, offset, True, np.zeros(d + m), groups)


def _first_point(program: WeightProgram, start: Weights | None) -> Point:
    d, m = program.factors.cells, program.factors.queries
    uniform = np.concatenate([np.full(d, 1 / d), np.full(m, 1 / m)])
    if start is None:
        return evaluate(program, uniform)
    sized = start.resized(d, m)
    near = np.concatenate([sized.p / sized.p.sum(), sized.q / sized.q.sum()])
    return evaluate(program, (1 - _UNIFORM_SHARE) * near + _UNIFORM_SHARE * uniform)


def _resampled(values: Array, size: int) -> Array:
    if values.size == size:
        return values
    return np.interp(np.linspace(0, 1, size), np.linspace(0, 1, values.size), values)


def _largest_entries(point: Point) -> tuple[float, float]:
    weight = float(point.p.sum() * point.q.sum())
    value = point.spectrum.nuclear_norm**2 / weight
    return value, float(point.profile.max() * point.variance_ratios.max())


def _total_error_bounds(point: Point) -> tuple[float, float]:
    norm = point.spectrum.nuclear_norm
    return norm**2 / float(point.p.sum()), float(point.profile.max()) * norm


def _hybrid_bounds(point: Point) -> tuple[float, float]:
    """The best scale of Σ balances the privacy term with the two accuracy terms."""
    free = point.x[point.program.factors.cells :]
    weight = max(float(point.p.sum()), float(free.sum()))
    ratios = point.variance_ratios
    accuracy = float(ratios.max() + point.program.offset @ ratios)
    lower = 2 * point.spectrum.nuclear_norm / max(weight, 1.0)
    return lower, 2 * float(np.sqrt(point.profile.max() * accuracy))


def _result(progress: Progress, *, extra_factorisations: int) -> DualResult:
    return DualResult(
        progress.best,
        progress.proof,
        progress.lower,
        progress.upper,
        progress.iterations,
        progress.factorisations + extra_factorisations - 1,
        progress.products,
        progress.converged,
        progress.timed_out,
    )


def _scaled(result: DualResult, factor: float) -> DualResult:
    return replace(result, lower=result.lower * factor, upper=result.upper * factor)
