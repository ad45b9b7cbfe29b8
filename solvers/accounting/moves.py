"""How far neighbours move the answers: the columns of W that determine the privacy loss.

Larger shifts reveal more (the noise is log-concave), so of two columns whose sorted shifts are
ordered entry by entry the smaller is dropped.
"""

import numpy as np
import scipy.sparse as sp

from solvers.accounting.convolution import GEOMETRIC, LAPLACE, Column
from solvers.accounting.privacy_loss import Moves
from workloads.operators import Array, Matrix, dense

_FEW_COLUMNS = 6
_MOST_TRANSFORMS = 96
_MOST_COLUMNS = 32
_MOST_DISTINCT = 4096
_MOST_QUANTA, _FEWEST_QUANTA = 2**13, 2**11
_MOST_WORK = 2**22
_LARGEST_LATTICE = 2**17
_LARGEST_ENTRIES = 2**26
_EXACT = 1e-12


def moves(noise: str, shifts: Matrix) -> Moves | None:
    """The worst columns of shifts, in quanta.

    Parameters
    ----------
    noise : {"geometric", "laplace"}
        The distribution of the noise on every query.
    shifts : numpy.ndarray or scipy.sparse array, shape (m, n)
        By how much each of n kinds of neighbours moves each query, not all zero; whole numbers
        under geometric noise. Their signs do not matter.

    Returns
    -------
    Moves or None
        None where the grid of losses would be too large: then there is the plain composition.
    """
    counted = _counts_alone(noise, shifts)
    if counted is not None:
        return counted
    quantum, least, most = _in_quanta(noise, shifts)
    if least is None or most is None:
        return None
    worst = _worst(most)
    crowded = _work(worst) > _MOST_TRANSFORMS
    some = worst if most is least else _worst(least)
    lower = some[:_FEW_COLUMNS] if crowded else some
    result = Moves(noise, quantum, _columns(worst), _columns(lower), crowded)
    largest = result.largest_sum / quantum
    return result if largest <= _LARGEST_LATTICE else None


def one_column(noise: str, count: int) -> Moves:
    """Every neighbour moves so many queries by one step."""
    column = (((1, count),),)
    return Moves(noise, 1.0, column, column)


def _counts_alone(noise: str, shifts: Matrix) -> Moves | None:
    """Where all shifts are equal the column with most of them decides; None where they differ."""
    entries = sp.coo_array(shifts)
    sizes = np.abs(entries.data[entries.data != 0])
    size = float(sizes[0])
    if sizes.min() < size or sizes.max() > size:
        return None
    most = int(np.bincount(entries.nonzero()[1]).max())
    if noise == LAPLACE:
        column: Column = ((1, most),)
        return Moves(noise, size, (column,), (column,)) if most <= _LARGEST_LATTICE else None
    column = ((round(size), most),)
    fits = size * most <= _LARGEST_LATTICE
    return Moves(noise, 1.0, (column,), (column,)) if fits else None


def _in_quanta(noise: str, shifts: Matrix) -> tuple[float, Array | None, Array | None]:
    """The quantum, and the distinct columns of shifts in quanta, rounded down and up."""
    columns = _sorted_columns(shifts)
    if columns is None:
        return 1.0, None, None
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
    return quantum, np.floor(columns / quantum), np.ceil(columns / quantum * (1 - _EXACT))


def _sorted_columns(shifts: Matrix) -> Array | None:
    """Distinct columns that are not zero, as rows of falling magnitudes without common zeros."""
    parts: list[Array] = []
    width = max(_LARGEST_ENTRIES // shifts.shape[0], 1)
    if shifts.shape[0] * shifts.shape[1] > 16 * _LARGEST_ENTRIES:
        return None
    by_column = sp.csc_array(shifts) if sp.issparse(shifts) else shifts
    for start in range(0, shifts.shape[1], width):
        part = np.abs(dense(by_column[:, start : start + width]))
        parts.append(np.unique(np.sort(part, axis=0)[::-1].T, axis=0))
    columns = np.unique(np.concatenate(parts), axis=0)
    return np.asarray(columns[:, columns.any(axis=0)], dtype=np.float64)


def _common_divisor(values: Array, largest: float) -> float | None:
    """The number of which all values are multiples, up to rounding; None if it is too small."""
    divisor = float(values.min())
    while largest / divisor <= _MOST_DISTINCT:
        rest = np.abs(values - divisor * np.rint(values / divisor))
        off = rest[rest > _EXACT * values]
        if not off.size:
            return divisor
        divisor = float(off.min())
    return None


def _worst(columns: Array) -> list[Array]:
    """The largest columns, none below another.

    Of very many the last is one that is above all that are left out.
    """
    order = np.argsort(-np.square(columns).sum(axis=1), kind="stable")
    kept: list[Array] = []
    for number, column in enumerate(columns[order]):
        if any(np.all(column <= other) for other in kept):
            continue
        if len(kept) == _MOST_COLUMNS:
            return [*kept, np.max(columns[order[number:]], axis=0)]
        kept.append(column)
    return kept


def _work(columns: list[Array]) -> int:
    """Number of transforms; one more than are allowed where a column stands for many."""
    transforms = sum(np.unique(column).size for column in columns)
    return _MOST_TRANSFORMS + 1 if len(columns) > _MOST_COLUMNS else transforms


def _columns(columns: list[Array]) -> tuple[Column, ...]:
    return tuple(_column(column) for column in columns)


def _column(shifts: Array) -> Column:
    values, counts = np.unique(shifts[shifts > 0], return_counts=True)
    return tuple((int(v), int(n)) for v, n in zip(values, counts, strict=True))
