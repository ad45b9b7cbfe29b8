"""The accuracy of a mechanism at a privacy budget (ε, δ), and the ε at which its targets are met.

A problem is solved once by a mechanism; the mechanism's budget curve then gives its accuracy at any
budget. A sweep stores the fields of the curve; the field ``kind`` names the curve's class, and
`from_record` restores the curve from its fields. var_j and c_j are the variance and the target of
query j.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike

from solvers.privacy import gaussian
from solvers.privacy.distributions import Distribution
from solvers.privacy.privacy_loss import Bracket, Moves
from workloads.operators import Array

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@dataclass(frozen=True)
class GaussianBudget:
    """The budget curve of a Gaussian mechanism, from the exact condition in `solvers.privacy`.

    Attributes
    ----------
    squared_privacy_cost : float
        Δ² when all targets are just met; if it is NaN, so are all results.
    """

    squared_privacy_cost: float
    kind: Literal["gaussian"] = "gaussian"

    def epsilon_at_targets(self, delta: ArrayLike) -> Array:
        """Return the least ε at which all targets are met, for each ``delta``."""
        return np.asarray(gaussian.epsilon(np.sqrt(self.squared_privacy_cost), delta))

    def variance_ratio_at_budget(self, epsilon: ArrayLike, delta: ArrayLike) -> Array:
        """Return the largest var_j/c_j at a budget: ``squared_privacy_cost`` over its Δ²."""
        allowed = np.square(gaussian.privacy_cost(epsilon, delta))
        return np.asarray(self.squared_privacy_cost / allowed)


@dataclass(frozen=True)
class PureBudget:
    """The budget curve of a pure ε-private mechanism by plain composition; δ has no effect.

    Attributes
    ----------
    noise : Distribution
        The noise on one number, as a function of the ε of one step.
    sensitivity : float
        The mechanism's ε divided by the ε of one step.
    factor : float
        max_j var_j/c_j if the noise on one number has variance 1.
    """

    noise: Distribution
    sensitivity: float
    factor: float
    kind: Literal["pure"] = "pure"

    @property
    def epsilon(self) -> float:
        """Least ε at which all targets are met."""
        return self.sensitivity * self.noise.epsilon(1.0 / self.factor)

    def step(self, epsilon: float, delta: float) -> float:
        """Return the ε of an answer that changes by one unit, at a budget; δ is not used."""
        return epsilon / self.sensitivity

    def rescaled(self, step: float) -> "PureBudget":
        """Return the curve for the targets that the noise just meets at this ε of one step."""
        with np.errstate(divide="ignore"):
            return replace(self, factor=float(1.0 / self.noise.variance(step)))

    def epsilon_at_targets(self, delta: ArrayLike) -> Array:
        """Return `epsilon` for each ``delta``; it does not depend on δ."""
        return np.full(np.shape(delta), self.epsilon)

    def variance_ratio_at_budget(self, epsilon: ArrayLike, delta: ArrayLike) -> Array:
        """Return the largest var_j/c_j at a budget; it does not depend on δ."""
        eps, _ = np.broadcast_arrays(np.asarray(epsilon, dtype=np.float64), np.asarray(delta))
        return np.asarray(self.factor * self.noise.variance(eps / self.sensitivity))


@dataclass(frozen=True)
class LossBudget:
    """The budget curve of a pure ε-private mechanism, from its privacy loss distribution.

    Every result is a guarantee, since it uses the upper end of the `bracket` around ε. At δ = 0 the
    results are those of plain composition.

    Attributes
    ----------
    pure : PureBudget
        The curve of the same noise by plain composition.
    moves : Moves
        How far neighbours move the numbers that get noise.
    """

    pure: PureBudget
    moves: Moves
    kind: Literal["privacy-loss"] = "privacy-loss"

    def bracket(self, delta: float) -> Bracket:
        """Certified bounds on the least ε at which all targets are met, for δ in (0, 1)."""
        step = self.pure.epsilon / self.pure.sensitivity
        if step == 0:
            return Bracket(0.0, 0.0)
        found = self.moves.epsilon(step, delta)
        return Bracket(found.lower, min(found.upper, self.pure.epsilon))

    def step(self, epsilon: float, delta: float) -> float:
        """Return the largest ε of one step that is certified to be (ε, δ)-private."""
        composed = self.pure.step(epsilon, delta)
        return max(self.moves.step(epsilon, delta), composed) if delta > 0 else composed

    def rescaled(self, step: float) -> "LossBudget":
        """Return the curve for the targets that the noise just meets at this ε of one step."""
        return replace(self, pure=self.pure.rescaled(step))

    def epsilon_at_targets(self, delta: ArrayLike) -> Array:
        """Upper bound on the least ε at which all targets are met, for each ``delta``."""

        def upper(delta: float) -> float:
            return self.bracket(delta).upper if delta > 0 else self.pure.epsilon

        return np.asarray(np.vectorize(upper, otypes=[np.float64])(delta))

    def variance_ratio_at_budget(self, epsilon: ArrayLike, delta: ArrayLike) -> Array:
        """Return the largest var_j/c_j of the least noise certified to be (ε, δ)-private."""
        steps = np.vectorize(self.step, otypes=[np.float64])(epsilon, delta)
        return np.asarray(self.pure.factor * self.pure.noise.variance(steps))


@dataclass(frozen=True)
class NoBudget:
    """The budget curve of a mechanism that claims no (ε, δ) guarantee."""

    reason: str
    kind: Literal["none"] = "none"

    def epsilon_at_targets(self, delta: ArrayLike) -> Array:
        """Return infinity for every δ: no finite ε is claimed."""
        return np.full(np.shape(delta), np.inf)

    def variance_ratio_at_budget(self, epsilon: ArrayLike, delta: ArrayLike) -> Array:
        """Return infinity for every budget: no variance gives a finite ε."""
        return np.full(np.broadcast_shapes(np.shape(epsilon), np.shape(delta)), np.inf)


@dataclass(frozen=True)
class MeasuredBudget:
    """The budget curve of a mechanism whose errors were measured at one ε, with δ = 0.

    Attributes
    ----------
    ratio : float
        max_j error_j/c_j at this ε, where error_j is the measured mean squared error of query j.
    """

    epsilon: float
    ratio: float
    kind: Literal["measured"] = "measured"

    def epsilon_at_targets(self, delta: ArrayLike) -> Array:
        """Return NaN for every δ: the ε that just meets the targets was not measured."""
        return np.full(np.shape(delta), np.nan)

    def variance_ratio_at_budget(self, epsilon: ArrayLike, delta: ArrayLike) -> Array:
        """Return ``ratio`` at the measured ε, for every δ, and NaN at every other ε."""
        eps, _ = np.broadcast_arrays(np.asarray(epsilon, dtype=np.float64), np.asarray(delta))
        return np.where(np.isclose(eps, self.epsilon, rtol=1e-9, atol=0.0), self.ratio, np.nan)


BudgetCurve = GaussianBudget | PureBudget | LossBudget | NoBudget | MeasuredBudget
"""A budget curve: it gives a mechanism's largest variance ratio max_j var_j/c_j at (ε, δ)."""


def from_record(curve: Mapping[str, object]) -> BudgetCurve:
    """Restore a budget curve from its fields.

    Parameters
    ----------
    curve : Mapping
        The fields of a curve, for instance ``solution.record()["curve"]``.

    Raises
    ------
    ValueError
        If the ``kind`` of the curve is unknown.
    """
    return _known().validate_python(dict(curve))


@cache
def _known() -> "TypeAdapter[BudgetCurve]":
    from pydantic import Field, TypeAdapter

    return TypeAdapter(Annotated[BudgetCurve, Field(discriminator="kind")])
