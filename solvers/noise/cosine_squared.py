"""The noise of least Fisher information on an interval: the cos² density, and its tilt."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from solvers.errors import OptionError

Float = NDArray[np.float64]

_SERIES_BELOW = 0.02
_FAR = 100.0
_NODES = 200


@dataclass(frozen=True)
class CosineSquared:
    """Density proportional to ``exp(tilt w) cos²(π (w - middle) / width)`` on an interval.

    Without tilt it has the least Fisher information of all noises on the interval
    (Farokhi and Sandberg, Corollaries 1 and 3). The tilt is the logarithmic slope p'(x)/p(x) of the
    weight of Corollary 4; if that is constant, the density does not depend on x.

    Corollary 4 prints ``exp(-p'/p (w + x))``. The x cancels in the normalised density. The sign
    comes from a score that adds the derivatives in w and x, although for fixed ``y = x + w`` they
    are subtracted. The sign here solves the Euler-Lagrange equation with the right score; the
    printed one gives the mirror image, with the same variance and Fisher information. See
    docs/fisher.md.

    Attributes
    ----------
    lower, upper : float
        The ends of the interval.
    tilt : float
        The tilt, in units of 1/w.
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
        """``upper - lower``."""
        return self.upper - self.lower

    @property
    def middle(self) -> float:
        """Halfway between the ends."""
        return (self.upper + self.lower) / 2

    @property
    def mean(self) -> float:
        """The mean: the middle of the interval if there is no tilt."""
        away, chances = self._from_end
        side = np.copysign(self.width / 2, self.tilt)
        return float(self.middle + side * (1 - chances @ away))

    @property
    def variance(self) -> float:
        """``(π² - 6) / (12 π²) width²`` without tilt; less with tilt."""
        away, chances = self._from_end
        return float(self.width**2 / 4 * (chances @ np.square(away - chances @ away)))

    @property
    def moments(self) -> tuple[float, float, float]:
        """Third, fourth and sixth moment over the standard deviation."""
        away, chances = self._from_end
        errors = np.copysign(1.0, self.tilt) * (chances @ away - away)
        errors /= np.sqrt(chances @ np.square(errors))
        third, fourth, sixth = (float(chances @ errors**k) for k in (3, 4, 6))
        return third, fourth, sixth

    @cached_property
    def _from_end(self) -> tuple[Float, Float]:
        """Quadrature points, as distances from the end of the tilt in half widths; weights."""
        x = abs(self._dimensionless_tilt)
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        away = min(2.0, _FAR / max(x, 1.0)) * (1 + nodes) / 2
        chances = weights * np.exp(-x * away) * np.square(np.sin(np.pi * away / 2))
        return away, chances / chances.sum()

    @property
    def fisher_information(self) -> float:
        """Fisher information about a shift of the density: ``4 π² / width² + tilt²``."""
        return float(4 * np.pi**2 / self.width**2 + self.tilt**2)

    @property
    def cramer_rao_bound(self) -> float:
        """Least variance of an unbiased estimate of x from x + w."""
        return 1.0 / self.fisher_information

    @property
    def entropy(self) -> float:
        """Differential entropy in bits: ``log2(2 width / e)`` without tilt, else by quadrature."""
        if self.tilt == 0:
            return float(np.log2(2 * self.width / math.e))
        terms, _ = scipy.integrate.quad(
            lambda w: float(scipy.special.entr(self.density(w))), self.lower, self.upper, limit=200
        )
        return float(terms / np.log(2))

    def density(self, w: ArrayLike) -> Float:
        """The probability density; zero outside the interval."""
        x = self._dimensionless_tilt
        shifted = 2 * (np.asarray(w, dtype=np.float64) - self.middle) / self.width
        inside = np.abs(shifted) <= 1
        t = np.where(inside, shifted, 1.0)
        log_mass = _log_sinhc(x) - np.log1p(np.square(x / np.pi))
        values = 2 / self.width * np.exp(x * t - log_mass) * np.square(np.cos(np.pi * t / 2))
        return np.asarray(np.where(inside, values, 0.0))

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Float:
        """Exact draws by rejection: at any tilt at least about a quarter is accepted."""
        count = int(np.prod(shape))
        accepted = np.empty(0)
        while accepted.size < count:
            size = 3 * (count - accepted.size) + 16
            steep = abs(self._dimensionless_tilt) > np.pi
            proposals, chances = (self._gamma if steep else self._exponential)(size, rng)
            accepted = np.concatenate([accepted, proposals[rng.random(size) < chances]])
        return self.middle + self.width / 2 * accepted[:count].reshape(shape)

    @property
    def _dimensionless_tilt(self) -> float:
        """The tilt of the density rescaled to [-1, 1]."""
        return self.tilt * self.width / 2

    def _exponential(self, size: int, rng: np.random.Generator) -> tuple[Float, Float]:
        """Proposals of density proportional to exp(x t) on [-1, 1], and chances of acceptance.

        One in ``2 (1 + (x / π)²)`` is accepted.
        """
        x = self._dimensionless_tilt
        uniform = rng.random(size)
        numbers: Float = 2 * uniform - 1
        if x != 0:
            upwards = 1 + np.log(uniform + (1 - uniform) * np.exp(-2 * abs(x))) / abs(x)
            numbers = np.sign(x) * np.maximum(upwards, -1.0)
        return numbers, np.square(np.cos(np.pi * numbers / 2))

    def _gamma(self, size: int, rng: np.random.Generator) -> tuple[Float, Float]:
        """Proposals of density ``u² exp(-|x| u)``, u the distance from the end of the tilt."""
        x = self._dimensionless_tilt
        away = rng.gamma(3.0, 1 / abs(x), size)
        chances = np.where(away <= 2, np.square(np.sinc(away / 2)), 0.0)
        return np.sign(x) * (1 - away), chances


def _log_sinhc(x: float) -> float:
    """``log(sinh(x) / x)``."""
    size = abs(x)
    if size < _SERIES_BELOW:
        return x * x / 6 - x**4 / 180
    return float(size + np.log(-np.expm1(-2 * size) / (2 * size)))
