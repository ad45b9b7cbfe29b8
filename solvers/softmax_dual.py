"""Problem 4 of PVLDB 14(10) solved through its dual: SM-II's objective, made to converge.

The soft maximum (1/t) log sum exp(t g) is the largest of ``p . g + entropy(p) / t`` over the
simplex. Put into Problem 4, and its inner minimum over Σ taken (design.md section 4), that
gives the concave programme of the same value

    maximise  2 f(p, q + omega) + entropy(p) / t1 + entropy(q) / t2

over two simplices, where f is the nuclear norm of `solvers.spectral` and omega the weights
of the total variance. Its optimal p and q are the soft-max weights of Problem 4's minimiser,
and its inner solution is that minimiser. So Algorithm 1 (raise t, Newton steps by conjugate
gradients, backtracking) runs here on d + m unknowns instead of k², whatever the basis, and
every iterate has a certified gap.

A soft-max weight is exp(-t slack) and soon leaves double precision, but where the weights
that remain do not span the cells, the vanishing ones decide Σ. So a logarithmic barrier keeps
them: ``weight * sum(log x)``, with a weight that costs a quarter of the gap asked for.

The products of a Newton step are in single precision, so that gaps below 1e-5 are not always
reached; `solvers.interior_point` reaches them.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg as sla

from solvers.deadline import Deadline
from solvers.dual import DualResult, Weights
from solvers.factors import Factors
from solvers.interior_point import Point, WeightProgram, evaluate
from solvers.newton_system import NewtonSystem
from workloads.operators import Array

_FIRST_SHARPNESS = 10.0
_FINEST_SHARPNESS = 10.0
_BARRIER_SHARE = 0.25
_OFF_CENTRE = 2.0
_SMALLEST_AIM = 1e-7
_SMALLEST_START = 1e-3
_LARGEST_EXPONENT = 50.0
_SMALLEST_STEP = 1e-8
_ROUNDING = 1e-13
_REDUCTION = 0.03


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
        NTTOL: a level ends once the Newton decrement, relative to the objective, is less
        and the certified gap is what the soft maxima of the level can cost.
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


@dataclass(frozen=True, eq=False)
class _Level:
    """Sharpness of every weight's entropy, shape (d + m,), and weight of the barrier."""

    t: Array
    barrier: float

    def value(self, point: Point) -> float:
        smooth = (self.barrier - point.x / self.t) @ np.log(point.x)
        return 2 * point.spectrum.nuclear_norm + float(smooth)

    def gap(self, norm: float) -> float:
        """What the soft maxima can cost at the level's optimum, relative to Δ²."""
        return float(np.log(self.t.size) * (1 / self.t.min() + 1 / self.t.max())) / norm

    def newton(self, point: Point) -> tuple[Array, float, int]:
        """The step of log x, the Newton decrement, and the products that it took."""
        program, x = point.program, point.x
        slope = x * (point.gradient - np.log(x) / self.t) + self.barrier
        curvature = x / self.t + self.barrier
        free_share = x[program.factors.cells :] / point.q
        system = NewtonSystem(point.spectrum, free_share, curvature, x[:, None] * program.groups)
        step, _ = system.solve(slope, np.zeros(program.groups.shape[1]), _REDUCTION)
        return step, float(step @ slope), system.products


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
        Of a neighbouring problem of any size; equal weights if not given.

    Returns
    -------
    DualResult
        Bounds on the square of half the objective: on Δ² where omega is zero.
    float
        The last t1.
    """
    point = _first_point(factors, omega, start)
    norm, columns = point.spectrum.nuclear_norm, point.program.groups[:, 0] > 0
    sharpness = _FIRST_SHARPNESS / norm
    aim = max(settings.tol, _SMALLEST_AIM)
    finest = _FINEST_SHARPNESS * np.log(columns.size) / (aim * norm)
    barrier = _BARRIER_SHARE * aim * norm / columns.size
    level = _Level(np.full(columns.size, sharpness), barrier)
    lower, upper, best, proof = 0.0, np.inf, point, point
    iterations, products, factorisations = 0, 0, 1
    while True:
        low, high = _bounds(point)
        if low > lower:
            lower, proof = low, point
        if high < upper:
            upper, best = high, point
        converged = upper <= lower * (1 + settings.tol)
        if converged or deadline.passed or iterations >= settings.max_iterations:
            break
        direction, decrement, used = level.newton(point)
        moved, trials = _line_search(point, level, direction, decrement, settings)
        iterations, products = iterations + 1, products + used
        factorisations += trials
        point = moved or point
        centred = high <= low * (1 + _OFF_CENTRE * level.gap(norm) + settings.tol / 2)
        if sharpness < finest and centred and decrement <= settings.nttol * norm:
            sharpness *= settings.mu
            level = _Level(sharpness * np.where(columns, 1.0, settings.t2_over_t1), barrier)
        elif moved is None or decrement <= _ROUNDING * norm:
            break
    result = DualResult(
        best,
        proof,
        lower,
        upper,
        iterations,
        factorisations,
        products,
        converged,
        deadline.passed and not converged,
    )
    return result, sharpness


def _first_point(factors: Factors, omega: Array, start: Weights | None) -> Point:
    d, m = factors.cells, factors.queries
    groups = np.zeros((d + m, 2))
    groups[:d, 0] = groups[d:, 1] = 1
    program = WeightProgram(factors, omega, True, np.zeros(d + m), groups)
    uniform = groups @ (1 / groups.sum(axis=0))
    if start is None:
        return evaluate(program, uniform)
    near = start.resized(d, m)
    x = np.concatenate([near.p, near.q])
    return evaluate(program, _normalised(x, groups, _SMALLEST_START * uniform))


def _bounds(point: Point) -> tuple[float, float]:
    """On the square of half the objective; Σ is scaled to balance its two sides."""
    ratios = point.variance_ratios
    accuracy = float(ratios.max() + point.program.offset @ ratios)
    return point.spectrum.nuclear_norm**2, float(point.profile.max()) * accuracy


def _normalised(x: Array, groups: Array, least: Array | float) -> Array:
    """On the simplices, no weight below the least."""
    floored = np.maximum(x / (groups @ (groups.T @ x)), least)
    return floored / (groups @ (groups.T @ floored))


def _line_search(
    point: Point, level: _Level, direction: Array, decrement: float, settings: Settings
) -> tuple[Point | None, int]:
    """Algorithm 3 along ``x exp(length * direction)``, renormalised; None if it stalls.

    At the optimum no weight is below barrier / norm: none needs to go further.
    """
    value = level.value(point)
    allowed = value - _ROUNDING * abs(value)
    least = level.barrier / point.spectrum.nuclear_norm
    length, trials = 1.0, 0
    while length > _SMALLEST_STEP:
        x = point.x * np.exp(np.minimum(length * direction, _LARGEST_EXPONENT))
        trials += 1
        try:
            moved = evaluate(point.program, _normalised(x, point.program.groups, least))
        except (sla.LinAlgError, ValueError):
            length *= settings.beta
            continue
        if level.value(moved) >= allowed + settings.sigma * length * decrement:
            return moved, trials
        length *= settings.beta
    return None, trials
