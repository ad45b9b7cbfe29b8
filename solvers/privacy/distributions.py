"""Noise on one number under pure ε-differential privacy: variance, its inverse, samples.

All noise here is for an answer that moves by at most one step between neighbouring databases; ε is
the privacy cost of one step. Floating-point samples are for experiments: a production release needs
an exact sampler (Mironov, CCS 2012).
"""

from dataclasses import dataclass
from numbers import Integral
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from solvers.errors import OptionError
from workloads.operators import Array

_SMALLEST = 1e-300
_FLAT = 1e-4
_STEEP = 30.0
_FAR = 100.0
_GRID = 2**16
_LARGEST_ANSWER = 10**60
"""The largest answer; its fourth power is still a float."""


@dataclass(frozen=True)
class Geometric:
    """Two-sided geometric noise: P(z) proportional to ``α^abs(z)`` on the integers, α = exp(-ε)."""

    name: Literal["geometric"] = "geometric"

    def variance(self, epsilon: ArrayLike) -> Array:
        """The variance at ε > 0, in squared steps: ``2 α / (1 - α)²``; infinite at 0."""
        eps = np.asarray(epsilon, dtype=np.float64)
        with np.errstate(divide="ignore"):
            return 2.0 * np.exp(-eps) / np.square(np.expm1(-eps))

    def epsilon(self, variance: float) -> float:
        """The ε at which ``1 / (2 sinh²(ε/2))`` is the variance: ``2 asinh((2 variance)^-1/2)``."""
        return float(2.0 * np.arcsinh(1.0 / np.sqrt(2.0 * variance)))

    def moments(self, epsilon: float) -> tuple[float, float, float]:
        """Standardised third, fourth and sixth moments: ``0, 6 + 1/v, 90 + 30/v + 1/v²``.

        v is the variance at ε.
        """
        inverse = 2.0 * float(np.sinh(min(epsilon, _STEEP) / 2.0)) ** 2
        return 0.0, 6.0 + inverse, 90.0 + 30.0 * inverse + inverse**2

    def sample(self, epsilon: float, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw differences of two geometric numbers, the integer parts of exponential numbers."""
        numbers = np.floor(rng.standard_exponential((2, *shape)) / epsilon)
        return np.asarray(numbers[0] - numbers[1])


@dataclass(frozen=True)
class Laplace:
    """Laplace noise of scale 1/ε."""

    name: Literal["laplace"] = "laplace"

    def variance(self, epsilon: ArrayLike) -> Array:
        """The variance at ε: ``2 / ε²``; infinite at 0."""
        with np.errstate(divide="ignore"):
            return 2.0 / np.square(np.asarray(epsilon, dtype=np.float64))

    def epsilon(self, variance: float) -> float:
        """The ε that gives a variance: ``(2 / variance)^1/2``."""
        return float(np.sqrt(2.0 / variance))

    def moments(self, epsilon: float) -> tuple[float, float, float]:
        """Standardised third, fourth and sixth moments: ``0, 6, 90``."""
        return 0.0, 6.0, 90.0

    def sample(self, epsilon: float, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draws by NumPy's Laplace generator."""
        return rng.laplace(scale=1.0 / epsilon, size=shape)


Measure = Literal["variance", "expected-squared-error"]
"""The measure of error that targets of `TruncatedGeometric` bound."""


@dataclass(frozen=True)
class TruncatedGeometric:
    """Two-sided geometric noise whose results are clamped to 0..n.

    Its error is the largest over all answers.

    On a line it is the tight-constraints mechanism (ElSalamouny et al., section 5). Let
    G be the noise before clamping, with P(G > t) = α^(t+1) / (1 + α). At an answer with i steps
    below and n - i steps above it,

    - the expected squared error is S(i) + S(n-i), S(k) = sum over t < k of (2t+1) P(G > t);
    - the bias is T(n-i) - T(i), T(k) = sum over t < k of P(G > t).

    The increments of S(i) + S(n-i) in i change sign at most once before the middle, from
    negative to positive, so the largest expected squared error is at an end or in the
    middle. The variance is largest in the middle, because G is symmetric and its
    distribution function log-concave.

    Attributes
    ----------
    n : int
        The largest answer, at least 1.
    measure : {"variance", "expected-squared-error"}
        The measure that the targets bound. Clamping biases all answers except the middle one, and
        the variance excludes that bias; for an unbiased mechanism the two are equal.
    """

    n: int
    measure: Measure = "variance"
    name: Literal["truncated-geometric"] = "truncated-geometric"

    def __post_init__(self) -> None:
        if not (isinstance(self.n, Integral) and 1 <= self.n <= _LARGEST_ANSWER):
            raise OptionError(
                f"n is {self.n}; expected a largest answer, a whole number from 1 to 10^60"
            )

    def worst_answer(self, epsilon: float) -> int:
        """The answer, at most n/2, with the largest variance or expected squared error."""
        middle = self.n // 2
        if self.measure == "variance":
            return middle
        eps = np.asarray(epsilon, dtype=np.float64)
        return 0 if self._squared_error(eps, 0) > self._squared_error(eps, middle) else middle

    def variance(self, epsilon: ArrayLike) -> Array:
        """Variance or expected squared error of the worst answer; n²/4 or n²/2 at ε = 0."""
        eps = np.asarray(epsilon, dtype=np.float64)
        middle = self.n // 2
        central = self._squared_error(eps, middle)
        if self.measure == "variance":
            return central - np.square(self._bias(eps))
        return np.maximum(central, self._squared_error(eps, 0))

    def epsilon(self, variance: float) -> float:
        """The least ε with that variance, by Brent's method; unclamped noise gives its bounds."""
        if float(self.variance(0.0)) <= variance:
            return 0.0
        highest = Geometric().epsilon(variance)
        lowest = highest
        while float(self.variance(lowest)) <= variance:
            lowest /= 2.0
        return float(
            scipy.optimize.brentq(
                lambda eps: float(np.log(self.variance(eps) / variance)),
                lowest,
                2.0 * highest,
                xtol=1e-300,
                rtol=1e-14,
            )
        )

    def moments(self, epsilon: float) -> tuple[float, float, float]:
        """Standardised third, fourth and sixth moments of the errors that `sample` draws.

        If there are very many possible errors, the moments are computed on a grid of them.
        """
        answer, epsilon = self.worst_answer(epsilon), min(max(epsilon, _SMALLEST), _STEEP)
        below, above = (min(float(k), _FAR / epsilon) for k in (answer, self.n - answer))
        errors = np.unique(np.rint(np.linspace(-below, above, _GRID)))
        edges = np.floor((errors[1:] + errors[:-1]) / 2) + 1
        tail = np.exp(-epsilon * np.maximum(edges, 1 - edges)) / (1 + np.exp(-epsilon))
        chances = -np.diff(np.where(edges > 0, tail, 1 - tail), prepend=1.0, append=0.0)
        if self.measure == "variance":
            errors = errors - chances @ errors
        return standardised_moments(errors, chances)

    def sample(self, epsilon: float, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Errors of the worst answer, minus their mean if the variance is the measure."""
        answer = self.worst_answer(epsilon)
        below, above = -float(answer), float(self.n - answer)
        if epsilon <= 0:
            errors: Array = rng.choice(np.array([below, above]), shape)
        else:
            errors = np.clip(Geometric().sample(epsilon, shape, rng), below, above)
        return errors - self._bias(epsilon) if self.measure == "variance" else errors

    def _bias(self, epsilon: ArrayLike) -> Array:
        """Bias of the middle answer, which is half a step below the centre if n is odd.

        T(k), the sum over t < k of P(G > t), is ``α (1 - α^k) / (1 - α²)``, and k/2 at ε = 0.
        """
        eps, middle = np.maximum(np.asarray(epsilon, dtype=np.float64), _SMALLEST), self.n // 2
        above, below = (np.expm1(-k * eps) / np.expm1(-2 * eps) for k in (self.n - middle, middle))
        return np.asarray(np.exp(-eps) * above - np.exp(-eps) * below)

    def _squared_error(self, eps: Array, answer: int) -> Array:
        return _squared_up(eps, answer) + _squared_up(eps, self.n - answer)


Noise = Geometric | Laplace | TruncatedGeometric
"""Noise on one number, parametrised by the ε that one step may cost."""


def standardised_moments(errors: Array, chances: Array) -> tuple[float, float, float]:
    """Third, fourth and sixth moments of the errors, in units of their root mean square."""
    units = errors / np.sqrt(chances @ np.square(errors))
    third, fourth, sixth = (float(chances @ units**k) for k in (3, 4, 6))
    return third, fourth, sixth


def _squared_up(eps: Array, k: int) -> Array:
    """Sum over t < k of (2t+1) P(G > t): ``α/(1-α) [(1-α^k)/(1-α) - 2k α^k/(1+α)]``.

    If k ε is so small that the two terms cancel, it uses the power series of α^(t+1).
    """
    flat = k * eps < _FLAT
    safe = np.where(flat, 1.0, eps)
    complement = -np.expm1(-safe)
    powers = -np.expm1(-k * safe) / complement - 2 * k * np.exp(-k * safe) / (1 + np.exp(-safe))
    first = k * (4 * k**2 + 3 * k - 1) / 6
    second = k * (k + 1) * (3 * k**2 + k - 1) / 6
    series = (k**2 - first * eps + second * np.square(eps) / 2) / (1 + np.exp(-eps))
    return np.asarray(np.where(flat, series, np.exp(-safe) / complement * powers))
