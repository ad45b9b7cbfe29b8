"""One query c·x with x in [low, high]^n: Propositions 3 and 4 of paper 003.

Neighbours differ in one entry of x by at most high - low, so the answer moves by at most
``sensitivity = (high - low) max abs(c)``.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float = NDArray[np.float64]


def laplace_scale(sensitivity: ArrayLike, epsilon: ArrayLike) -> Float:
    """The scale of the Laplace noise that is ε-private: ``sensitivity / ε``.

    Proposition 3 prints its inverse; its proof ends with ``sensitivity / b = ε``. The
    variance is twice the squared scale, so a variance of ϑ gives ``sensitivity (2/ϑ)^1/2``
    where the text after the proposition has ``sensitivity (ϑ/2)^1/2``.

    Parameters
    ----------
    sensitivity : array_like
        How far one record moves the answer.
    epsilon : array_like
        ε > 0.

    Returns
    -------
    numpy.ndarray or float
    """
    scale: Float = np.asarray(sensitivity, dtype=np.float64) / np.asarray(epsilon)
    return scale


def gaussian_deviation(sensitivity: ArrayLike, epsilon: ArrayLike, delta: ArrayLike) -> Float:
    """A standard deviation of Gaussian noise that suffices for (ε, δ): equation (16).

    ``sensitivity ((2 log(1/(2δ)))^1/2 / ε + (2ε)^-1/2)``. Proposition 4 calls it ϑ, the
    variance; the lemma that its proof cites bounds the standard deviation. The exact
    condition, `solvers.privacy`, needs less.

    Parameters
    ----------
    sensitivity : array_like
        How far one record moves the answer.
    epsilon : array_like
        ε > 0.
    delta : array_like
        δ in (0, 1/2].

    Returns
    -------
    numpy.ndarray or float

    Raises
    ------
    ValueError
        If δ is outside (0, 1/2], where the proposition says nothing.
    """
    tail = np.asarray(delta, dtype=np.float64)
    if not np.all((tail > 0) & (tail <= 0.5)):
        raise ValueError(f"delta must lie in (0, 1/2]; got {delta!r}")
    eps = np.asarray(epsilon, dtype=np.float64)
    width = np.sqrt(2 * np.log(1 / (2 * tail))) / eps + 1 / np.sqrt(2 * eps)
    deviation: Float = np.asarray(sensitivity, dtype=np.float64) * width
    return deviation
