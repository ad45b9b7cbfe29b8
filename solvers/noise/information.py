"""Noise of least Fisher information, and entropies and mutual informations of noise, in bits.

Sections and corollaries are those of Farokhi and Sandberg. For data x ~ N(0, prior) and independent
noise w, the mutual information of x and the answer x + w is ``I(x; x + w) = h(x + w) - h(w)``,
where h is the differential entropy (section 5).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace

import numpy as np
import scipy
from numpy.typing import ArrayLike

from solvers.errors import OptionError
from solvers.privacy.distributions import standardised_moments
from workloads.operators import Array

_FAR = 100.0
"""Decay beyond which the density is cut off: exp(-100) is 4e-44 of its value at the end."""
_NODES = 200
"""Gauss-Legendre nodes: exact for polynomials of degree 399, on an interval where the density is an
exponential with a rate of at most `_FAR` times half a wave."""
_DEVIATIONS = 9.0
"""Standard deviations up to which a normal density is integrated; 2e-19 of it is beyond."""
_POINTS = 4001
"""Points of the grids on which densities are integrated."""


@dataclass(frozen=True)
class CosineSquared:
    """Density proportional to ``exp(tilt w) cos²(π (w - middle) / width)`` on an interval.

    Without tilt, this density has the least Fisher information of all densities on the interval
    (Farokhi and Sandberg, Corollaries 1 and 3). The tilt is the logarithmic slope p'(x)/p(x) of the
    weight function p of Corollary 4. If the slope is constant, the density does not depend on x.

    The paper prints the tilting factor as ``exp(-p'/p (w + x))``. Normalising the density cancels
    x. The printed sign follows from a score that adds the derivatives in w and x, but at a fixed
    answer ``y = x + w`` they must be subtracted. With the sign used here, the density solves the
    Euler-Lagrange equation of the corrected score. The printed sign gives the mirror image of the
    density, with the same variance and Fisher information. See docs/fisher.md.

    Attributes
    ----------
    lower, upper : float
        The ends of the interval.
    tilt : float
        Coefficient of w in the exponent.
    """

    lower: float
    upper: float
    tilt: float = 0.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.tilt) and np.isfinite(self.width) and self.width > 0):
            raise OptionError(
                f"noise on [{self.lower}, {self.upper}] with tilt {self.tilt}; expected finite "
                "numbers, the lower end below the upper one"
            )

    @property
    def width(self) -> float:
        """The width of the interval: ``upper - lower``."""
        return self.upper - self.lower

    @property
    def middle(self) -> float:
        """The midpoint of the interval."""
        return (self.upper + self.lower) / 2

    @property
    def mean(self) -> float:
        """Mean of the noise; without tilt, the middle of the interval."""
        away, chances, _ = self._from_end
        side = np.copysign(self.width / 2, self.tilt)
        return float(self.middle + side * (1 - chances @ away))

    @property
    def variance(self) -> float:
        """Variance: ``(π² - 6) / (12 π²) width²`` without tilt, less with tilt."""
        away, chances, _ = self._from_end
        return float(self.width**2 / 4 * (chances @ np.square(away - chances @ away)))

    @property
    def moments(self) -> tuple[float, float, float]:
        """Standardised third, fourth and sixth central moments."""
        away, chances, _ = self._from_end
        return standardised_moments(np.copysign(1.0, self.tilt) * (chances @ away - away), chances)

    @cached_property
    def _from_end(self) -> tuple[Array, Array, float]:
        """Quadrature nodes, the probability of each node, and the integral of `_unscaled`.

        A node is a distance, in half widths, from the end that the density tilts towards.
        """
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        half = min(2.0, _FAR / max(self._steepness, 1.0)) / 2
        away = half * (1 + nodes)
        masses = half * weights * self._unscaled(away)
        mass = float(masses.sum())
        return away, masses / mass, mass

    @property
    def fisher_information(self) -> float:
        """Fisher information about a shift of the density: ``4 π² / width² + tilt²``."""
        return float(4 * np.pi**2 / self.width**2 + self.tilt**2)

    @property
    def entropy(self) -> float:
        """Differential entropy in bits; ``log2(2 width / e)`` without tilt."""
        away, chances, mass = self._from_end
        return float(-chances @ np.log2(2 / (self.width * mass) * self._unscaled(away)))

    def density(self, w: ArrayLike) -> Array:
        """Return the probability density; zero outside the interval."""
        shifted = 2 * (np.asarray(w, dtype=np.float64) - self.middle) / self.width
        away = np.where(np.abs(shifted) <= 1, 1 - np.copysign(1.0, self.tilt) * shifted, 0.0)
        return np.asarray(2 / (self.width * self._from_end[2]) * self._unscaled(away))

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw an array by inverting the distribution function numerically, to within 1e-10."""
        from scipy.stats.sampling import NumericalInversePolynomial

        away, chances, _ = self._from_end
        law = SimpleNamespace(pdf=self._unscaled)
        ends = 0.0, float(min(2.0, _FAR / max(self._steepness, 1.0)))
        inverse = NumericalInversePolynomial(
            law, center=float(chances @ away), domain=ends, random_state=rng
        )
        side = np.copysign(self.width / 2, self.tilt)
        return np.asarray(self.middle + side * (1 - inverse.rvs(shape)))

    @property
    def _steepness(self) -> float:
        """Absolute value of the tilt after the interval is rescaled to [-1, 1]."""
        return abs(self.tilt) * self.width / 2

    def _unscaled(self, away: Array) -> Array:
        """Return a multiple of the density ``away`` half widths from the end it tilts towards."""
        return np.exp(-self._steepness * away) * np.square(np.sin(np.pi * away / 2))


def gaussian_entropy(variance: float) -> float:
    """Entropy of normal noise: ``log2 sqrt(2πe variance)``, the largest for this variance."""
    return 0.5 * float(np.log2(2 * np.pi * math.e * variance))


def laplace_entropy(variance: float) -> float:
    """Entropy of Laplace noise: ``log2(e sqrt(2 variance))``, 0.1044 bit below normal noise."""
    return 0.5 * float(np.log2(2 * variance)) + float(np.log2(math.e))


def gaussian_mutual_information(covariance: Array, prior: Array) -> float:
    """Mutual information of normal data x and the answers Wx with normal errors, in bits.

    Parameters
    ----------
    covariance : numpy.ndarray, shape (m, m)
        The covariance of the errors, which must be invertible.
    prior : numpy.ndarray, shape (m, m)
        The covariance of Wx.

    Returns
    -------
    float
        ``log2 det(I + covariance⁻¹ prior) / 2``.
    """
    ratio = np.linalg.solve(covariance, prior)
    return float(np.linalg.slogdet(np.eye(len(ratio)) + ratio)[1] / (2 * np.log(2)))


def mutual_information(
    density: Callable[[Array], Array], entropy: float, prior: float, support: tuple[float, float]
) -> float:
    """Mutual information of x ~ N(0, prior) and x + w in bits, by quadrature for any density.

    Parameters
    ----------
    density : callable
        The density of the noise w.
    entropy : float
        The differential entropy of w, in bits.
    prior : float
        The variance of x.
    support : tuple of float
        An interval outside which w has negligible probability.
    """
    w = np.linspace(*support, _POINTS)
    masses = density(w)
    deviation = prior**0.5
    y = np.linspace(
        support[0] - _DEVIATIONS * deviation, support[1] + _DEVIATIONS * deviation, _POINTS
    )
    kernel = np.exp(-np.square((y[:, None] - w) / deviation) / 2) / (deviation * (2 * np.pi) ** 0.5)
    mixed = scipy.integrate.simpson(kernel * masses, x=w, axis=1)
    return float(scipy.integrate.simpson(scipy.special.entr(mixed), x=y) / np.log(2)) - entropy
