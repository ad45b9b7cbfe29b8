"""A primal-dual interior point for dual weights.

Maximises ``2 f(x) - cost . x`` over weights x >= 0, some groups of which sum to one, by Mehrotra's
predictor-corrector method on x * slack = mu. f is the nuclear norm of `matrix_blocks.MatrixBlocks`
or of `scalar_blocks.ScalarBlocks`; its value at a point comes with the Newton system there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import scipy

from solvers.dual.iteration import Stop, Stopping, Trace, backtrack, traced
from solvers.dual.newton_system import ConstrainedSystem
from workloads.operators import Array


class Point(Protocol):
    """The function f, evaluated at given weights."""

    @property
    def x(self) -> Array:
        """The free weights, shape (n,)."""

    @property
    def nuclear_norm(self) -> float:
        """The value of f."""

    @property
    def gradient(self) -> Array:
        """The gradient of 2f in the free weights, shape (n,)."""

    def newton_system(self, diagonal: Array, constraints: Array) -> ConstrainedSystem:
        """The Newton system at this point, with a positive diagonal (n,) and constraints."""


AnyPoint = TypeVar("AnyPoint", bound=Point)


@dataclass(frozen=True, eq=False)
class Program(Generic[AnyPoint]):
    """Maximise ``2 f(x) - cost . x`` over weights x >= 0, some groups of which sum to one.

    Attributes
    ----------
    at : callable
        Computes the point at weights x; raises LinAlgError or ValueError if f cannot be computed.
    cost : numpy.ndarray, shape (n,)
        Linear cost of the free weights.
    groups : numpy.ndarray, shape (n, number of groups)
        Indicator columns; the weights of a group sum to one.
    """

    at: Callable[[Array], AnyPoint]
    cost: Array
    groups: Array


def multiplicative_step(
    x: Array, gradient: Array, groups: Array, *, relaxation: float = 1.0, floor: float = 1e-3
) -> Array:
    """Weights after ``x <- x * gradient``, with each group renormalised.

    No weight falls below ``floor`` over the size of its group. The fixed points of this step are
    the optima if the weights have no cost. The gradient is raised to the power ``relaxation``: a
    power above one makes the step longer.
    """
    sizes = groups.sum(axis=0)
    moved = x * gradient**relaxation
    for _ in range(2):
        moved = np.maximum(moved / (groups @ (groups.T @ moved)), floor * (groups @ (1 / sizes)))
    return moved / (groups @ (groups.T @ moved))


@dataclass(frozen=True, eq=False)
class Progress(Generic[AnyPoint]):
    """The result of a run of the interior point.

    Attributes
    ----------
    lower, upper : float
        The best certified bounds.
    proof : Point
        The point whose weights prove ``lower``.
    best : Point
        The point whose inner solution has the value ``upper``.
    iterations : int
        Number of Newton steps.
    factorisations : int
        Number of points computed, including the first.
    products : int
        Number of products with the Hessian.
    stop : Stop
        Why the run ended.
    trace : Trace
        The upper bound at every point, and the best lower bound so far.
    """

    lower: float
    upper: float
    proof: AnyPoint
    best: AnyPoint
    iterations: int
    factorisations: int
    products: int
    stop: Stop
    trace: Trace

    @property
    def gap(self) -> float:
        """``upper / lower - 1``, at least 0."""
        return max(self.upper / self.lower - 1.0, 0.0)

    @property
    def converged(self) -> bool:
        """Whether the gap reached the tolerance."""
        return self.stop is Stop.CONVERGED

    @property
    def timed_out(self) -> bool:
        """Whether the time limit passed before the gap reached the tolerance."""
        return self.stop is Stop.TIMED_OUT


_LONGEST = 0.99
"""Largest step, as a share of the distance to the boundary of positive weights and slacks."""
_OFF_CENTRE = 1000.0
"""Ratio of the certified gap to the complementarity gap at which a step does not reduce mu.

The ratio is large if tiny weights are off the central path. Below this limit, a step multiplies mu
by at least the square of (ratio / limit). The two halves of `benchmarks.panel` (64 and 128 cells)
take 640 and 251 Newton steps with a limit of 1000, 640 and 248 with 300, 650 and 260 with 100;
marginals take 115, 143 and 156.
"""
_SMALLEST_CENTRING = 1e-4
_SMALLEST_STEP = 1e-4
_LEAST_CENTRALITY = 0.01
_REDUCTION = 0.003
_MOST_BEND = 0.5
_NEGLIGIBLE_BEND = 0.002
"""Smallest bend (second-order change of the gradient) that is corrected, relative to the sum of
x * slack. For prefixes the bend is smaller after a step or two; for ranges it is ten times larger.
"""


def maximise(
    program: Program[AnyPoint],
    start: AnyPoint,
    bounds: Callable[[AnyPoint], tuple[float, float]],
    stopping: Stopping,
) -> Progress[AnyPoint]:
    """Maximise until the certified bounds agree to the tolerance.

    Parameters
    ----------
    program : Program
        The objective and its constraints.
    start : Point
        The point at positive weights.
    bounds : callable
        Returns the certified lower and upper bound at a point.
    stopping : Stopping
        When to end.

    Returns
    -------
    Progress
    """
    at = _centred(program, start)
    lower, upper, proof, best = 0.0, np.inf, start, start
    factorisations, products, iterations = 1, 0, 0
    reached: list[float] = []
    proven: list[float] = []
    while True:
        low, high = bounds(at.point)
        if low > lower:
            lower, proof = low, at.point
        if high < upper:
            upper, best = high, at.point
        reached.append(high)
        proven.append(lower)
        stop = stopping.reason(lower, upper, iterations)
        if stop is not None:
            break
        step, multipliers, taken = _newton(program, at, high / low - 1)
        products += taken
        moved, trials = _move(program, at, step, multipliers)
        factorisations += trials
        if moved is None:
            stop = Stop.STALLED
            break
        at = moved
        iterations += 1
    return Progress(
        lower=lower,
        upper=upper,
        proof=proof,
        best=best,
        iterations=iterations,
        factorisations=factorisations,
        products=products,
        stop=stop,
        trace=traced(reached, proven),
    )


@dataclass(frozen=True, eq=False)
class _Iterate(Generic[AnyPoint]):
    """A point, its slacks (n,) and the multipliers of its groups."""

    point: AnyPoint
    slack: Array
    multipliers: Array


def _centred(program: Program[AnyPoint], point: AnyPoint) -> _Iterate[AnyPoint]:
    """The first iterate: multipliers above all gradients, and no x * slack far below the mean."""
    reduced = point.gradient - program.cost
    # 2 % above the largest gradient, so that no slack is zero at the start
    multipliers = np.array([1.02 * np.max(reduced[group > 0]) for group in program.groups.T])
    # 1.02 times a negative gradient is less than the gradient, so the slack needs a floor
    slack = np.maximum(program.groups @ multipliers - reduced, 1e-3 * np.abs(reduced) + 1e-300)
    least = _LEAST_CENTRALITY * float(np.mean(point.x * slack)) / point.x
    return _Iterate(point, np.maximum(slack, least), multipliers)


def _newton(
    program: Program[AnyPoint], at: _Iterate[AnyPoint], gap: float
) -> tuple["_Step", Array, int]:
    """Predictor and corrector for x * slack = mu, at a point whose certified gap is ``gap``.

    The corrector also accounts for the second-order change of the gradient. The correction of
    x * slack is recomputed if that makes the step longer. Returns the step, the change of
    the multipliers and the number of products with the Hessian.
    """
    x, slack = at.point.x, at.slack
    complementarity = x * slack
    mu = float(complementarity.mean())
    mass = x * _dual_residual(program, at)
    missing = 1.0 - program.groups.T @ x
    system = at.point.newton_system(complementarity, x[:, None] * program.groups)

    def roughly(wanted: Array, bend: Array | float = 0.0) -> _Step:
        relative, _ = system.approximate(mass + wanted + bend, missing)
        slack_relative = wanted / complementarity - relative
        return _Step(relative, slack_relative, _longest(relative, slack_relative))

    first = roughly(-complementarity)
    after = (1 + first.length * first.relative) * (1 + first.length * first.slack_relative)
    ahead = float(np.mean(complementarity * after))
    off = gap * at.point.nuclear_norm / float(x @ slack)
    # Mehrotra's rule, except far from the central path, where mu must not fall that fast
    part = min(max((ahead / mu) ** 3, _SMALLEST_CENTRING, (off / _OFF_CENTRE) ** 2), 1.0)
    target = part * mu
    wanted = target - complementarity - first.correction(complementarity)
    bend: Array | float = 0.0
    if system.bends:
        second = roughly(wanted)
        most = _MOST_BEND * x * at.point.gradient
        negligible = _NEGLIGIBLE_BEND * float(complementarity.sum())
        # beyond half of the gradient itself, its second-order change is no longer accurate
        bend = np.clip(system.bend(second.length * second.relative, negligible), -most, most)
        second = roughly(wanted, bend)
        closer = target - complementarity - second.correction(complementarity)
        if roughly(closer, bend).length > second.length:
            wanted = closer
    relative, change = system.solve(mass + wanted + bend, missing, _REDUCTION)
    slack_relative = wanted / complementarity - relative
    longest = min(1.0, _LONGEST * _longest(relative, slack_relative))
    return _Step(relative, slack_relative, longest), change, system.products


@dataclass(frozen=True, eq=False)
class _Step:
    """A Newton step, exact or estimated from the preconditioner alone.

    Attributes
    ----------
    relative, slack_relative : numpy.ndarray, shape (n,)
        The changes of x and of the slacks, as shares of x and of the slacks.
    length : float
        The largest share of the step that may be taken, at most 1.
    """

    relative: Array
    slack_relative: Array
    length: float

    def correction(self, complementarity: Array) -> Array:
        """The second-order change of x * slack, clipped to ten times its mean."""
        most = 10 * float(complementarity.mean())
        return np.clip(complementarity * self.relative * self.slack_relative, -most, most)


def _move(
    program: Program[AnyPoint], at: _Iterate[AnyPoint], step: _Step, multipliers: Array
) -> tuple[_Iterate[AnyPoint] | None, int]:
    """Move along the step, shortened until f can be computed and the residual is small enough.

    Returns the new iterate, None if no length is accepted, and the number of lengths tried.
    """
    # a residual below the complementarity gap does not limit the certified bounds
    allowed = max(2 * _residual(program, at), float(at.point.x @ at.slack))

    def attempt(length: float) -> _Iterate[AnyPoint] | None:
        try:
            point = program.at(at.point.x * (1 + length * step.relative))
        except (scipy.linalg.LinAlgError, ValueError):
            return None
        slack = at.slack * (1 + length * step.slack_relative)
        moved = _Iterate(point, slack, at.multipliers + length * multipliers)
        return moved if _residual(program, moved) <= allowed else None

    return backtrack(attempt, step.length, least=_SMALLEST_STEP)


def _residual(program: Program[AnyPoint], at: _Iterate[AnyPoint]) -> float:
    return float(np.sum(np.abs(at.point.x * _dual_residual(program, at))))


def _dual_residual(program: Program[AnyPoint], at: _Iterate[AnyPoint]) -> Array:
    return at.point.gradient - program.cost - program.groups @ at.multipliers + at.slack


def _longest(relative: Array, slack_relative: Array) -> float:
    """The longest step, at most 1, that keeps x and the slack non-negative."""
    steepest = min(float(relative.min()), float(slack_relative.min()))
    return 1.0 if steepest >= -1.0 else -1.0 / steepest
