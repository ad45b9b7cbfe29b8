"""Problem 4 of PVLDB 14(10) solved through its dual: SM-II's objective, made to converge.

The soft maximum (1/t) log sum exp(t g) is the largest of ``p . g + entropy(p) / t`` over the
simplex. Put into Problem 4, and its inner minimum over Σ taken (design.md section 4), that
gives the concave programme of the same value

    maximise  2 f(p, q + omega) + entropy(p) / t1 + entropy(q) / t2

over two simplices, where f is the nuclear norm of `solvers.spectral` and omega the weights
of the total variance. Its optimal p and q are the soft-max weights of Problem 4's minimiser,
and its inner solution is that minimiser. So Algorithm 1 (raise t, Newton steps by conjugate
gradients, backtracking) runs here on d + m unknowns instead of k², whatever the basis: a
step is the solution of `solvers.newton_system` with diagonal ``x / t``, and every iterate
has a certified gap.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg as sla

from solvers.deadline import Deadline
from solvers.dual import DualResult, Weights
from solvers.interior_point import Point, WeightProgram, evaluate
from solvers.newton_system import NewtonSystem
from solvers.spectral import Factors
from workloads.operators import Array

_FIRST_SHARPNESS = 10.0
_SMALLEST_WEIGHT = 1e-14
_SMALLEST_STEP = 1e-8
_ROUNDING = 1e-13


@dataclass(frozen=True)
class Settings:
    """The constants of Algorithms 1 and 3 that the dual shares with the primal.

    Attributes
    ----------
    tol : float
        Certified relative gap of the squared objective to reach.
    mu : float
        MU: the factor by which t grows.
    nttol : float
        NTTOL: a level ends once the Newton decrement, relative to the objective, is less.
    t2_over_t1 : float
        t2 / t1 after t has been raised.
    sigma, beta : float
        Sufficient decrease and shrinking factor of the line search.
    max_iterations : int
        Newton steps at most.
    """

    tol: float
    mu: float
    nttol: float
    t2_over_t1: float
    sigma: float
    beta: float
    max_iterations: int


@dataclass(frozen=True)
class _Level:
    """The sharpness of every weight's entropy, shape (d + m,)."""

    t: Array

    def value(self, point: Point) -> float:
        entropy = -np.sum(point.x * np.log(point.x) / self.t)
        return 2 * point.spectrum.nuclear_norm + float(entropy)


def minimise(
    factors: Factors,
    omega: Array,
    settings: Settings,
    deadline: Deadline,
    start: Weights | None = None,
) -> tuple[DualResult, float]:
    """The least max(profile) + max(ratios) + omega . ratios, by soft maxima of rising t.

    Parameters
    ----------
    factors : Factors
        Of the scaled workload A.
    omega : numpy.ndarray, shape (m,)
        Weight of every variance ratio in the total; all zero gives Problem 1.
    settings : Settings
        MU, NTTOL, ….
    deadline : Deadline
        When to stop with the best so far.
    start : Weights, optional
        Of a neighbouring problem; equal weights if not given.

    Returns
    -------
    DualResult
        Bounds on the square of half the objective: on Δ² where omega is zero.
    float
        The last t1.
    """
    d, m = factors.cells, factors.queries
    groups = np.zeros((d + m, 2))
    groups[:d, 0] = groups[d:, 1] = 1
    program = WeightProgram(factors, omega, True, np.zeros(d + m), groups)
    uniform = groups @ (1 / groups.sum(axis=0))
    near = uniform if start is None else np.concatenate([start.p, start.q])
    point = evaluate(program, _normalised(near, groups, uniform))
    sharpness = _FIRST_SHARPNESS / point.spectrum.nuclear_norm
    level = _Level(np.full(d + m, sharpness))
    lower, upper, best = 0.0, np.inf, point
    iterations = products = 0
    factorisations = 1
    while True:
        low, high = _bounds(point)
        lower = max(lower, low)
        if high < upper:
            upper, best = high, point
        converged = upper <= lower * (1 + settings.tol)
        if converged or deadline.passed or iterations >= settings.max_iterations:
            break
        direction, decrement, used = _newton_direction(point, level)
        products += used
        moved, trials = _line_search(point, level, direction, decrement, uniform, settings)
        factorisations += trials
        if moved is None and decrement > settings.nttol * point.spectrum.nuclear_norm:
            break
        point, iterations = moved or point, iterations + 1
        if decrement <= settings.nttol * point.spectrum.nuclear_norm:
            sharpness *= settings.mu
            level = _Level(sharpness * np.where(groups[:, 0] > 0, 1.0, settings.t2_over_t1))
    result = DualResult(
        best,
        lower,
        upper,
        best.spectrum.covariance(),
        iterations,
        factorisations,
        products,
        converged,
        deadline.passed and not converged,
    )
    return result, sharpness


def _bounds(point: Point) -> tuple[float, float]:
    """On the square of half the objective; Σ is scaled to balance its two sides."""
    ratios = point.variance_ratios
    accuracy = float(ratios.max() + point.program.offset @ ratios)
    return point.spectrum.nuclear_norm**2, float(point.profile.max()) * accuracy


def _normalised(x: Array, groups: Array, uniform: Array) -> Array:
    """On the simplices, and no weight so small that single precision loses it."""
    floored = np.maximum(x / (groups @ (groups.T @ x)), _SMALLEST_WEIGHT * uniform)
    return floored / (groups @ (groups.T @ floored))


def _newton_direction(point: Point, level: _Level) -> tuple[Array, float, int]:
    """The step of log x, the Newton decrement, and the products that it took."""
    program, x = point.program, point.x
    relative = x * (point.gradient - np.log(x) / level.t)
    free_share = x[program.factors.cells :] / point.q
    scaled_groups = x[:, None] * program.groups
    system = NewtonSystem(point.spectrum, free_share, x / level.t, scaled_groups)
    step, _ = system.solve(relative, np.zeros(program.groups.shape[1]))
    return step, float(step @ relative), system.products


def _line_search(
    point: Point,
    level: _Level,
    direction: Array,
    decrement: float,
    uniform: Array,
    settings: Settings,
) -> tuple[Point | None, int]:
    """Algorithm 3 along ``x exp(length * direction)``, renormalised; None if it stalls."""
    value = level.value(point)
    allowed = value - _ROUNDING * abs(value)
    length, trials = 1.0, 0
    while length > _SMALLEST_STEP:
        moved = point.x * np.exp(np.minimum(length * direction, 50.0))
        trials += 1
        try:
            found = evaluate(point.program, _normalised(moved, point.program.groups, uniform))
        except (sla.LinAlgError, ValueError):
            length *= settings.beta
            continue
        if level.value(found) >= allowed + settings.sigma * length * decrement:
            return found, trials
        length *= settings.beta
    return None, trials
