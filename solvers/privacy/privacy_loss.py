"""The (ε, δ) curve of independent noise on many queries, from its privacy loss distribution.

If neighbours move the answers by shifts s_1, ..., s_k, the privacy loss is a sum of independent
losses, one for each query, and δ(ε) = E max(0, 1 - exp(ε - loss)). On a grid, the distribution of
the sum is a convolution, computed as a product of Fourier transforms. Laplace and geometric noise
are symmetric, so adding and removing a record have the same loss. A column lists the shifts of all
queries between two neighbours. The noise is log-concave, so larger shifts reveal more: a column is
dropped if another column, after sorting, is at least as large in every entry.

Shifts are measured in quanta. The argument ``loss`` is the largest privacy loss of a shift by one
quantum. The result is a certificate for three reasons:

- **A bracket.** Laplace noise has a continuous loss between two atoms. For an upper bound on δ, the
  probability between two neighbouring grid points is divided between these points, so that its
  total under either database is unchanged: a mechanism with these losses reveals more. For a lower
  bound, the outputs in two grid steps are merged: a mechanism with the merged outputs reveals less,
  and their loss is exactly that of the grid point in the middle. Both errors are quadratic in the
  grid step. The losses of geometric noise lie exactly on a grid.
- **Tilting.** The probabilities are multiplied by exp(t loss) before the convolution, where t is
  near the saddle point of δ, so a small δ has full relative accuracy (Chernoff; Gopi et al. 2021
  bound the truncation instead).
- **Rounding.** The rounding error of the transforms is bounded, and the bound is added to δ or
  subtracted from it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from workloads.operators import Array, Matrix, dense

Column = tuple[tuple[int, int], ...]
"""Shifts of the answers between two neighbours: pairs (shift in quanta, number of queries)."""

GEOMETRIC, LAPLACE = "geometric", "laplace"

_TRANSFORM_ERROR = 8 * np.finfo(float).eps
"""Rounding error of a transform and its inverse, in units of the norm and the log2 of the size.

This is twice the bound for a radix-2 transform (Higham 2002, Theorem 24.2), 4 eps each.
"""

_TILTS = np.geomspace(1e-4, 1e12, 161)
"""Orders t of moments that are tried, ten per decade.

The bound on ε is flat around its best t, which is about 1/ε for small ε and small if δ is near 1.
"""

_STEEPEST = 600.0
"""Largest order times the largest loss of a query: a higher order lowers a bound by 1e-6 at most.

Without this limit, the bounds of many columns take twice as long.
"""

_STEEPEST_ON_GRID = 10.0
"""Largest decay of the logarithm that tilting adds from one loss on the grid to the next.

With 1, a tilt is too small for δ = 1e-14 on few losses; without a limit, all losses but the largest
vanish in rounding (a test fails in either case).
"""


def _least_epsilon(
    noise: str, column: Column, loss: float, delta: float, refinement: int, side: int
) -> float:
    """Return a bound on the least ε for ``delta`` if neighbours shift the answers by one column.

    ``side`` is 1 for an upper bound, -1 for a lower bound. The grid of the losses of Laplace noise
    has ``refinement`` steps per quantum; geometric noise needs no approximation.
    """
    from scipy.signal import lfilter

    top = _total(column) * loss
    step = 2 * loss if noise == GEOMETRIC else loss / refinement

    def law(shift: int) -> Array:
        if noise == GEOMETRIC:
            return _geometric(shift, loss)
        return _laplace(shift * refinement, step, side)

    # the best order of the Chernoff bound is near the saddle point of δ
    tilt = min(_chernoff(noise, column, loss, delta)[0], _STEEPEST_ON_GRID / step)
    probabilities, log_mass, error = _convolved(column, loss, law, step, tilt)
    # δ(ε) is the sum of P(loss) (1 - exp(ε - loss)) over the losses from ε upwards, where P(loss)
    # is exp(log_mass - tilt loss) times the tilted probability. For each ε on the grid,
    # ``revealed`` sums the tilted probabilities times exp(-tilt (loss - ε)), and ``excused`` the
    # same times exp(ε - loss); a recursion over ε computes both in O(size)
    falls = np.exp(-tilt * step), np.exp(-(1 + tilt) * step)
    revealed, excused = (lfilter([1.0], [1.0, -fall], probabilities) for fall in falls)
    losses = top - step * np.arange(probabilities.size)
    bound = revealed - excused + side * error
    with np.errstate(divide="ignore", invalid="ignore"):
        log_delta = log_mass - tilt * losses + np.log(np.maximum(bound, 0.0))
    reached = np.flatnonzero(log_delta >= np.log(delta))
    if not reached.size:
        return 0.0
    at = int(reached[0]) - 1  # the last loss at which δ is below the given one
    if at < 0:
        return top if side > 0 else max(top - step, 0.0)
    allowed = np.exp(np.log(delta) - log_mass + tilt * losses[at]) - side * error
    # between two grid points δ is linear in exp(ε)
    share = np.clip((revealed[at] - allowed) / excused[at], np.exp(-step), 1.0)
    return float(max(losses[at] + np.log(share), 0.0))


def _convolved(
    column: Column, loss: float, law: Callable[[int], Array], step: float, tilt: float
) -> tuple[Array, float, float]:
    """Return the tilted probabilities of the total loss, their log mass, and an error bound.

    ``law`` maps the shift of a query to the log probabilities of its losses, the largest loss
    first. The probabilities sum to 1; the log mass is the logarithm of their sum before
    normalisation. The error bound is for rounding in sums of the probabilities.
    """
    # the losses are symmetric: they range from the negative total shift to the total shift
    length = 1 + round(2 * _total(column) * loss / step)
    size = scipy.fft.next_fast_len(length, real=True)
    transform = np.ones(size // 2 + 1, dtype=np.complex128)
    log_mass, queries = 0.0, 0
    for shift, count in column:
        logs = law(shift)
        tilted = logs + tilt * (shift * loss - step * np.arange(logs.size))
        largest = float(tilted.max())
        weights = np.exp(tilted - largest)
        mass = float(weights.sum())
        log_mass += count * (largest + np.log(mass))
        # the sum of ``count`` independent losses is a power of the transform
        transform *= scipy.fft.rfft(weights / mass, size) ** count
        queries += count
    density = scipy.fft.irfft(transform, size)[:length]
    # every factor has entries of at most 1, so the relative errors of all queries add up; the root
    # of the size turns the norm of the error into a bound on its sum
    error = _TRANSFORM_ERROR * np.sqrt(size) * (queries + 2) * np.log2(size + 1)
    return density, log_mass, float(error)


def _chernoff(noise: str, column: Column, loss: float, delta: float) -> tuple[float, float]:
    """Return the order t of the smallest Chernoff bound on ε, and this bound.

    It uses ``δ(ε) <= E exp(t L) exp(-t ε) t^t / (1 + t)^(1 + t)``, where L is the total privacy
    loss (Canonne, Kamath and Steinke 2020).
    """
    shifts, counts = np.array(column, dtype=np.float64).T
    t = _TILTS[: max(np.searchsorted(_TILTS, _STEEPEST / (shifts.max() * loss)), 1)]
    logs = _log_moments(noise, shifts, loss, t[:, None]) @ counts
    bounds = (logs - np.log(delta) - np.log1p(t)) / t - np.log1p(1 / t)
    best = int(np.argmin(bounds))
    return float(t[best]), float(max(bounds[best], 0.0))


def _log_moments(noise: str, shifts: Array, loss: float, tilts: Array) -> Array:
    """Return log E exp(t L) for the privacy loss L of one query, for each order t and shift.

    For Laplace noise, ``E exp(t L) = ((t + 1) exp(t s) + t exp(-(t + 1) s)) / (2 t + 1)``, where s
    is the largest value of L at this shift (Mironov 2017). For geometric noise, the expectation is
    a sum over the outputs.
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


def _geometric(shift: int, loss: float) -> Array:
    """Return the log probabilities of the losses of geometric noise, the largest loss first.

    The losses are ``(shift - 2 k) loss`` for k from 0 to ``shift``. Except for the first and the
    last loss, their probabilities are ``α^k (1 - α) / (1 + α)``, where α is ``exp(-loss)``.
    """
    numbers = np.arange(shift + 1)
    logs = np.log(-np.expm1(-loss)) - loss * numbers
    logs[0], logs[-1] = 0.0, -loss * shift
    return np.asarray(logs - np.log1p(np.exp(-loss)))


def _laplace(steps: int, step: float, side: int) -> Array:
    """Return log probabilities of losses on a grid, for noise that approximates Laplace noise.

    If ``side`` is 1, the noise reveals more than Laplace noise: the probability of every bin, the
    interval between two grid points, is divided between these points. A bin whose upper end is
    ``i`` steps below the largest loss has the probability
    ``(1 - exp(-step / 2)) exp(-i step / 2) / 2``, and its outputs together have the loss at the
    middle of the bin. The share ``1 / (1 + exp(-step / 2))`` goes to the upper end.

    If ``side`` is -1, the noise reveals less: the outputs in two grid steps are merged, and have
    the loss of the grid point in the middle.
    """
    masses = np.zeros(2 * steps + 1)
    masses[0], masses[-1] = 0.5, 0.5 * np.exp(-step * steps)
    if side > 0:
        up = 1 / (1 + np.exp(-step / 2))
        bins = 0.5 * -np.expm1(-step / 2) * np.exp(-step / 2 * np.arange(2 * steps))
        masses[:-1] += up * bins
        masses[1:] += (1 - up) * bins
    else:
        masses[1::2] = 0.5 * -np.expm1(-step) * np.exp(-step * np.arange(steps))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(masses))


def _total(column: Column) -> int:
    """Return the sum of the column's shifts, in quanta."""
    return sum(shift * count for shift, count in column)


_LARGEST_GRID = 2**15
"""Number of losses from which the grid of Laplace noise is not refined further.

A transform of so many takes 1 ms, and `Moves.step` needs a dozen for each column.
"""

_GOOD_BRACKET = 2e-4
"""Relative width of a bracket at which the grid is fine enough: three digits of ε are shown."""

_LEAP, _COARSE_LEAP = 0.05, 0.5
"""First steps of the two searches, in the logarithm of the noise's ε.

The Chernoff bound is a few per cent above the least ε, so the second search is short.
"""

_FARTHEST_LEAP = 200.0
"""Farthest point of a search, so that its exponential does not overflow (only for ε < 1e-80)."""

_ROOT_ERROR, _COARSE_ERROR = 1e-9, 1e-3
"""Accuracy of the two searches: far below that of the bracket, and far below `_LEAP`."""


@dataclass(frozen=True)
class Bracket:
    """Certified bounds on the least ε; only the upper bound is a guarantee of privacy."""

    lower: float
    upper: float


@dataclass(frozen=True)
class Moves:
    """How far neighbours move the answers in the worst case.

    Attributes
    ----------
    noise : {"geometric", "laplace"}
        The distribution of the noise on every query.
    quantum : float
        The unit of the shifts, in steps of the noise.
    most : tuple of Column
        Upper bounds: any two neighbours move the answers at most as far as one of these columns.
    least : tuple of Column
        Lower bounds: for each of these columns, two neighbours move the answers at least as far.
    crowded : bool
        Whether ``most`` has too many columns for convolutions. The upper bound then uses
        exponential moments, and is a few per cent above the least ε.
    """

    noise: str
    quantum: float
    most: tuple[Column, ...]
    least: tuple[Column, ...]
    crowded: bool = False

    @property
    def largest_sum(self) -> float:
        """Largest total shift in one column, in steps of the noise."""
        return self.quantum * max(_total(column) for column in self.most)

    def epsilon(self, step: float, delta: float) -> Bracket:
        """Return certified bounds on the least ε for this δ.

        Parameters
        ----------
        step : float
            ε > 0 that one step of the noise costs at δ = 0.
        delta : float
            δ in (0, 1).
        """
        loss = self.quantum * step
        return _bracket(self, loss, delta, self.refinement(loss, delta))

    def step(self, epsilon: float, delta: float) -> float:
        """Return the largest ε of one step at which the upper bound proves (ε, δ)-privacy.

        Parameters
        ----------
        epsilon : float
            ε > 0.
        delta : float
            δ in (0, 1).
        """
        return _step(self, epsilon, delta)

    def refinement(self, loss: float, delta: float) -> int:
        """Return the number of grid steps per quantum if one quantum has this loss.

        The number is computed for ``loss`` rounded to one digit, and for ``loss`` rounded up to
        one digit; the larger number is returned.
        """
        # rounding lets nearby losses share a cached refinement
        digit = 10.0 ** np.floor(np.log10(loss))
        near, above = float(f"{loss:.1g}"), float(f"{np.ceil(loss / digit) * digit:.1g}")
        return max(_refinement(self, rounded, delta) for rounded in {near, above})


@lru_cache(maxsize=4096)
def _step(moves: Moves, epsilon: float, delta: float) -> float:
    """Return the ε of one step at which the upper bound reaches ``epsilon``, or slightly less."""
    # plain composition allows this step for every δ
    safe = float(np.log(epsilon / moves.largest_sum))

    def chernoff_excess(log_step: float) -> float:
        loss = moves.quantum * float(np.exp(log_step))
        bounds = (_chernoff(moves.noise, column, loss, delta)[1] for column in moves.most)
        return max(bounds) - epsilon

    # the Chernoff bound costs little: it gives the place to start, and the refinement there
    low = _last_allowed(chernoff_excess, safe, _COARSE_LEAP, _COARSE_ERROR)
    refinement = moves.refinement(moves.quantum * float(np.exp(low)), delta)

    def excess(log_step: float) -> float:
        upper = _upper(moves, moves.quantum * float(np.exp(log_step)), delta, refinement)
        return float(np.log(max(upper, 1e-300) / epsilon))

    if low > safe and excess(low) > 0:
        low = safe
    return float(np.exp(max(_last_allowed(excess, low, _LEAP, _ROOT_ERROR), safe)))


def _last_allowed(
    excess: Callable[[float], float], start: float, leap: float, error: float
) -> float:
    """Return the largest number at which a rising ``excess`` is not positive, less ``error``.

    The result is at least ``start``, and at most `_FARTHEST_LEAP` above it.
    """
    low, high = start, start + leap
    while excess(high) <= 0:
        low, high = high, high + 2 * (high - low)
        if high > start + _FARTHEST_LEAP:
            return low
    if excess(low) >= 0:
        return low
    root = float(scipy.optimize.brentq(excess, low, high, xtol=error / 4, rtol=1e-15))
    # a number that the root's error makes too large would not be allowed
    return max(root - error, start)


@lru_cache(maxsize=4096)
def _refinement(moves: Moves, loss: float, delta: float) -> int:
    """Return the number of grid steps per quantum: enough for a tight bracket on a small grid.

    The number is 1 if the shifts are rounded to quanta, or if the noise is geometric.
    """
    if moves.noise == GEOMETRIC or moves.most != moves.least:
        return 1
    largest = max(_total(column) for column in moves.most)
    refinement = 1
    while 2 * largest * refinement < _LARGEST_GRID:
        found = _bracket(moves, loss, delta, refinement)
        if found.upper - found.lower <= _GOOD_BRACKET * found.upper:
            break
        refinement *= 2
    return refinement


def _bracket(moves: Moves, loss: float, delta: float, refinement: int) -> Bracket:
    upper = _upper(moves, loss, delta, refinement)
    lower = max(_least_epsilon(moves.noise, c, loss, delta, refinement, -1) for c in moves.least)
    return Bracket(min(lower, upper), upper)


def _upper(moves: Moves, loss: float, delta: float, refinement: int) -> float:
    if moves.crowded:
        return max(_chernoff(moves.noise, column, loss, delta)[1] for column in moves.most)
    return max(_least_epsilon(moves.noise, c, loss, delta, refinement, 1) for c in moves.most)


_MOST_COLUMNS, _MOST_TRANSFORMS = 32, 96
"""Most maximal columns, and most distinct shifts in all of them, for an upper bound by convolution.

Each distinct shift takes a transform, so a bound takes up to 0.1 s on grids of `_LARGEST_GRID`.
"""

_FEW_COLUMNS = 6
"""Number of columns for the lower bound if there are too many: it only informs."""

_MOST_DISTINCT = 4096
"""Largest shift in units of a common divisor; beyond it, shifts are rounded to quanta instead."""

_MOST_QUANTA, _FEWEST_QUANTA = 2**13, 2**11
"""Number of quanta of the largest total shift if shifts are rounded; more give a closer bracket."""

_MOST_WORK = 2**22
"""Quanta times queries times columns, for which `_MOST_QUANTA` are reduced: about 1 s a bracket."""

_LARGEST_LATTICE = 2**17
"""Largest total shift in quanta: a transform of so many losses takes 8 ms."""

_LARGEST_ENTRIES = 2**26
"""Entries of shifts that are sorted at a time, in 16 s; sixteen times as many are too many."""

_EXACT = 1e-12
"""Relative error of shifts that are whole multiples of a divisor: above rounding, below data."""


def find_moves(noise: str, shifts: Matrix) -> Moves | None:
    """Find the worst columns of shifts, in quanta.

    Parameters
    ----------
    noise : {"geometric", "laplace"}
        The distribution of the noise on every query.
    shifts : numpy.ndarray or scipy.sparse array, shape (m, n)
        The change of each query's answer for each of n kinds of neighbours, not all zero; whole
        numbers under geometric noise. Signs do not matter.

    Returns
    -------
    Moves or None
        None if the grid of losses would be too large or there are too many shifts; plain
        composition is used then.
    """
    found = _counts_alone(noise, shifts) or _by_columns(noise, shifts)
    fits = found is not None and found.largest_sum / found.quantum <= _LARGEST_LATTICE
    return found if fits else None


def one_column(noise: str, count: int) -> Moves:
    """Return the `Moves` of neighbours that shift ``count`` answers by one step each."""
    column = (((1, count),),)
    return Moves(noise, 1.0, column, column)


def _counts_alone(noise: str, shifts: Matrix) -> Moves | None:
    """Return the `Moves` if all nonzero shifts have the same magnitude, otherwise None.

    The worst column is then the one with the most nonzero shifts.
    """
    entries = scipy.sparse.coo_array(shifts)
    sizes = np.abs(entries.data[entries.data != 0])
    size = float(sizes[0])
    if sizes.min() < size or sizes.max() > size:
        return None
    most = int(np.bincount(entries.nonzero()[1]).max())
    quantum = size if noise == LAPLACE else 1.0
    columns = (((round(size / quantum), most),),)
    return Moves(noise, quantum, columns, columns)


def _by_columns(noise: str, shifts: Matrix) -> Moves | None:
    """Return the `Moves` by comparing all distinct columns; None if there are too many shifts."""
    columns = _sorted_columns(shifts)
    if columns is None:
        return None
    quantum, least, most = _in_quanta(noise, columns)
    worst = _worst(most)
    crowded = (
        len(worst) > _MOST_COLUMNS
        or sum(np.unique(column).size for column in worst) > _MOST_TRANSFORMS
    )
    some = worst if most is least else _worst(least)
    lower = some[:_FEW_COLUMNS] if crowded else some
    return Moves(noise, quantum, tuple(map(_column, worst)), tuple(map(_column, lower)), crowded)


def _in_quanta(noise: str, columns: Array) -> tuple[float, Array, Array]:
    """Return the quantum, and the columns in quanta, rounded down and rounded up."""
    if noise == GEOMETRIC:
        return 1.0, columns, columns
    largest = float(columns.max())
    quantum = _common_divisor(np.unique(columns[columns > 0]), largest)
    if quantum is not None:
        whole = np.unique(np.rint(columns / quantum), axis=0)
        return quantum, whole, whole
    work = _MOST_WORK // (min(len(columns), _FEW_COLUMNS) * columns.shape[1])
    quanta = min(max(work, _FEWEST_QUANTA), _MOST_QUANTA)
    quantum = largest / max(quanta * largest // float(columns.sum(axis=1).max()), 1)
    # rounding errors must not raise a whole number of quanta to the next
    return quantum, np.floor(columns / quantum), np.ceil(columns / quantum * (1 - _EXACT))


def _sorted_columns(shifts: Matrix) -> Array | None:
    """Return each distinct column as a row of magnitudes in decreasing order.

    Positions that are zero in all rows are left out. None if there are too many shifts.
    """
    parts: list[Array] = []
    width = max(_LARGEST_ENTRIES // shifts.shape[0], 1)
    if shifts.shape[0] * shifts.shape[1] > 16 * _LARGEST_ENTRIES:
        return None
    by_column = scipy.sparse.csc_array(shifts) if scipy.sparse.issparse(shifts) else shifts
    for start in range(0, shifts.shape[1], width):
        part = np.abs(dense(by_column[:, start : start + width]))
        parts.append(np.unique(np.sort(part, axis=0)[::-1].T, axis=0))
    columns = np.unique(np.concatenate(parts), axis=0)
    return np.asarray(columns[:, columns.any(axis=0)], dtype=np.float64)


def _common_divisor(values: Array, largest: float) -> float | None:
    """Find the largest common divisor of the values, up to rounding; None if it is too small."""
    # Euclid's algorithm on real numbers: the least remainder takes the place of the divisor
    divisor = float(values.min())
    while largest / divisor <= _MOST_DISTINCT:
        rest = np.abs(values - divisor * np.rint(values / divisor))
        off = rest[rest > _EXACT * values]
        if not off.size:
            return divisor
        divisor = float(off.min())
    return None


def _worst(columns: Array) -> list[Array]:
    """Return the maximal columns, which no other column dominates entrywise.

    At most `_MOST_COLUMNS` are returned. If there are more, one column is appended: an entrywise
    upper bound on the maximal columns that are left out.
    """
    # a column that dominates another has the larger norm, so it comes first
    order = np.argsort(-np.square(columns).sum(axis=1), kind="stable")
    kept: list[Array] = []
    for number, column in enumerate(columns[order]):
        if any(np.all(column <= other) for other in kept):
            continue
        if len(kept) == _MOST_COLUMNS:
            return [*kept, np.max(columns[order[number:]], axis=0)]
        kept.append(column)
    return kept


def _column(shifts: Array) -> Column:
    values, counts = np.unique(shifts[shifts > 0], return_counts=True)
    return tuple((int(v), int(n)) for v, n in zip(values, counts, strict=True))
