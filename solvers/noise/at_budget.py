"""Problem 2 of PVLDB 14(10): the best accuracy that a privacy budget allows.

Theorem 5 of arXiv v1 (2 of PVLDB): a solution of Problem 1 solves Problem 2 once its noise is
multiplied by the number for which its privacy cost is the one that the budget allows. The largest
variance ratio is then the least k such that every variance can be at most k times its target.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy

from solvers.errors import NotApplicableError, OptionError
from solvers.noise.release import Release
from workloads.operators import Array

LEAST_EPSILON, MOST_EPSILON = 1e-20, 1e10
"""Least and largest ε of a budget; beyond them squared steps or tails leave the floats' range."""


@dataclass(frozen=True, eq=False)
class AtBudget:
    """A mechanism whose noise is rescaled to a privacy budget.

    Attributes
    ----------
    noise : Release
        The mechanism's noise when the targets are just met.
    variance_ratio_at_budget : float
        k of Problem 2, ``max_j variance_j / c_j``: the factor that multiplies the noise's
        variances.
    """

    mechanism: str
    noise: Release = field(repr=False)
    targets: Array = field(repr=False)
    epsilon: float
    delta: float
    variance_ratio_at_budget: float

    @cached_property
    def query_variances(self) -> Array:
        """Variance of every query's answer, shape (m,)."""
        return self.variance_ratio_at_budget * self.noise.query_variances

    @property
    def total_variance(self) -> float:
        """Sum of the query variances."""
        return self.variance_ratio_at_budget * self.noise.total_variance

    @property
    def squared_privacy_cost(self) -> float:
        """Δ² of the rescaled noise; NaN if it has no privacy cost."""
        cost = self.noise.squared_privacy_cost
        return cost / self.variance_ratio_at_budget if self.noise.gaussian else float("nan")

    @property
    def bounds(self) -> Array:
        """The bounds k c_j on the variances at this budget, in the shape of the targets."""
        return self.variance_ratio_at_budget * self.targets

    def half_widths(self, confidence: float = 0.95) -> Array:
        """Like `Solution.half_widths`, at this budget."""
        return half_widths(self.mechanism, self.noise, self.query_variances, confidence)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n vectors of errors, shape (n, m); for experiments, never for a release.

        Raises
        ------
        NotApplicableError
            If the errors are not normal.
        """
        _check_normal(self.mechanism, self.noise, "draws at a budget")
        return np.asarray(np.sqrt(self.variance_ratio_at_budget) * self.noise.draw(n, rng))


def half_widths(mechanism: str, noise: Release, variances: Array, confidence: float) -> Array:
    """Half the width of every normal confidence interval; implements `Solution.half_widths`."""
    if not 0 < confidence < 1:
        raise OptionError(
            f"confidence is {confidence!r}; expected a number between 0 and 1, such as 0.95"
        )
    _check_normal(mechanism, noise, "confidence intervals")
    quantile = float(np.sqrt(2) * scipy.special.erfinv(confidence))
    return np.asarray(quantile * np.sqrt(variances))


def _check_normal(mechanism: str, noise: Release, what: str) -> None:
    if not noise.gaussian:
        raise NotApplicableError(
            f"{mechanism}: {what} are known only for normal errors; its noise is "
            f"{type(noise).__name__}: use query_variances, or solve for other targets"
        )


def at_budget(
    mechanism: str, noise: Release, targets: Array, epsilon: float, delta: float
) -> AtBudget:
    """The noise rescaled to be just (ε, δ)-private; implements `Solution.at_budget`."""
    if not (LEAST_EPSILON <= epsilon <= MOST_EPSILON and 0 <= delta < 1):
        raise OptionError(
            f"{mechanism}: budget epsilon = {epsilon!r}, delta = {delta!r}; expected "
            f"a positive epsilon, from {LEAST_EPSILON:g} to {MOST_EPSILON:g}, and a delta from 0 "
            "to less than 1"
        )
    if delta == 0 and noise.gaussian:
        raise OptionError(
            f"{mechanism}: delta is 0, and Gaussian noise meets no budget with delta = 0; give a "
            "positive delta, for instance 1e-6, or use a pure mechanism ('laplace', 'geometric')"
        )
    ratio = float(noise.curve.variance_ratio_at_budget(epsilon, delta))
    if not np.isfinite(ratio):
        raise NotApplicableError(
            f"{mechanism}: no noise of its kind is ({epsilon:g}, {delta:g})-differentially private"
        )
    return AtBudget(mechanism, noise, targets, float(epsilon), float(delta), ratio)
