"""From privacy cost to (ε, δ) and back, by the exact condition of the Gaussian mechanism.

A mechanism of privacy cost Δ is (ε, δ)-differentially private if and only if

    δ >= Φ(Δ/2 - ε/Δ) - exp(ε) Φ(-Δ/2 - ε/Δ)

(Theorem 1 and Corollary 1 of arXiv v1; Balle and Wang 2018). With a = Δ/2 - ε/Δ,
b = -Δ/2 - ε/Δ and the Mills ratio M(x) = Φ(-x)/φ(x), the right side is
φ(a) (M(-a) - M(-b)): no exp(ε), and no cancellation of numbers near 1. Every function
takes arrays and broadcasts.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from scipy.optimize import elementwise

Float = NDArray[np.float64]

_STEEPEST = 40.0
_FLATTEST = 9.0
_LOG_ROOT_TWO_PI = 0.5 * np.log(2 * np.pi)


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
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(cost > 0, np.exp(_log_delta(cost, eps)), 0.0)[()]


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
    needed = np.isfinite(cost) & (cost > 0)
    needed &= target < special.erf(np.where(needed, cost, 1.0) / np.sqrt(8.0))
    found = np.where(np.isfinite(cost), 0.0, cost)
    if np.any(needed):
        width, goal = cost[needed], np.log(target[needed])
        root = _root(
            _excess_in_epsilon,
            (np.zeros_like(width), width * (_STEEPEST + width / 2)),
            (width, goal),
        )
        found = np.array(found)
        found[needed] = root
    return found[()]


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
    at_zero = np.sqrt(8.0) * special.erfinv(target)
    positive = eps > 0
    found = np.array(at_zero)
    if np.any(positive):
        budget, goal = eps[positive], np.log(target[positive])
        lowest = np.maximum(budget / _STEEPEST, at_zero[positive])
        highest = _FLATTEST + np.sqrt(_FLATTEST**2 + 2 * budget)
        root = _root(_excess_in_cost, (np.log(lowest), np.log(highest)), (budget, goal))
        found[positive] = np.exp(root)
    return found[()]


def rho(privacy_cost: ArrayLike) -> Float:
    """The ρ of zero-concentrated differential privacy: Δ²/2 (PVLDB 14(10), section 3.2).

    Parameters
    ----------
    privacy_cost : array_like
        Δ >= 0.

    Returns
    -------
    numpy.ndarray or float
    """
    return (np.square(_checked("privacy_cost", privacy_cost)) / 2)[()]


@dataclass(frozen=True)
class RefinedComparison:
    """Two mechanisms in the refined privacy ordering (Definition 5 of arXiv v1).

    Attributes
    ----------
    order : int
        -1 if the first is strictly more private, 1 if the second is, 0 if neither.
    entry : int or None
        The first entry of the sorted profiles (largest first, from 0) that decides.
    """

    order: int
    entry: int | None


def compare_profiles(
    first: ArrayLike, second: ArrayLike, *, tolerance: float = 1e-9
) -> RefinedComparison:
    """The refined privacy ordering of two privacy profiles.

    Parameters
    ----------
    first, second : array_like, shape (d,)
        Privacy profiles over the same domain.
    tolerance : float
        Entries closer than this, relative to the largest entry, count as equal.

    Returns
    -------
    RefinedComparison

    Raises
    ------
    ValueError
        If the shapes differ.
    """
    a, b = np.sort(np.asarray(first))[::-1], np.sort(np.asarray(second))[::-1]
    if a.shape != b.shape:
        raise ValueError(f"privacy profiles of shapes {a.shape} and {b.shape} cannot be compared")
    differs = np.flatnonzero(np.abs(a - b) > tolerance * max(a[0], b[0]))
    if not differs.size:
        return RefinedComparison(0, None)
    entry = int(differs[0])
    return RefinedComparison(-1 if a[entry] < b[entry] else 1, entry)


def _root(
    excess: Callable[..., Float], bracket: tuple[Float, Float], args: tuple[Float, Float]
) -> Float:
    found = elementwise.find_root(
        excess,
        bracket,
        args=args,
        tolerances={"xatol": 0.0, "xrtol": 1e-14, "fatol": 0.0, "frtol": 0.0},
    )
    return np.asarray(found.x, dtype=np.float64)


def _excess_in_epsilon(eps: Float, /, *args: Float) -> Float:
    width, goal = args
    return _log_delta(width, eps) - goal


def _excess_in_cost(log_cost: Float, /, *args: Float) -> Float:
    budget, goal = args
    return _log_delta(np.exp(log_cost), budget) - goal


def _log_delta(cost: Float, eps: Float) -> Float:
    upper, lower = cost / 2 - eps / cost, -cost / 2 - eps / cost
    density = -np.square(upper) / 2 - _LOG_ROOT_TWO_PI
    tail = np.log(_mills(-np.minimum(upper, 0.0)) - _mills(-np.minimum(lower, 0.0)))
    body = special.ndtr(upper) - np.exp(density) * _mills(-lower)
    chosen: Float = np.where(upper <= 0, density + tail, np.log(np.where(upper <= 0, 1.0, body)))
    return chosen


def _mills(x: Float) -> Float:
    ratio: Float = np.sqrt(np.pi / 2) * special.erfcx(x / np.sqrt(2.0))
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
