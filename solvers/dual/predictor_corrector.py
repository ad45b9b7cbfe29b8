"""A primal-dual interior-point method that finds optimal dual weights.

It maximises ``2 f(x) - cost . x`` over weights x >= 0, where the weights of each group sum to one.
Mehrotra's predictor-corrector method solves ``x * slack = mu`` while mu decreases to zero. The
function f is the nuclear norm of `matrix_blocks.MatrixBlocks` or of `scalar_blocks.ScalarBlocks`.
A `DualPoint` is f evaluated at some x; it also builds the Newton system at x.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import scipy

from solvers.dual.iteration import Stop, Stopping, Trace, traced
from solvers.dual.newton_system import ConstrainedSystem, PreconditionedSystem
from workloads.operators import Array


class DualPoint(Protocol):
    """The function f, evaluated at given weights."""

    @property
    def x(self) -> Array:
        """The free weights, shape (n,)."""

    @property
    def nuclear_norm(self) -> float:
        """The value of f."""

    @property
    def gradient(self) -> Array:
        """The gradient of 2f with respect to the free weights, shape (n,)."""

    def newton_system(self, diagonal: Array, constraints: Array) -> ConstrainedSystem:
        """Return the Newton system at this point.

        The positive ``diagonal`` (n,) is added to the Hessian of -2f; ``constraints`` are those of
        `ConstrainedSystem`.
        """


AnyPoint = TypeVar("AnyPoint", bound=DualPoint)


@dataclass(frozen=True, eq=False)
class Program(Generic[AnyPoint]):
    """A program: maximise ``2 f(x) - cost . x`` over x >= 0, where each group sums to one.

    Attributes
    ----------
    at : callable
        Computes the point at weights x; raises LinAlgError or ValueError if f cannot be computed.
    cost : numpy.ndarray, shape (n,)
        Linear cost of the free weights.
    groups : numpy.ndarray, shape (n, number of groups)
        One column for each group: 1 for the weights in the group and 0 for all others.
    """

    at: Callable[[Array], AnyPoint]
    cost: Array
    groups: Array


def multiplicative_step(
    x: Array, gradient: Array, groups: Array, *, relaxation: float = 1.0, floor: float = 1e-3
) -> Array:
    """Take one step ``x <- x * gradient**relaxation``, and renormalise each group.

    The smallest weight allowed in a group is ``floor`` divided by the group's size; smaller weights
    are raised to it. Apart from this minimum, the fixed points of this step are the optima of a
    program without linear cost. A ``relaxation`` above one makes the step longer.
    """
    sizes = groups.sum(axis=0)
    moved = x * gradient**relaxation
    for _ in range(2):
        moved = np.maximum(moved / (groups @ (groups.T @ moved)), floor * (groups @ (1 / sizes)))
    return moved / (groups @ (groups.T @ moved))


@dataclass(frozen=True, eq=False)
class Optimum(Generic[AnyPoint]):
    """The result of the interior-point method.

    Attributes
    ----------
    lower, upper : float
        The best certified bounds.
    proof : DualPoint
        The point whose weights prove ``lower``.
    best : DualPoint
        The point whose inner solution has the value ``upper``.
    trace : Trace
        The upper bound at every point, and the best lower bound so far.
    iterations : int
        Number of Newton steps.
    factorisations : int
        Number of points computed, including the first.
    products : int
        Number of products with the Hessian.
    stop : Stop
        Why the run ended.
    """

    lower: float
    upper: float
    proof: AnyPoint
    best: AnyPoint
    trace: Trace
    iterations: int = 0
    factorisations: int = 1
    products: int = 0
    stop: Stop = Stop.CONVERGED

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


# The panel below: 64 and 128 cells of the chosen part of `benchmarks.panel`, six of its kinds, and
# 60 matrices with entries over up to 18 decades. It takes 465 Newton steps and 567 products.
_LONGEST = 0.99
"""Largest step, as a share of the step that would make a weight or a slack zero.

The panel takes 626 steps with 0.9 and 468 steps with 591 products with 0.999.
"""
_OFF_CENTRE = 1000.0
"""Ratio of the certified gap to the complementarity gap above which a step does not reduce mu.

The ratio is large if tiny weights are far from the central path. Below this limit, a step
multiplies mu by at least ``(ratio / limit)**2``. The two halves of `benchmarks.panel` (64 and 128
cells) take 640 and 251 Newton steps with a limit of 1000, 640 and 248 with a limit of 300, and 650
and 260 with a limit of 100. With these limits, marginals take 115, 143 and 156 steps.
"""
_SMALLEST_CENTRING = 1e-4
"""Least factor by which a step multiplies mu.

The panel takes 493 steps with 1e-2, and 469 with 1e-6.
"""
_SMALLEST_STEP = 1e-4
"""Shortest step that is tried, after 13 halvings; the panel is the same with 1e-2 and 1e-6."""
_LEAST_CENTRALITY = 0.01
"""Least entry of x * slack at the start, relative to the mean of its entries.

The panel takes 502 steps with 0.3, and 466 with 1e-4.
"""
_REDUCTION = 0.003
"""Reduction of a Newton system's residual if the preconditioner includes all couplings.

The panel takes 534 steps and 643 products with 0.03, 461 steps and 712 products with 0.0003.
"""
_REDUCTION_BY_PRODUCTS = 0.03
"""Reduction of the residual otherwise: a step then takes ten to forty products with the Hessian.

All ranges of 512 cells to a gap of 1e-4 take 8 steps and 289 products with a reduction of 0.003, 9
and 171 with 0.03, 15 and 250 with 0.3. Ranges of 128 and 256 cells to gaps of 1e-6 to 1e-10 and
tables of two ordered attributes take 60 to 70 % of the products that they take with 0.003.
"""
_MOST_BEND = 0.5
"""Largest second-order change of an entry of the gradient that is believed, as a share of it.

The panel takes 463 steps with 0.1 and 498 with 5.
"""
_NEGLIGIBLE_BEND = 0.002
"""Smallest bend for which a step is corrected, as a share of the sum of x * slack.

The bend is the second-order change of the gradient, multiplied by x and summed. For prefix queries
the bend is below this limit after a step or two; for range queries it is ten times larger.
"""


def maximise(
    program: Program[AnyPoint],
    start: AnyPoint,
    bounds: Callable[[AnyPoint], tuple[float, float]],
    stopping: Stopping,
) -> Optimum[AnyPoint]:
    """Maximise until the certified bounds agree to the tolerance.

    Parameters
    ----------
    program : Program
        The objective and its constraints.
    start : DualPoint
        A point whose weights are all positive.
    bounds : callable
        Returns the certified lower and upper bound at a point.
    stopping : Stopping
        The rule by which the run ends.

    Returns
    -------
    Optimum
    """
    reduced = start.gradient - program.cost
    # 2 % above the largest gradient of each group, so that no slack is zero at the start
    multipliers = np.array([1.02 * np.max(reduced[group > 0]) for group in program.groups.T])
    # a negative gradient times 1.02 is less than the gradient, so the slack needs a floor
    slack = np.maximum(program.groups @ multipliers - reduced, 1e-3 * np.abs(reduced) + 1e-300)
    least = _LEAST_CENTRALITY * float(np.mean(start.x * slack)) / start.x
    at = _Iterate(program, start, np.maximum(slack, least), multipliers)
    lower, upper, proof, best = 0.0, np.inf, start, start
    factorisations, products, iterations = 1, 0, 0
    reached: list[float] = []
    proven: list[float] = []
    seconds = 0.0  # of the last step
    while True:
        low, high = bounds(at.point)
        if low > lower:
            lower, proof = low, at.point
        if high < upper:
            upper, best = high, at.point
        reached.append(high)
        proven.append(lower)
        # the factors of the answer and their check take about as long as a step
        stop = stopping.reason(lower, upper, iterations, ahead=2 * seconds)
        if stop is not None:
            break
        started = time.perf_counter()
        step, change, taken = _newton(at, high / low - 1)
        products += taken
        moved, trials = _move(at, step, change)
        factorisations += trials
        if moved is None:
            stop = Stop.STALLED
            break
        at = moved
        iterations += 1
        seconds = time.perf_counter() - started
    trace = traced(reached, proven)
    return Optimum(lower, upper, proof, best, trace, iterations, factorisations, products, stop)


class _Iterate(Generic[AnyPoint]):
    """A point of a program, with slacks (n,) and one multiplier for each group.

    Attributes
    ----------
    mass : numpy.ndarray, shape (n,)
        x times the residual of the dual constraints. The residual of a weight is its gradient,
        minus its cost, minus the multiplier of its group, plus its slack.
    residual : float
        The sum of the absolute values of ``mass``.
    """

    def __init__(
        self, program: Program[AnyPoint], point: AnyPoint, slack: Array, multipliers: Array
    ) -> None:
        self.program, self.point = program, point
        self.slack, self.multipliers = slack, multipliers
        reduced = point.gradient - program.cost
        self.mass = point.x * (reduced - program.groups @ multipliers + slack)
        self.residual = float(np.abs(self.mass).sum())


def _newton(at: _Iterate[AnyPoint], gap: float) -> tuple["_Step", Array, int]:
    """Return the Newton step towards x * slack = mu, by Mehrotra's predictor and corrector.

    The corrector also accounts for the second-order change of the gradient. A second correction of
    x * slack is used if it makes the step longer. ``gap`` is the certified relative gap of the
    iterate. Returns the step, the change of the multipliers and the number of products with the
    Hessian.
    """
    x, slack, groups = at.point.x, at.slack, at.program.groups
    complementarity = x * slack
    mu = float(complementarity.mean())
    missing = 1.0 - groups.T @ x
    system = at.point.newton_system(complementarity, x[:, None] * groups)

    def roughly(wanted: Array, bend: Array | float = 0.0) -> _Step:
        relative, _ = system.approximate(at.mass + wanted + bend, missing)
        return _Step(relative, wanted / complementarity - relative)

    # 1. predictor: towards mu = 0, by the preconditioner alone; it tells how far mu can decrease
    first = roughly(-complementarity)
    after = (1 + first.length * first.relative) * (1 + first.length * first.slack_relative)
    ahead = float(np.mean(complementarity * after))
    off = gap * at.point.nuclear_norm / float(x @ slack)
    # Mehrotra's rule; far from the central path, mu must decrease more slowly
    part = min(max((ahead / mu) ** 3, _SMALLEST_CENTRING, (off / _OFF_CENTRE) ** 2), 1.0)
    target = part * mu
    # 2. corrector: towards target, without the predictor's δx * δslack
    wanted = target - complementarity - first.correction(complementarity)
    bend: Array | float = 0.0
    reduction = _REDUCTION_BY_PRODUCTS
    if isinstance(system, PreconditionedSystem) and system.bends:
        reduction = _REDUCTION
        # 3. the gradient's second-order change, and a newer δx * δslack if it makes the step longer
        second = roughly(wanted)
        most = _MOST_BEND * x * at.point.gradient
        negligible = _NEGLIGIBLE_BEND * float(complementarity.sum())
        # a second-order change of more than half of the gradient would be inaccurate
        bend = np.clip(system.bend(second.length * second.relative, negligible), -most, most)
        second = roughly(wanted, bend)
        closer = target - complementarity - second.correction(complementarity)
        if roughly(closer, bend).length > second.length:
            wanted = closer
    # 4. the exact system, with this right side
    relative, change = system.solve(at.mass + wanted + bend, missing, reduction)
    return _Step(relative, wanted / complementarity - relative), change, system.products


class _Step:
    """A Newton step, exact or estimated from the preconditioner alone.

    Attributes
    ----------
    relative, slack_relative : numpy.ndarray, shape (n,)
        The relative changes of x and of the slacks.
    length : float
        The largest share of the step, at most 1, that keeps x and the slacks non-negative.
    """

    def __init__(self, relative: Array, slack_relative: Array) -> None:
        self.relative, self.slack_relative = relative, slack_relative
        self.length = -1 / float(np.minimum(relative, slack_relative).min(initial=-1.0))

    def correction(self, complementarity: Array) -> Array:
        """Return the second-order change of x * slack, clipped to ten times the mean x * slack.

        ``complementarity`` is x * slack before the step.
        """
        most = 10 * float(complementarity.mean())
        return np.clip(complementarity * self.relative * self.slack_relative, -most, most)


def _move(
    at: _Iterate[AnyPoint], step: _Step, multipliers: Array
) -> tuple[_Iterate[AnyPoint] | None, int]:
    """Move along the step, shortened until f can be computed and the residual is small enough.

    Returns the new iterate (None if no length is accepted) and the number of lengths tried.
    """
    # the certified bounds do not suffer from a residual below the complementarity gap
    allowed = max(2 * at.residual, float(at.point.x @ at.slack))

    length, trials = _LONGEST * step.length, 0
    while length > _SMALLEST_STEP:
        trials += 1
        with suppress(scipy.linalg.LinAlgError, ValueError):
            point = at.program.at(at.point.x * (1 + length * step.relative))
            slack = at.slack * (1 + length * step.slack_relative)
            moved = _Iterate(at.program, point, slack, at.multipliers + length * multipliers)
            if moved.residual <= allowed:
                return moved, trials
        length /= 2
    return None, trials
