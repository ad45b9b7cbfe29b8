"""Conversion of privacy cost to (ε, δ) and back, by the exact condition of the Gaussian mechanism.

A mechanism of privacy cost Δ is (ε, δ)-differentially private if and only if

    δ >= Φ(Δ/2 - ε/Δ) - exp(ε) Φ(-Δ/2 - ε/Δ)

(Theorem 1 and Corollary 1 of arXiv v1; Balle and Wang 2018). Here Φ is the standard normal
distribution function; φ is its density.

With a = Δ/2 - ε/Δ, b = -Δ/2 - ε/Δ and the Mills ratio M(x) = Φ(-x)/φ(x), the right side is
φ(a) (M(-a) - M(-b)). This formula avoids exp(ε) and the cancellation of numbers near 1. If Δ is
small, M(-a) - M(-b) is computed by Gauss-Legendre quadrature, as the integral of -M' over a short
interval; -M'(x) is exp(x²/4) D(x), where D is the parabolic cylinder function of order -2.

For a given δ, the number a lies between Φ⁻¹(δ) and Φ⁻¹((1 + δ)/2) at every ε. `epsilon` and
`privacy_cost` find it there by root finding. Then ε = Δ (Δ/2 - a) and Δ = a + sqrt(a² + 2ε). All
functions broadcast arrays.
"""

from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import ArrayLike

from workloads.operators import Array

_FAR = 38.5
"""Number of standard deviations beyond which the standard normal density underflows."""

_ALL_SQUARE = 1e20
"""Privacy cost from which ε is Δ²/2: a term of at most `_FAR` Δ is less than eps times that."""
_SHORT = 1.0
"""Privacy cost up to which the difference of Mills ratios is an integral.

Above, the difference cancels at most two digits. Up to 1, 16 Gauss-Legendre nodes integrate to
rounding; tests compare both sides with 60-digit arithmetic.
"""
_SPLITTER = 2.0**27 + 1
"""Veltkamp's constant for 53 bits, which splits a number into halves of 26 bits (Dekker 1971)."""
_SLACK = 1e-9
"""Relative slack of the bracket of a root, far above the rounding of the inverse functions."""
_LEAST_SLACK = 1e-321
"""Slack of the bracket of a root whose relative slack would round to nothing: 200 times the least
positive number."""
_FINEST = 4 * np.finfo(float).eps
"""Relative tolerance of a root: the least that scipy's `brentq` accepts."""
_LOG_ROOT_TWO_PI = 0.5 * np.log(2 * np.pi)
_LEGENDRE = np.polynomial.legendre.leggauss(16)
_NODES, _NODE_WEIGHTS = (_LEGENDRE[0] + 1) / 2, _LEGENDRE[1] / 2


def delta(privacy_cost: ArrayLike, epsilon: ArrayLike) -> Array:
    """Return the least δ for which a mechanism of this privacy cost is (ε, δ)-private.

    Parameters
    ----------
    privacy_cost : array_like
        Δ >= 0.
    epsilon : array_like
        ε >= 0.

    Returns
    -------
    numpy.ndarray or float
        δ, in [0, 1].

    Raises
    ------
    ValueError
        If a value is negative or NaN.
    """
    cost, eps = _checked("privacy_cost", privacy_cost), _checked("epsilon", epsilon)
    cost, eps = np.broadcast_arrays(cost, eps)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        quotient = eps / cost
        product = quotient * cost
        # Dekker's product: Veltkamp's splitting gives halves whose products are exact
        shifted, other = quotient * _SPLITTER, cost * _SPLITTER
        high, other_high = shifted - (shifted - quotient), other - (other - cost)
        low, other_low = quotient - high, cost - other_high
        lost = high * other_high - product + high * other_low + low * other_high + low * other_low
        error = (eps - product - lost) / cost
        point = cost / 2 - quotient - np.where(np.isfinite(error), error, 0.0)
        found = np.exp(_logs(point, cost)[0])
        return np.select([cost == 0, np.isinf(cost)], [0.0, np.isfinite(eps)], found)[()]


def epsilon(privacy_cost: ArrayLike, delta: ArrayLike) -> Array:
    """Return the least ε for which a mechanism of this privacy cost is (ε, δ)-private.

    Parameters
    ----------
    privacy_cost : array_like
        Δ >= 0; infinity gives infinity, NaN gives NaN.
    delta : array_like
        δ in (0, 1).

    Returns
    -------
    numpy.ndarray or float
        ε >= 0.

    Raises
    ------
    ValueError
        If Δ is negative or δ outside (0, 1).
    """
    cost, target = np.broadcast_arrays(
        _checked("privacy_cost", privacy_cost, nan=True), _checked_delta(delta)
    )
    # at ε = 0, δ is erf(Δ / sqrt(8))
    needed = (cost > 0) & (cost < _ALL_SQUARE) & (target < scipy.special.erf(cost / np.sqrt(8.0)))
    with np.errstate(over="ignore"):
        result = np.where(cost < _ALL_SQUARE, 0.0, cost * (cost / 2))
    if np.any(needed):
        width = cost[needed]
        result[needed] = width * (width / 2 - _point(lambda _, cost: cost, width, target[needed]))
    return np.maximum(result, 0.0)[()]


def privacy_cost(epsilon: ArrayLike, delta: ArrayLike) -> Array:
    """Return the largest privacy cost Δ that an (ε, δ) budget allows.

    Parameters
    ----------
    epsilon : array_like
        ε >= 0.
    delta : array_like
        δ in (0, 1).

    Returns
    -------
    numpy.ndarray or float
        Δ > 0.

    Raises
    ------
    ValueError
        If ε is negative or δ outside (0, 1).
    """
    eps, target = np.broadcast_arrays(_checked("epsilon", epsilon), _checked_delta(delta))
    cost, needed = np.full(eps.shape, np.inf), np.isfinite(eps)
    if np.any(needed):
        budget = eps[needed]
        cost[needed] = _cost_at(_point(_cost_at, budget, target[needed]), budget)
    return cost[()]


def _point(cost_at: Callable[[Array, Array], Array], given: Array, target: Array) -> Array:
    """Find the number a = Δ/2 - ε/Δ at which δ is ``target``.

    The root is found on log δ, or on log(1 - δ) if the target is above 1/2. ``given`` is Δ or ε;
    ``cost_at`` computes Δ from a and ``given``.
    """
    from scipy.optimize import elementwise

    def excess(point: Array, given: Array, target: Array) -> Array:
        below, above = _logs(point, cost_at(point, given))
        return np.where(target > 0.5, np.log1p(-target) - above, below - np.log(target))

    lowest, highest = scipy.special.ndtri(target), np.sqrt(2.0) * scipy.special.erfinv(target)
    result = elementwise.find_root(
        excess,
        (lowest - _SLACK * (1 + np.abs(lowest)), highest * (1 + _SLACK) + _LEAST_SLACK),
        args=(given, target),
        tolerances={"xatol": 0.0, "xrtol": _FINEST, "fatol": 0.0, "frtol": 0.0},
    )
    return np.asarray(result.x, dtype=np.float64)


def _cost_at(point: Array, eps: Array) -> Array:
    """Solve ``cost / 2 - eps / cost == point`` for the privacy cost, a positive number."""
    root = np.sqrt(2.0) * np.sqrt(eps)
    length = np.hypot(point, root)
    # ``length + point`` would cancel for a negative point
    falling = root * (root / np.where(point < 0, length - point, 1.0))
    return np.asarray(np.where(point < 0, falling, length + point))


def _logs(point: Array, cost: Array) -> tuple[Array, Array]:
    """Return log δ and log(1 - δ) for a privacy cost and ``point = cost / 2 - eps / cost``."""
    short = cost <= _SHORT
    density = -np.square(point) / 2 - _LOG_ROOT_TWO_PI
    # np.where computes both branches: where a result is not used, 0 or 1 replaces its argument
    start = np.where(short, -np.maximum(point, -_FAR), 0.0)[..., None]
    x = start + np.where(short, cost, 1.0)[..., None] * _NODES
    steepness = np.exp(np.square(x) / 4) * scipy.special.pbdv(-2, x)[0]
    ends = np.array([-np.minimum(point, 0.0), np.maximum(cost - point, 0.0)])
    near, far = np.sqrt(np.pi / 2) * scipy.special.erfcx(ends / np.sqrt(2.0))
    with np.errstate(divide="ignore"):
        tail = density + np.log(np.where(short, cost * (steepness @ _NODE_WEIGHTS), near - far))
        rest = np.log(scipy.special.ndtr(-point) + np.exp(density) * far)
    rising = ~short & (point > 0)
    body = scipy.special.ndtr(point) - np.exp(density) * far
    return np.where(rising, np.log(np.where(rising, body, 1.0)), tail), rest


def _checked(name: str, values: ArrayLike, *, nan: bool = False) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if np.any(array < 0) or (not nan and np.any(np.isnan(array))):
        raise ValueError(f"{name} must not be negative or NaN; got {values!r}")
    return array


def _checked_delta(values: ArrayLike) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if not np.all((array > 0) & (array < 1)):
        raise ValueError(f"delta must lie strictly between 0 and 1; got {values!r}")
    return array
