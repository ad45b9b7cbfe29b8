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
from solvers.optimiser.couplings import Couplings
from solvers.optimiser.program import AnyPoint, Program
from solvers.optimiser.progress import Progress
from solvers.optimiser.step_limits import EXACT, INEXACT, UNCOUPLED
from solvers.stopping import Stop, Stopping
from solvers.trace import traced
from workloads.operators import Array

_SMALLEST_STEP = 1e-4
_LEAST_CENTRALITY = 0.01
_REDUCTION = 0.003
_VANISHING = 0.3
_MOST_BEND = 0.5
_NEGLIGIBLE_BEND = 0.002
"""Over the sum of x * slack: prefixes are below it after a step or two, ranges ten times above."""
_NEARLY = 3.0
_SOON = 100.0
_SETTLED = 0.02
_AIM = 0.7
"""Of a gap that is so many times the goal, a step with couplings kept leaves so much of the goal.

Where the mass of the weights has changed by more than `_SETTLED` since, it takes too many products.
"""


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
    kept: _Kept | None = None
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
        gap, goal = high / low - 1, stopping.tol
        finish = None if kept is None else kept.finish(at.point, gap, goal)
        step = _newton(program, at, gap, finish, keeping=finish is None and gap <= _SOON * goal)
        products += step.products
        moved, trials = _move(program, at, step)
        kept = None if step.couplings is None else _Kept(step.couplings, at.point.x)
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
class _Finish:
    """What a step that is to be the last takes over, and which part of mu it is to leave."""

    couplings: Couplings
    part: float


@dataclass(frozen=True, eq=False)
class _Kept:
    """Couplings, and the weights x (n,) where they were computed."""

    couplings: Couplings
    x: Array

    def finish(self, point: AnyPoint, gap: float, goal: float) -> _Finish | None:
        """What they serve for at a point of that gap; None if a step of its own pays."""
        if gap > _NEARLY * goal:
            return None
        ratios, mass = point.x / self.x, point.x * point.gradient
        if mass @ np.abs(ratios - 1) > _SETTLED * mass.sum():
            return None
        return _Finish(self.couplings.scaled(ratios), _AIM * goal / gap)


@dataclass(frozen=True, eq=False)
class _Step:
    """The change of x relative to x, of slacks and multipliers, and how far to go at most.

    ``target`` is what x * slack is to become, the mean that the whole step aims at; ``couplings``
    are those of its system, where the next may need them.
    """

    relative: Array
    slack: Array
    multipliers: Array
    target: float
    steady: float
    length: float
    products: int
    couplings: Couplings | None

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


def _newton(
    program: Program[AnyPoint],
    at: _Iterate[AnyPoint],
    gap: float,
    finish: _Finish | None,
    *,
    keeping: bool,
) -> _Step:
    """Predictor and corrector for x * slack = mu, at a point of that certified gap.

    The corrector is of second order in the gradient too, unless this is to be the last step; and in
    x * slack once more, if what it changes that by lets the step go further.
    """
    x, slack = at.point.x, at.slack
    complementarity = x * slack
    mu = float(complementarity.mean())
    mass = x * _dual_residual(program, at)
    missing = 1.0 - program.groups.T @ x
    constraints, kept = x[:, None] * program.groups, None if finish is None else finish.couplings
    system = at.point.newton_system(complementarity, constraints, kept, keeping=keeping)
    limits = EXACT if system.exact else INEXACT if system.bends else UNCOUPLED

    def roughly(wanted: Array, bend: Array | float = 0.0) -> _Rough:
        relative, _ = system.approximate(mass + wanted + bend, missing)
        return _Rough(relative, wanted / complementarity - relative)

    first = roughly(-complementarity)
    ahead = float(np.mean(complementarity * first.left))
    off = gap * at.point.nuclear_norm / float(x @ slack)
    part = limits.centring(ahead / mu, off)
    target = (part if finish is None else max(part, finish.part)) * mu
    wanted = target - complementarity - first.correction(complementarity)
    bend: Array | float = 0.0
    if system.bends and finish is None:
        second = roughly(wanted)
        most = _MOST_BEND * x * at.point.gradient
        negligible = _NEGLIGIBLE_BEND * float(complementarity.sum())
        bend = np.clip(system.bend(second.length * second.relative, negligible), -most, most)
        second = roughly(wanted, bend)
        closer = target - complementarity - second.correction(complementarity)
        if roughly(closer, bend).length > second.length:
            wanted = closer
    relative, change = system.solve(mass + wanted + bend, missing, _REDUCTION)
    slack_step = wanted / x - slack * relative
    longest = limits.share(ahead / mu) * _longest(relative, slack_step / slack)
    return _Step(
        relative,
        slack_step,
        change,
        target,
        limits.steady,
        min(1.0, longest),
        system.products,
        system.couplings if keeping else None,
    )


@dataclass(frozen=True, eq=False)
class _Rough:
    """A step as the preconditioner has it: the changes of x and of slacks, relative to them."""

    relative: Array
    slack_relative: Array

    @property
    def length(self) -> float:
        """How far it can be gone."""
        return _longest(self.relative, self.slack_relative)

    @property
    def left(self) -> Array:
        """What so much of it leaves of x * slack."""
        return (1 + self.length * self.relative) * (1 + self.length * self.slack_relative)

    def correction(self, complementarity: Array) -> Array:
        """What x * slack changes by beyond the first order, none of it out of all proportion."""
        most = 10 * float(complementarity.mean())
        return np.clip(complementarity * self.relative * self.slack_relative, -most, most)


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
