"""A primal-dual interior point for dual weights.

Maximise ``2 f(x) - cost . x`` over weights x >= 0, some groups of which sum to one: Mehrotra's
predictor and corrector on x * slack = mu, whatever f is; its points give the Newton systems.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

import numpy as np
import scipy.linalg as sla

from solvers.backtracking import backtrack
from solvers.optimiser.program import AnyPoint, Program
from solvers.stopping import Stop, Stopping
from solvers.trace import Trace, traced
from workloads.operators import Array

_SMALLEST_CENTRING = 1e-4
_SMALLEST_STEP = 1e-4
_LEAST_CENTRALITY = 0.01
_REDUCTION = 0.003
_VANISHING = 0.3


@dataclass(frozen=True)
class _StepLimits:
    """How far steps may go.

    Attributes
    ----------
    shortest, longest : float
        Bounds on the share of the way to the boundary of the positive weights and slacks. Between
        them it is what the predictor takes off mu: where little stands in its way, more.
    off_centre : float
        So many times the complementarity gap the certified gap is where mu is kept: tiny weights
        are off the central path then. Nearer to it, mu is kept by the square of the distance.
    steady : float
        A weight of which a step leaves little is taken from its slack if that changes by less
        than this part of itself.
    """

    shortest: float
    longest: float
    off_centre: float
    steady: float

    def share(self, reduction: float) -> float:
        """Of the way to the boundary, where the predictor takes mu to that part of it."""
        return min(max(self.shortest, 1 - reduction), self.longest)

    def centring(self, reduction: float, off: float) -> float:
        """Which part of mu to aim at, the certified gap being so many times the complementarity."""
        wanted = max(reduction**3, _SMALLEST_CENTRING, (off / self.off_centre) ** 2)
        return min(wanted, 1.0)


_EXACT = _StepLimits(shortest=0.999, longest=0.999, off_centre=1000.0, steady=0.0)
_INEXACT = _StepLimits(shortest=0.9, longest=0.99, off_centre=100.0, steady=0.15)
"""On one half of `benchmarks.panel`, 64 and 128 cells, ``steady`` saves 16 of 333 Newton steps
(0.05 to 0.25 hardly differ; with no bound tables of many queries take a tenth more), and an
``off_centre`` of 100 saves 22 of 355 against 20. Marginals over twelve decades do not end with it.
"""


@dataclass(frozen=True, eq=False)
class Progress(Generic[AnyPoint]):
    """How far a run of the interior point got.

    Attributes
    ----------
    lower, upper : float
        The best certified bounds.
    proof : Point
        The point whose weights prove ``lower``.
    best : Point
        The point whose inner solution has the value ``upper``.
    iterations : int
        Newton steps taken.
    factorisations : int
        Points computed, the first included.
    products : int
        Products with the Hessian.
    stop : Stop
        Why it ended.
    trace : Trace
        The upper bound of every point, and the best lower bound so far.
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
        """``upper / lower - 1``."""
        return max(self.upper / self.lower - 1.0, 0.0)

    @property
    def converged(self) -> bool:
        """Whether the gap is at the tolerance."""
        return self.stop is Stop.CONVERGED

    @property
    def timed_out(self) -> bool:
        """Whether the time limit passed before."""
        return self.stop is Stop.TIMED_OUT


def maximise(
    program: Program[AnyPoint],
    start: AnyPoint,
    bounds: Callable[[AnyPoint], tuple[float, float]],
    stopping: Stopping,
) -> Progress[AnyPoint]:
    """Maximise until the certified bounds agree.

    Parameters
    ----------
    program : Program
        What is maximised.
    start : Point
        Positive weights.
    bounds : callable
        The certified lower and upper bound at a point.
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
        step = _newton(program, at, gap=high / low - 1)
        products += step.products
        moved, trials = _move(program, at, step)
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


@dataclass(frozen=True, eq=False)
class _Step:
    """The change of x relative to x, of slacks and multipliers, and how far to go at most.

    ``target`` is what x * slack is to become, the mean that the whole step aims at.
    """

    relative: Array
    slack: Array
    multipliers: Array
    target: float
    steady: float
    length: float
    products: int

    def ahead(self, at: _Iterate[AnyPoint], length: float) -> tuple[Array, Array]:
        """Weights and slacks after so much of the step.

        What is left of a weight that all but vanishes is known less well than its slack, if that
        hardly changes: the weight is then what the complementarity makes of the slack.
        """
        x, slack = at.point.x, at.slack + length * self.slack
        left = 1 + length * self.relative
        steady = np.abs(slack - at.slack) < self.steady * at.slack
        complementarity = (1 - length) * x * at.slack + length * self.target
        return np.where(steady & (left < _VANISHING), complementarity / slack, x * left), slack


def _centred(program: Program[AnyPoint], point: AnyPoint) -> _Iterate[AnyPoint]:
    """The point with multipliers above all gradients, no product x * slack far below the mean."""
    reduced = point.gradient - program.cost
    multipliers = np.array([1.02 * np.max(reduced[group > 0]) for group in program.groups.T])
    slack = np.maximum(program.groups @ multipliers - reduced, 1e-3 * np.abs(reduced) + 1e-300)
    least = _LEAST_CENTRALITY * float(np.mean(point.x * slack)) / point.x
    return _Iterate(point, np.maximum(slack, least), multipliers)


def _newton(program: Program[AnyPoint], at: _Iterate[AnyPoint], gap: float) -> _Step:
    """Predictor and corrector for x * slack = mu, at a point of that certified gap."""
    x, slack = at.point.x, at.slack
    complementarity = x * slack
    mu = float(complementarity.mean())
    mass = x * _dual_residual(program, at)
    missing = 1.0 - program.groups.T @ x
    system = at.point.newton_system(complementarity, x[:, None] * program.groups)
    limits = _EXACT if system.exact else _INEXACT

    relative, _ = system.approximate(mass - complementarity, missing)
    slack_step = -slack * (1 + relative)
    length = _longest(relative, slack_step / slack)
    ahead = float(np.mean(x * (1 + length * relative) * (slack + length * slack_step)))
    correction = np.clip(x * relative * slack_step, -10 * mu, 10 * mu)

    off = gap * at.point.nuclear_norm / float(x @ slack)
    target = limits.centring(ahead / mu, off) * mu
    wanted = target - complementarity - correction
    relative, change = system.solve(mass + wanted, missing, _REDUCTION)
    slack_step = wanted / x - slack * relative
    longest = limits.share(ahead / mu) * _longest(relative, slack_step / slack)
    length, products = min(1.0, longest), system.products
    return _Step(relative, slack_step, change, target, limits.steady, length, products)


def _move(
    program: Program[AnyPoint], at: _Iterate[AnyPoint], step: _Step
) -> tuple[_Iterate[AnyPoint] | None, int]:
    """Go along the step, short of the boundary and of a residual that grows."""
    allowed = max(2 * _residual(program, at), float(at.point.x @ at.slack))

    def attempt(length: float) -> _Iterate[AnyPoint] | None:
        x, slack = step.ahead(at, length)
        try:
            point = program.at(x)
        except (sla.LinAlgError, ValueError):
            return None
        moved = _Iterate(point, slack, at.multipliers + length * step.multipliers)
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
