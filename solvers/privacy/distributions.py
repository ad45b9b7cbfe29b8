"""Noise on one number under pure ε-differential privacy: variance at ε, ε for a variance, samples.

All noise here is for an answer that moves by at most one step between neighbouring databases; ε is
the privacy cost of one step. Floating-point samples are for experiments: a production release needs
an exact sampler (Mironov, CCS 2012).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from workloads.operators import Array

_SMALLEST = 1e-300
"""Least ε of a formula that divides by ε: its limits at 0 are reached long before."""

_FLAT = 1e-4
"""Number of steps times ε below which a power series is used.

At 1e-4 both sides have a relative error of at most 1e-12; at 1e-3 the series has one of 2e-10, and
at 1e-5 the closed form one of 3e-11.
"""

_STEEP = 30.0
"""Largest ε of moments: at 30, noise other than 0 has a probability of 2e-13."""

_FAR = 100.0
"""Errors beyond this number over ε are left out of moments: their probability is 4e-44."""

_GRID = 2**16
"""Most errors for which moments are computed one by one; more are grouped, in less than 10 ms."""


@dataclass(frozen=True)
class Geometric:
    """Two-sided geometric noise: P(z) proportional to ``α^abs(z)`` on the integers, α = exp(-ε)."""

    name: Literal["geometric"] = "geometric"

    def variance(self, epsilon: ArrayLike) -> Array:
        """Return the variance in squared steps: ``2 α / (1 - α)²``; infinite at ε = 0."""
        eps = np.asarray(epsilon, dtype=np.float64)
        with np.errstate(divide="ignore"):
            return 2.0 * np.exp(-eps) / np.square(np.expm1(-eps))

    def epsilon(self, variance: float) -> float:
        """Return the ε at which the noise has this variance: ``2 asinh((2 variance)^-1/2)``."""
        return float(2.0 * np.arcsinh(1.0 / np.sqrt(2.0 * variance)))

    def moments(self, epsilon: float) -> tuple[float, float, float]:
        """Standardised third, fourth and sixth moments: ``0, 6 + 1/v, 90 + 30/v + 1/v²``.

        Here v is the variance at ε.
        """
        inverse = 2.0 * float(np.sinh(min(epsilon, _STEEP) / 2.0)) ** 2
        return 0.0, 6.0 + inverse, 90.0 + 30.0 * inverse + inverse**2

    def sample(self, epsilon: float, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw an array of ``floor(a) - floor(b)``, with a and b exponential of mean 1/ε."""
        numbers = np.floor(rng.standard_exponential((2, *shape)) / epsilon)
        return np.asarray(numbers[0] - numbers[1])


@dataclass(frozen=True)
class Laplace:
    """Laplace noise of scale 1/ε."""

    name: Literal["laplace"] = "laplace"

    def variance(self, epsilon: ArrayLike) -> Array:
        """Return the variance: ``2 / ε²``; infinite at ε = 0."""
        with np.errstate(divide="ignore"):
            return 2.0 / np.square(np.asarray(epsilon, dtype=np.float64))

    def epsilon(self, variance: float) -> float:
        """Return the ε at which the noise has this variance: ``(2 / variance)^1/2``."""
        return float(np.sqrt(2.0 / variance))

    def moments(self, epsilon: float) -> tuple[float, float, float]:
        """Standardised third, fourth and sixth moments: ``0, 6, 90``."""
        return 0.0, 6.0, 90.0

    def sample(self, epsilon: float, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw an array with NumPy's Laplace generator."""
        return rng.laplace(scale=1.0 / epsilon, size=shape)


Measure = Literal["variance", "expected-squared-error"]
"""The measures of error that the targets of `TruncatedGeometric` can bound."""


@dataclass(frozen=True)
class TruncatedGeometric:
    """Two-sided geometric noise whose results are clamped to 0..n.

    Its error is the error at the worst true answer.

    On a line, this noise is the tight-constraints mechanism (ElSalamouny et al., section 5). Let
    α = exp(-ε), and let G be the noise before clamping: P(G > t) = α^(t+1) / (1 + α) for t >= 0. At
    the true answer i, with i steps below it and n - i steps above it,

    - the expected squared error is S(i) + S(n-i), where S(k) = sum over t < k of (2t+1) P(G > t);
    - the bias is T(n-i) - T(i), where T(k) = sum over t < k of P(G > t).

    As i grows from 0 to n/2, S(i) + S(n-i) first falls and then rises, or does only one of these.
    The largest expected squared error is therefore at an end or in the middle. The variance is
    largest in the middle, because G is symmetric and its distribution function is log-concave.

    Attributes
    ----------
    n : int
        The largest answer, from 1 to 10^60: its fourth power does not overflow.
    measure : {"variance", "expected-squared-error"}
        The measure of error that the targets bound. Clamping biases all answers except the middle
        one. The variance excludes the bias; for an unbiased mechanism the two measures are equal.
    """

    n: int
    measure: Measure = "variance"
    name: Literal["truncated-geometric"] = "truncated-geometric"

    def worst_answer(self, epsilon: float) -> int:
        """Return the true answer, at most n/2, with the largest error: 0 or the middle."""
        middle = self.n // 2
        if self.measure == "variance":
            return middle
        eps = np.asarray(epsilon, dtype=np.float64)
        return 0 if self._squared_error(eps, 0) > self._squared_error(eps, middle) else middle

    def variance(self, epsilon: ArrayLike) -> Array:
        """Return variance or expected squared error at the worst answer; n²/4 or n²/2 at ε = 0."""
        eps = np.asarray(epsilon, dtype=np.float64)
        middle = self.n // 2
        central = self._squared_error(eps, middle)
        if self.measure == "variance":
            return central - np.square(self._bias(eps))
        return np.maximum(central, self._squared_error(eps, 0))

    def epsilon(self, variance: float) -> float:
        """Return the least ε at which the error is at most ``variance``, by Brent's method.

        The search starts from the ε of noise that is not clamped.
        """
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

        If very many errors are possible, the moments are computed on a grid of errors.
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
        """Draw errors at the worst answer, minus their mean if ``measure`` is the variance."""
        answer = self.worst_answer(epsilon)
        below, above = -float(answer), float(self.n - answer)
        # at ε = 0, a result is at either end with equal probability
        numbers = Geometric().sample(max(epsilon, _SMALLEST), shape, rng)
        errors = np.clip(numbers, below, above)
        return errors - self._bias(epsilon) if self.measure == "variance" else errors

    def _bias(self, epsilon: ArrayLike) -> Array:
        """Bias at the middle answer ``n // 2``, half a step below the centre if n is odd.

        The bias is the difference of two sums T(k), which the class docstring defines: T(k) is
        ``α (1 - α^k) / (1 - α²)``, and k/2 at ε = 0.
        """
        eps, middle = np.maximum(np.asarray(epsilon, dtype=np.float64), _SMALLEST), self.n // 2
        above, below = (np.expm1(-k * eps) / np.expm1(-2 * eps) for k in (self.n - middle, middle))
        return np.asarray(np.exp(-eps) * above - np.exp(-eps) * below)

    def _squared_error(self, eps: Array, answer: int) -> Array:
        return _squared_up(eps, answer) + _squared_up(eps, self.n - answer)


Distribution = Geometric | Laplace | TruncatedGeometric
"""Distributions of noise on one number; their parameter is the ε of one step."""


def standardised_moments(errors: Array, chances: Array) -> tuple[float, float, float]:
    """Third, fourth and sixth moments of errors, in units of their root mean square.

    ``chances`` are the probabilities of the errors.
    """
    units = errors / np.sqrt(chances @ np.square(errors))
    third, fourth, sixth = (float(chances @ units**k) for k in (3, 4, 6))
    return third, fourth, sixth


def _squared_up(eps: Array, k: int) -> Array:
    """Return the sum S(k) of `TruncatedGeometric`: ``α/(1-α) [(1-α^k)/(1-α) - 2k α^k/(1+α)]``.

    If k ε is so small that the two terms cancel, the power series of α^(t+1) is used instead.
    """
    flat = k * eps < _FLAT
    safe = np.where(flat, 1.0, eps)
    complement = -np.expm1(-safe)
    powers = -np.expm1(-k * safe) / complement - 2 * k * np.exp(-k * safe) / (1 + np.exp(-safe))
    first = k * (4 * k**2 + 3 * k - 1) / 6
    second = k * (k + 1) * (3 * k**2 + k - 1) / 6
    series = (k**2 - first * eps + second * np.square(eps) / 2) / (1 + np.exp(-eps))
    return np.asarray(np.where(flat, series, np.exp(-safe) / complement * powers))
