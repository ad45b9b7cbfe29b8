"""A primal-dual interior point for the weights of Problem 1's dual.

maximise 2 f(p, q) - cost . x over the weights x >= 0, where f is the nuclear norm of
`solvers.spectral` and some groups of weights sum to one: Mehrotra's predictor and
corrector on x * slack = mu, every Newton step solved by `solvers.newton_system`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg as sla

from solvers.deadline import Deadline
from solvers.factors import Factors
from solvers.newton_system import NewtonSystem
from solvers.spectral import Spectrum, spectrum
from workloads.operators import Array

_STEP_TO_BOUNDARY = 0.95
_SMALLEST_CENTRING = 1e-4
_SMALLEST_STEP = 1e-4
_OFF_CENTRE = 4.0
_LEAST_CENTRALITY = 0.01
_REDUCTION = 0.003


@dataclass(frozen=True, eq=False)
class WeightProgram:
    """What is maximised over the weights.

    Attributes
    ----------
    factors : Factors
        The scaled workload.
    offset : numpy.ndarray, shape (m,)
        Query weights that are given; the free ones are added to them.
    free_queries : bool
        Whether the queries have free weights beside the columns.
    cost : numpy.ndarray, shape (n,)
        Linear cost of the free weights: d columns, then m queries if they are free.
    groups : numpy.ndarray, shape (n, number of groups)
        Indicator columns; the weights of a group sum to one.
    """

    factors: Factors
    offset: Array
    free_queries: bool
    cost: Array
    groups: Array

    @property
    def size(self) -> int:
        """Number of free weights n."""
        return int(self.cost.shape[0])


@dataclass(frozen=True, eq=False)
class Point:
    """Weights with their spectrum and the gradient of 2f.

    Attributes
    ----------
    program : WeightProgram
        What is maximised.
    x : numpy.ndarray, shape (n,)
        The free weights.
    spectrum : Spectrum
        At these weights.
    """

    program: WeightProgram
    x: Array
    spectrum: Spectrum

    @property
    def p(self) -> Array:
        """Column weights, shape (d,)."""
        return self.x[: self.program.factors.cells]

    @property
    def q(self) -> Array:
        """All query weights, the given ones included, shape (m,)."""
        return _query_weights(self.program, self.x)

    @cached_property
    def profile(self) -> Array:
        """The privacy profile of the inner solution, shape (d,)."""
        return self.spectrum.column_mass / self.p

    @cached_property
    def variance_ratios(self) -> Array:
        """Variances over targets of the inner solution, shape (m,)."""
        return self.spectrum.row_mass / self.q

    @cached_property
    def gradient(self) -> Array:
        """Of 2f in the free weights, shape (n,)."""
        if not self.program.free_queries:
            return self.profile
        return np.concatenate([self.profile, self.variance_ratios])


@dataclass(frozen=True, eq=False)
class Progress:
    """The state of an interior-point run, handed to its observer.

    Attributes
    ----------
    lower, upper : float
        The best certified bounds so far.
    best : Point
        The point whose inner solution has the value ``upper``.
    proof : Point
        The point whose weights prove ``lower``; rarely the same.
    iterations : int
        Newton steps taken.
    factorisations : int
        Spectra computed.
    products : int
        Products with the Hessian.
    converged, timed_out : bool
        Why it stopped.
    """

    lower: float
    upper: float
    best: Point
    proof: Point
    iterations: int
    factorisations: int
    products: int
    converged: bool
    timed_out: bool

    @property
    def gap(self) -> float:
        """``upper / lower - 1``."""
        return max(self.upper / self.lower - 1.0, 0.0)


def evaluate(program: WeightProgram, x: Array) -> Point:
    """The point at weights x."""
    p = x[: program.factors.cells]
    return Point(program, x, spectrum(program.factors, p, _query_weights(program, x)))


def multiplicative_step(point: Point, floor: float = 1e-3) -> Array:
    """Weights after ``x <- x * gradient``, every group renormalised, none below floor/size.

    The fixed points of this step are the optima (design.md section 4).
    """
    groups = point.program.groups
    sizes = groups.sum(axis=0)
    moved = point.x * point.gradient
    for _ in range(2):
        moved = np.maximum(moved / (groups @ (groups.T @ moved)), floor * (groups @ (1 / sizes)))
    return moved / (groups @ (groups.T @ moved))


def maximise(
    program: WeightProgram,
    start: Point,
    bounds: Callable[[Point], tuple[float, float]],
    *,
    tol: float,
    max_iterations: int = 60,
    deadline: Deadline,
) -> Progress:
    """Maximise until the certified bounds agree.

    Parameters
    ----------
    program : WeightProgram
        What is maximised.
    start : Point
        Positive weights.
    bounds : callable
        The certified lower and upper bound at a point.
    tol : float
        Relative gap to reach.
    max_iterations : int
        Newton steps at most.
    deadline : Deadline
        When to stop.

    Returns
    -------
    Progress
    """
    point, groups = start, program.groups
    reduced = point.gradient - program.cost
    multipliers = np.array([1.02 * np.max(reduced[group > 0]) for group in groups.T])
    slack = np.maximum(groups @ multipliers - reduced, 1e-3 * np.abs(reduced) + 1e-300)
    slack = np.maximum(slack, _LEAST_CENTRALITY * float(np.mean(point.x * slack)) / point.x)
    lower, upper, best, proof = 0.0, np.inf, point, point
    factorisations, products, iteration = 1, 0, 0
    while True:
        low, high = bounds(point)
        if low > lower:
            lower, proof = low, point
        if high < upper:
            upper, best = high, point
        converged = upper <= lower * (1 + tol)
        timed_out = deadline.passed
        if converged or timed_out or iteration >= max_iterations:
            break
        complementarity_gap = float(point.x @ slack) / point.spectrum.nuclear_norm
        aim = _recentred if high > low * (1 + _OFF_CENTRE * complementarity_gap) else _mehrotra
        step = _newton(point, slack, multipliers, aim)
        products += step.products
        moved = _move(point, slack, multipliers, step)
        factorisations += moved.trials
        if moved.point is None:
            break
        point, slack, multipliers = moved.point, moved.slack, moved.multipliers
        iteration += 1
    return Progress(
        lower,
        upper,
        best,
        proof,
        iteration,
        factorisations,
        products,
        converged,
        timed_out and not converged,
    )


@dataclass(frozen=True, eq=False)
class _Step:
    relative: Array
    slack: Array
    multipliers: Array
    products: int


@dataclass(frozen=True, eq=False)
class _Moved:
    point: Point | None
    slack: Array
    multipliers: Array
    trials: int


Aim = Callable[[float, float], float]


def _mehrotra(mu: float, ahead: float) -> float:
    """The next mu, from how far the predictor gets."""
    return max((ahead / mu) ** 3, _SMALLEST_CENTRING) * mu


def _recentred(mu: float, ahead: float) -> float:
    """The same mu again: tiny weights are off the central path."""
    return mu


def _newton(point: Point, slack: Array, multipliers: Array, aim: Aim) -> _Step:
    """Predictor and corrector for x * slack = mu."""
    program, x = point.program, point.x
    groups, complementarity = program.groups, x * slack
    mu = float(complementarity.mean())
    mass = x * (point.gradient - program.cost - groups @ multipliers + slack)
    missing = 1.0 - groups.T @ x
    free_share = point.x[program.factors.cells :] / point.q if program.free_queries else None
    system = NewtonSystem(point.spectrum, free_share, complementarity, x[:, None] * groups)

    relative, _ = system.approximate(mass - complementarity, missing)
    slack_step = -slack * (1 + relative)
    reach = _reach(relative, slack_step / slack)
    ahead = float(np.mean(x * (1 + reach * relative) * (slack + reach * slack_step)))
    centring = aim(mu, ahead)
    correction = np.clip(x * relative * slack_step, -10 * mu, 10 * mu)

    target = centring - complementarity - correction
    relative, change = system.solve(mass + target, missing, _REDUCTION)
    return _Step(relative, target / x - slack * relative, change, system.products)


def _move(point: Point, slack: Array, multipliers: Array, step: _Step) -> _Moved:
    """Go along the step, short of the boundary and of a residual that grows."""
    program = point.program
    length = min(1.0, _STEP_TO_BOUNDARY * _reach(step.relative, step.slack / slack))
    allowed = max(2 * _residual(point, slack, multipliers), float(point.x @ slack))
    trials = 0
    while length > _SMALLEST_STEP:
        x = point.x * (1 + length * step.relative)
        moved_slack = slack + length * step.slack
        moved_multipliers = multipliers + length * step.multipliers
        trials += 1
        try:
            moved = evaluate(program, x)
        except (sla.LinAlgError, ValueError):
            length /= 2
            continue
        if _residual(moved, moved_slack, moved_multipliers) <= allowed:
            return _Moved(moved, moved_slack, moved_multipliers, trials)
        length /= 2
    return _Moved(None, slack, multipliers, trials)


def _residual(point: Point, slack: Array, multipliers: Array) -> float:
    program = point.program
    dual = point.gradient - program.cost - program.groups @ multipliers + slack
    return float(np.sum(np.abs(point.x * dual)))


def _reach(relative: Array, slack_relative: Array) -> float:
    """The longest step, at most 1, that keeps x and the slack non-negative."""
    steepest = min(float(relative.min()), float(slack_relative.min()))
    return 1.0 if steepest >= -1.0 else -1.0 / steepest


def _query_weights(program: WeightProgram, x: Array) -> Array:
    free = x[program.factors.cells :]
    return program.offset + free if program.free_queries else program.offset
