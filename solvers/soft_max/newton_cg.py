"""Algorithms 1 to 3 of PVLDB 14(10): Newton's method on the covariance by conjugate gradients.

The listing of Algorithm 1 takes a step even after it has raised the sharpness t. The direction of
this step was computed for the old t, so the objective need not decrease along it. This module
follows the text of the paper, in which no step is taken then. The paper does not specify the
constants in `Settings` or the coordinates (`solvers.soft_max.objective`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np

from solvers.dual.iteration import (
    NEVER,
    Deadline,
    Stop,
    Stopping,
    Trace,
    sufficient_decrease,
    traced,
)
from solvers.dual.programs import Weights
from solvers.soft_max.objective import AnyIterate, Iterate, Model, SoftMax
from workloads.operators import Array
from workloads.operators.blas import inner
from workloads.parameters import Bounds, Count, NotNegative, Positive, Share

Bound = Callable[[Weights], float]
T2Rule = Literal["paper", "code"]

_SMALLEST_STEP = 1e-14
"""Shortest step that is tried: a shorter one changes hardly a digit.

The ten problems of the numbers below are solved to gaps of 1e-3 and 1e-6: ranges, prefixes,
products of low rank, marginals, and identity with total, of 20 to 81 cells, with equal and
different targets. They take the same steps with 1e-6.
"""
_REDUCTION = 0.03
"""Reduction of the residual by conjugate gradients, in the norm of the preconditioner.

The problems take 999 steps and 8682 products with 0.1, 831 and 9886 with 0.03, 729 and 10 092 with
0.01.
"""
_LEVEL_END = 1e-3
"""Largest Newton decrement, times t, at which a level ends: the authors' NTTOL at t = 1.

The problems take 831 steps with 1e-2 too, and 875 with 1e-4.
"""
_LEAST_LEVEL_END = 1e-8
"""Least such decrement, however small the tolerance: a level's minimiser need not be more exact.

The problems take the same steps with 1e-6 and 1e-10.
"""
_SHARPEST = 1e15
"""Sharpness times objective above which a level is the last one.

The soft maximum of n numbers then exceeds the maximum by a share of at most ``log(n) / 1e15``.
"""


@dataclass(frozen=True)
class Settings:
    """The constants of Algorithms 1 to 3; they are options of SM-II (`solvers.mechanisms.sm2`).

    Attributes
    ----------
    tol : float
        Certified relative gap at which to stop; with 0 nothing is certified.
    max_iterations : int
        Largest number of Newton steps.
    mu : float
        MU: the factor by which the sharpness t1 grows from level to level.
    nttol : float, optional
        NTTOL: a level ends once the Newton decrement ``|<s, gradient>|`` is below NTTOL; default:
        ``tol``/t, but at least 1e-8/t and at most 0.001/t.
    softmax_tol : float
        TOL: the last level is the first with ``(d + m) / t1`` below TOL.
    first_t : float, optional
        The first t1 and t2; default: one over the largest profile entry or variance ratio of the
        first covariance.
    t2_rule : {"paper", "code"}
        The rule for t2 after the first level: equal to t1, or MU times t1.
    extrapolated : bool
        Whether a level begins where the path of the minimisers is expected, to first order in 1/t,
        instead of at the last minimiser.
    sigma, beta : float
        Constant of the sufficient decrease, and shrinking factor, of the line search.
    max_cg : int, optional
        MAXCG, the largest number of conjugate gradient steps; by default they run until converged.
    tol2 : float
        TOL2, the squared residual at which conjugate gradients end.
    """

    tol: NotNegative = 1e-3
    max_iterations: Count = 10_000
    mu: Annotated[float, Bounds(gt=1, lt=math.inf)] = 3.0
    nttol: Positive | None = None
    softmax_tol: NotNegative = 0.0
    first_t: Positive | None = None
    t2_rule: T2Rule = "paper"
    extrapolated: bool = True
    sigma: Share = 0.01
    beta: Share = 0.5
    max_cg: Annotated[int, Bounds(ge=1)] | None = None
    tol2: NotNegative = 0.0

    def level_end(self, objective: SoftMax) -> float:
        """Return the threshold for ``|<s, gradient>|`` below which a level ends.

        Here s is the direction that Algorithm 2 computes.
        """
        if self.nttol is not None:
            return self.nttol
        share = min(max(self.tol, _LEAST_LEVEL_END), _LEVEL_END)
        return share / max(objective.t1, objective.t2)

    def first_level(self, plain: SoftMax, start: Iterate) -> SoftMax:
        """Return the objective with the sharpness at which Algorithm 1 begins."""
        t = self.first_t or 1 / max(float(start.profile.max()), float(start.ratios.max()))
        return plain.sharpened(t, t)

    def sharpened(self, objective: SoftMax) -> SoftMax:
        """Return the objective with the sharpness of the next level."""
        t1 = self.mu * objective.t1
        return objective.sharpened(t1, t1 if self.t2_rule == "paper" else self.mu * t1)


def conjugate_gradient(
    model: Model[AnyIterate], right: Array, settings: Settings, deadline: Deadline = NEVER
) -> tuple[Array, int]:
    """Algorithm 2: solve ``Hessian @ s = right``; return s and the number of products needed.

    The Hessian is positive definite. If rounding leaves no positive curvature along the search
    direction, or the deadline passes, the current s is returned.
    """
    residual = right
    search = ready = model.precondition(residual)
    step, products = np.zeros_like(right), 0
    energy = inner(residual, ready)
    enough = _REDUCTION**2 * energy if settings.max_cg is None else 0.0
    most = right.size if settings.max_cg is None else settings.max_cg
    while products < most and energy > enough and not deadline.passed:
        image = model.product(search)
        products += 1
        curvature = inner(search, image)
        if not curvature > 0:
            break
        length = energy / curvature
        step = step + length * search
        residual = residual - length * image
        if settings.tol2 > 0 and inner(residual, residual) <= settings.tol2:
            break
        ready = model.precondition(residual)
        following = inner(residual, ready)
        search, energy = ready + following / energy * search, following
    return step, products


@dataclass(frozen=True, eq=False)
class Proof:
    """The best covariance and the best lower bound, often from different levels.

    Attributes
    ----------
    lower, upper : float
        Bounds on the square of half the least objective. If total error has no weight, these are
        bounds on the least Δ².
    iterate : Iterate, optional
        The covariance whose value is ``upper``.
    weights : Weights, optional
        The soft-max weights that prove ``lower``.
    """

    lower: float = 0.0
    upper: float = math.inf
    iterate: Iterate | None = None
    weights: Weights | None = None

    def reaches(self, tol: float) -> bool:
        """Return whether the relative gap is at most ``tol``."""
        return self.upper <= self.lower * (1 + tol)

    def improved(self, at: Iterate, upper: float, weights: Weights, lower: float) -> "Proof":
        """Update the proof with this covariance and these weights where they are better."""
        proof = self
        if upper < self.upper:
            proof = replace(proof, upper=upper, iterate=at)
        if lower > self.lower:
            proof = replace(proof, lower=lower, weights=weights)
        return proof


@dataclass(frozen=True, eq=False)
class Minimised:
    """The result of Algorithm 1.

    Attributes
    ----------
    iterate : Iterate
        The best certified covariance; the last covariance if none is certified.
    iterations, products : int
        Number of directions computed, and of products with the Hessian.
    converged : bool
        Whether the certified gap is at most ``tol``.
    timed_out : bool
        Whether time ran out before the certified gap was at most ``tol``.
    trace : Trace
        The square of half the objective without smoothing, and the best lower bound so far, at the
        start of every iteration and at the end.
    """

    objective: SoftMax
    iterate: Iterate
    proof: Proof
    iterations: int
    products: int
    converged: bool
    timed_out: bool
    trace: Trace


def minimise(
    objective: SoftMax,
    start: Iterate,
    settings: Settings,
    deadline: Deadline,
    bound: Bound | None,
) -> Minimised:
    """Algorithm 1, with the gap checked at the end of every level.

    Parameters
    ----------
    deadline : Deadline
        When to stop with the current covariance.
    bound : callable, optional
        Computes the lower bound that dual weights prove; without it ``softmax_tol``
        or a limit ends the run.
    """
    at, proof, iterations, products, last_level = start, Proof(), 0, 0, False
    size = start.profile.size + start.ratios.size
    stopping = Stopping(settings.tol, settings.max_iterations, deadline)
    reached: list[float] = []
    proven: list[float] = []
    while (stop := stopping.spent(iterations)) is None:
        reached.append(objective.squared(at))
        proven.append(proof.lower)
        model = Model(objective, at)
        along, used = conjugate_gradient(model, -model.gradient, settings, deadline)
        iterations, products = iterations + 1, products + used
        slope = inner(along, model.gradient)
        if abs(slope) < settings.level_end(objective) and not deadline.passed:
            if bound:
                # Weights that are off by a factor of 1 + e lower the bound by a share of e²,
                # whatever t is: Newton's step removes their error to first order.
                of_profile, of_ratios = model.derivatives(along)
                ahead = objective.weights_of(at.profile + of_profile, at.ratios + of_ratios)
                proof = proof.improved(at, objective.squared(at), ahead, bound(ahead))
            exact = objective.t1 * objective.value(at) > _SHARPEST
            last_level = exact or size / objective.t1 < settings.softmax_tol
            if last_level or proof.reaches(settings.tol):
                break
            sharper = settings.sharpened(objective)
            if settings.extrapolated:
                at, used = extrapolate(sharper, model, settings, deadline)
                products += used
            objective = sharper
            continue
        moved = line_search(objective, model, along, slope, settings.sigma, settings.beta)
        if moved is None:
            stop = stopping.spent(iterations)
            break
        at = moved
    if bound and not proof.reaches(settings.tol):
        weights = objective.weights(at)
        proof = proof.improved(at, objective.squared(at), weights, bound(weights))
    converged = proof.reaches(settings.tol)
    timed_out = stop is Stop.TIMED_OUT and not converged
    best = proof.iterate or at
    trace = traced([*reached, objective.squared(at)], [*proven, proof.lower])
    return Minimised(objective, best, proof, iterations, products, converged, timed_out, trace)


def extrapolate(
    sharper: SoftMax, model: Model[AnyIterate], settings: Settings, deadline: Deadline = NEVER
) -> tuple[AnyIterate, int]:
    """Predict the minimiser of the next level; also return the number of products needed.

    The prediction follows the tangent of the path of minimisers, to first order in 1/t. After t has
    been raised, the soft-max weights at the old minimiser are far from those at the new one, and
    Newton's method would need a dozen steps from there; along the tangent the weights barely
    change.
    """
    shrunk = 1 - model.objective.t1 / sharper.t1
    right = -model.gradient - shrunk * model.drift
    tangent, used = conjugate_gradient(model, right, settings, deadline)
    weights, (of_profile, of_ratios) = sharper.weights(model.at), model.derivatives(tangent)
    slope = float(weights.p @ of_profile + (weights.q + sharper.omega) @ of_ratios)
    moved = line_search(sharper, model, tangent, slope, settings.sigma, settings.beta)
    return moved or model.at, used


def line_search(
    objective: SoftMax,
    model: Model[AnyIterate],
    along: Array,
    slope: float,
    sigma: float,
    beta: float,
) -> AnyIterate | None:
    """Algorithm 3: the first point along a direction that decreases F enough; None if none does."""
    ray, before = model.ray(along), objective.value(model.at)
    return sufficient_decrease(
        ray, objective.value, before, slope, sufficient=sigma, shrink=beta, least=_SMALLEST_STEP
    )
