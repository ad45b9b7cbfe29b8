"""Conversion of privacy cost to (ε, δ) and back, by the exact condition of the Gaussian mechanism.

A mechanism of privacy cost Δ is (ε, δ)-differentially private if and only if

    δ >= Φ(Δ/2 - ε/Δ) - exp(ε) Φ(-Δ/2 - ε/Δ)

(Theorem 1 and Corollary 1 of arXiv v1; Balle and Wang 2018). With a = Δ/2 - ε/Δ, b = -Δ/2 - ε/Δ and
the Mills ratio M(x) = Φ(-x)/φ(x), the right side is φ(a) (M(-a) - M(-b)), without exp(ε) and
without cancellation of numbers near 1. If Δ is small, the difference is the integral of -M' over a
short interval, by Gauss-Legendre quadrature. For a given ε, each a belongs to one Δ = a + sqrt(a² +
2ε), so `privacy_cost` searches for a between Φ⁻¹(δ) and Φ⁻¹((1 + δ)/2), its bounds at every ε. All
functions broadcast arrays.
"""

from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

Float = NDArray[np.float64]

_FAR = 1e3
_FARTHEST_POINT = 40.0
_ALL_SQUARE = 1e20
_SHORT = 1.0
_CANCELS = 2.0
_FRACTION_TERMS = 80
_SPLITTER = 2.0**27 + 1
_SLACK = 1e-9
_FINEST = 4 * np.finfo(float).eps
_LOG_ROOT_TWO_PI = 0.5 * np.log(2 * np.pi)
_LEGENDRE = np.polynomial.legendre.leggauss(16)
_NODES, _NODE_WEIGHTS = (_LEGENDRE[0] + 1) / 2, _LEGENDRE[1] / 2


def delta(privacy_cost: ArrayLike, epsilon: ArrayLike) -> Float:
    """Least δ for which a mechanism of this privacy cost is (ε, δ)-private.

    Parameters
    ----------
    privacy_cost : array_like
        Δ >= 0.
    epsilon : array_like
        ε >= 0.

    Returns
    -------
    numpy.ndarray or float
        δ, in [0, 1).

    Raises
    ------
    ValueError
        If a value is negative or NaN.
    """
    cost, eps = _checked("privacy_cost", privacy_cost), _checked("epsilon", epsilon)
    cost, eps = np.broadcast_arrays(cost, eps)
    positive = cost > 0
    width = np.where(positive, cost, 1.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(positive, np.exp(_log_delta(_upper_point(width, eps), width)), 0.0)[()]


def epsilon(privacy_cost: ArrayLike, delta: ArrayLike) -> Float:
    """Least ε for which a mechanism of this privacy cost is (ε, δ)-private.

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
    needed = (cost < _ALL_SQUARE) & (cost > 0)
    needed &= target < scipy.special.erf(np.where(needed, cost, 1.0) / np.sqrt(8.0))
    with np.errstate(over="ignore"):
        result = np.where(cost < _ALL_SQUARE, 0.0, cost * (cost / 2))
    if np.any(needed):
        width = cost[needed]
        bracket = np.zeros_like(width), width * (_FARTHEST_POINT + width / 2)
        result = np.array(result)
        result[needed] = _root(
            lambda eps, cost, goal: _excess(np.maximum(_upper_point(cost, eps), -_FAR), cost, goal),
            bracket,
            (width, target[needed]),
        )
    return result[()]


def privacy_cost(epsilon: ArrayLike, delta: ArrayLike) -> Float:
    """Largest privacy cost Δ that an (ε, δ) budget allows.

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
    at_zero = np.sqrt(8.0) * scipy.special.erfinv(target)
    needed = (eps > 0) & np.isfinite(eps)
    cost = np.where(np.isfinite(eps), at_zero, np.inf)
    if np.any(needed):
        budget, goal = eps[needed], target[needed]
        lowest, highest = scipy.special.ndtri(goal), at_zero[needed] / 2
        bracket = lowest - _SLACK * (1 + np.abs(lowest)), highest * (1 + _SLACK)
        point = _root(
            lambda a, eps, aim: _excess(a, _cost_at(a, eps), aim), bracket, (budget, goal)
        )
        cost[needed] = _cost_at(point, budget)
    return cost[()]


def _root(
    excess: Callable[..., Float], bracket: tuple[Float, Float], args: tuple[Float, Float]
) -> Float:
    from scipy.optimize import elementwise

    result = elementwise.find_root(
        excess,
        bracket,
        args=args,
        tolerances={"xatol": 0.0, "xrtol": _FINEST, "fatol": 0.0, "frtol": 0.0},
    )
    return np.asarray(result.x, dtype=np.float64)


def _excess(point: Float, cost: Float, target: Float) -> Float:
    """An increasing function of the point, 0 at the target δ; it uses 1 - δ if δ > 1/2."""
    with np.errstate(divide="ignore"):
        below = _log_delta(point, cost) - np.log(target)
        above = np.log1p(-target) - np.log(_complement(point, cost))
    chosen: Float = np.where(target > 0.5, above, below)
    return chosen


def _cost_at(point: Float, eps: Float) -> Float:
    """The cost with ``cost / 2 - eps / cost == point``: the positive root of a quadratic."""
    root = np.sqrt(2.0) * np.sqrt(eps)
    length = np.hypot(point, root)
    # ``length + point`` would cancel for a negative point
    falling = root * (root / np.where(point < 0, length - point, 1.0))
    cost: Float = np.where(point < 0, falling, length + point)
    return cost


def _upper_point(cost: Float, eps: Float) -> Float:
    """``cost / 2 - eps / cost``, corrected for the quotient's rounding error."""
    with np.errstate(over="ignore", invalid="ignore"):
        quotient = eps / cost
        product = quotient * cost
        # Dekker's product: Veltkamp's splitting gives halves whose products are exact
        shifted, other = quotient * _SPLITTER, cost * _SPLITTER
        high, other_high = shifted - (shifted - quotient), other - (other - cost)
        low, other_low = quotient - high, cost - other_high
        lost = high * other_high - product + high * other_low + low * other_high + low * other_low
        error = (eps - product - lost) / cost
    point: Float = cost / 2 - quotient - np.where(np.isfinite(error), error, 0.0)
    return point


def _log_delta(point: Float, cost: Float) -> Float:
    """Log δ at the point a = cost / 2 - eps / cost."""
    short = cost <= _SHORT
    density = -np.square(point) / 2 - _LOG_ROOT_TWO_PI
    # np.where computes both branches: 1 and 0 replace arguments whose result is not used
    start = np.where(short, -np.maximum(point, -_FAR), 0.0)
    steep = _mean_steepness(start, np.where(short, cost, 1.0))
    gap = _mills(-np.minimum(point, 0.0)) - _mills(cost - np.minimum(point, 0.0))
    tail = density + np.where(
        short, np.log(cost) + np.log(steep), np.log(np.where(short, 1.0, gap))
    )
    body = scipy.special.ndtr(point) - np.exp(density) * _mills(cost - point)
    rising = ~short & (point > 0)
    log_delta: Float = np.where(rising, np.log(np.where(rising, body, 1.0)), tail)
    return log_delta


def _complement(point: Float, cost: Float) -> Float:
    """1 - δ, for a positive point."""
    density = np.exp(-np.square(point) / 2 - _LOG_ROOT_TWO_PI)
    rest: Float = scipy.special.ndtr(-point) + density * _mills(np.maximum(cost - point, 0.0))
    return rest


def _mean_steepness(start: Float, width: Float) -> Float:
    """(M(start) - M(start + width)) / width, for a width of at most 1.

    The result is the mean of -M'(x) = 1 - x M(x) over the interval. Where this difference cancels,
    it is computed from a continued fraction of M.
    """
    x = start[..., None] + width[..., None] * _NODES
    far, near = np.maximum(x, _CANCELS), np.minimum(x, _CANCELS)
    fraction = np.zeros_like(far)
    for count in range(_FRACTION_TERMS, 0, -1):
        fraction = count / (far + fraction)
    steepness = np.where(x > _CANCELS, fraction / (far + fraction), 1 - near * _mills(near))
    mean: Float = steepness @ _NODE_WEIGHTS
    return mean


def _mills(x: Float) -> Float:
    ratio: Float = np.sqrt(np.pi / 2) * scipy.special.erfcx(x / np.sqrt(2.0))
    return ratio


def _checked(name: str, values: ArrayLike, *, nan: bool = False) -> Float:
    array = np.asarray(values, dtype=np.float64)
    if np.any(array < 0) or (not nan and np.any(np.isnan(array))):
        raise ValueError(f"{name} must not be negative or NaN; got {values!r}")
    return array


def _checked_delta(values: ArrayLike) -> Float:
    array = np.asarray(values, dtype=np.float64)
    if not np.all((array > 0) & (array < 1)):
        raise ValueError(f"delta must lie strictly between 0 and 1; got {values!r}")
    return array
