"""The privacy loss of one column of shifts: a sum of independent losses, by convolution.

Three things make what it says a certificate:

- **A bracket.** Laplace noise has a continuous loss between two atoms. Two neighbouring grid
  points share what lies between them, so that both databases keep their probabilities: such a
  mechanism reveals more, and its δ is an upper bound. Outputs merged two grid steps at a time
  reveal less, and their common loss is exactly that of the middle, a grid point: a lower bound.
  Both err by the square of the grid step. Geometric noise lies on its grid exactly.
- **Tilting.** What is convolved are the probabilities times exp(t loss), t near the saddle
  point of δ: small δ come out with full relative accuracy (Chernoff; Gopi et al. 2021 bound
  truncation instead).
- **Rounding** of the transforms is bounded, and added to δ or taken off it.
"""

from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray

Float = NDArray[np.float64]
Column = tuple[tuple[int, int], ...]
"""How a neighbour moves the answers: pairs of a shift in quanta and how many queries it moves."""

GEOMETRIC, LAPLACE = "geometric", "laplace"

_ROUNDING = 8 * np.finfo(float).eps
_TILTS = np.geomspace(1e-4, 1e12, 161)
_STEEPEST = 600.0
_STEEPEST_ON_GRID = 10.0


def law_of(
    noise: str, of_laplace: Callable[[int, float], Float], loss: float, refinement: int
) -> tuple["LogLaw", float]:
    """The law of one query's loss, and the grid step that its losses fall by."""
    if noise == GEOMETRIC:
        return _geometric, 2 * loss
    return _on_grid(of_laplace, refinement), loss / refinement


LogLaw = Callable[[int, float], Float]
"""Log probabilities of one query's loss, by its shift and the loss of a quantum, falling losses."""


def least_epsilon(
    noise: str, column: Column, loss: float, delta: float, law: LogLaw, step: float, side: int
) -> float:
    """Least ε at δ of one column; ``side`` 1 for an upper bound, -1 for a lower one."""
    from scipy.signal import lfilter

    top = total(column) * loss
    tilt = min(chernoff(noise, column, loss, delta)[0], _STEEPEST_ON_GRID / step)
    probabilities, log_mass, error = _convolved(column, loss, law, step, tilt)
    falls = np.exp(-tilt * step), np.exp(-(1 + tilt) * step)
    revealed, excused = (lfilter([1.0], [1.0, -fall], probabilities) for fall in falls)
    losses = top - step * np.arange(probabilities.size)
    bound = revealed - excused + side * error
    with np.errstate(divide="ignore", invalid="ignore"):
        log_delta = log_mass - tilt * losses + np.log(np.maximum(bound, 0.0))
    reached = np.flatnonzero(log_delta >= np.log(delta))
    if not reached.size:
        return 0.0
    at = int(reached[0]) - 1
    if at < 0:
        return top if side > 0 else max(top - step, 0.0)
    allowed = np.exp(np.log(delta) - log_mass + tilt * losses[at]) - side * error
    share = np.clip((revealed[at] - allowed) / excused[at], np.exp(-step), 1.0)
    return float(max(losses[at] + np.log(share), 0.0))


def _convolved(
    column: Column, loss: float, law: LogLaw, step: float, tilt: float
) -> tuple[Float, float, float]:
    """Tilted probabilities of the sum, the log of their mass, and the error of their sums."""
    length = 1 + round(2 * total(column) * loss / step)
    size = scipy.fft.next_fast_len(length, real=True)
    transform = np.ones(size // 2 + 1, dtype=np.complex128)
    log_mass, queries = 0.0, 0
    for shift, count in column:
        logs = law(shift, loss)
        tilted = logs + tilt * (shift * loss - step * np.arange(logs.size))
        largest = float(tilted.max())
        weights = np.exp(tilted - largest)
        mass = float(weights.sum())
        log_mass += count * (largest + np.log(mass))
        transform *= scipy.fft.rfft(weights / mass, size) ** count
        queries += count
    density = scipy.fft.irfft(transform, size)[:length]
    error = _ROUNDING * np.sqrt(size) * (queries + 2) * np.log2(size + 1)
    return density, log_mass, float(error)


def chernoff(noise: str, column: Column, loss: float, delta: float) -> tuple[float, float]:
    """The t at which the bound on ε by E exp(t loss) is best, and that bound.

    δ(ε) <= E exp(t loss) exp(-t ε) t^t / (1 + t)^(1 + t) (Canonne, Kamath and Steinke 2020).
    """
    shifts = np.array([shift for shift, _ in column], dtype=np.float64)
    counts = np.array([count for _, count in column])
    allowed = _TILTS * shifts.max() * loss <= _STEEPEST
    t = _TILTS[allowed] if allowed.any() else _TILTS[:1]
    logs = _log_moments(noise, shifts, loss, t[:, None])
    values = (logs @ counts - np.log(delta) - np.log1p(t)) / t - np.log1p(1 / t)
    best = int(np.argmin(values))
    return float(t[best]), float(max(values[best], 0.0))


def _log_moments(noise: str, shifts: Float, loss: float, tilts: Float) -> Float:
    """Log E exp(t loss) of one query, for each t and each shift.

    Laplace: (t + 1) exp(t shift) + t exp(-(t + 1) shift) over 2 t + 1 (Mironov 2017); geometric:
    the sum over its outputs.
    """
    moved = shifts * loss
    rate = 2 * tilts + 1
    if noise == LAPLACE:
        sums = (tilts + 1 + tilts * np.exp(-rate * moved)) / rate
    else:
        within = np.expm1(-loss) / np.expm1(-rate * loss)
        between = np.exp(-rate * loss) - np.exp(-rate * moved)
        sums = (1 + np.exp(-rate * moved) + within * between) / (1 + np.exp(-loss))
    return np.asarray(tilts * moved + np.log(sums))


def _geometric(shift: int, loss: float) -> Float:
    """Losses shift, shift - 2, ..., -shift: with α = exp(-loss), α^k (1 - α) / (1 + α) within."""
    numbers = np.arange(shift + 1)
    logs = np.log(-np.expm1(-loss)) - loss * numbers
    logs[0], logs[-1] = 0.0, -loss * shift
    return np.asarray(logs - np.log1p(np.exp(-loss)))


def _on_grid(law: Callable[[int, float], Float], refinement: int) -> LogLaw:
    return lambda shift, loss: law(shift * refinement, loss / refinement)


def spread(steps: int, step: float) -> Float:
    """Laplace noise moved by so many grid steps of loss, its inner losses at both neighbours.

    A bin below its upper end by ``i`` steps has the probability ``exp(-i step / 2) within`` and
    the loss of its middle; ``1 / (1 + exp(-step / 2))`` of it goes to the upper end.
    """
    up = 1 / (1 + np.exp(-step / 2))
    bins = 0.5 * -np.expm1(-step / 2) * np.exp(-step / 2 * np.arange(2 * steps))
    masses = np.zeros(2 * steps + 1)
    masses[0], masses[-1] = 0.5, 0.5 * np.exp(-step * steps)
    masses[:-1] += up * bins
    masses[1:] += (1 - up) * bins
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(masses))


def merged(steps: int, step: float) -> Float:
    """Laplace noise moved by so many grid steps of loss, inner losses merged two steps at once."""
    masses = np.zeros(2 * steps + 1)
    masses[0], masses[-1] = 0.5, 0.5 * np.exp(-step * steps)
    masses[1::2] = 0.5 * -np.expm1(-step) * np.exp(-step * np.arange(steps))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(masses))


def total(column: Column) -> int:
    """The sum of its shifts, in quanta."""
    return sum(shift * count for shift, count in column)
