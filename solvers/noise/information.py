"""Entropy of noise and mutual information of answers, in bits (Farokhi and Sandberg, section 5).

For data x ~ N(0, prior) and independent noise w, the mutual information of x and the answer x + w
is ``I(x; x + w) = h(x + w) - h(w)``, where h is the differential entropy.
"""

import math
from collections.abc import Callable

import numpy as np
import scipy

from workloads.operators import Array

_DEVIATIONS = 9.0
"""Standard deviations up to which a normal density is integrated; 2e-19 of it is beyond."""
_POINTS = 4001
"""Points of the grids on which densities are integrated."""


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
