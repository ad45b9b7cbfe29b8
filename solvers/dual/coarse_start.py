"""Coarser domains of ordered cells, and their weights interpolated to finer domains."""

from collections.abc import Sequence

import numpy as np

from solvers.problem.factors import Factors, factorise
from workloads.operators import Array

_COARSEST = 256
_ALIKE = 0.25
_EDGE = 16
"""Number of weights at each end that are extrapolated by index; 8 and 32 work as well."""
_VANISHING = 0.1
"""Least ratio of the smallest weight to the mean at which weights are extrapolated."""


def coarsened(factors: Factors) -> Factors | None:
    """Every second query and cell of an ordered domain; None if neighbours are not similar.

    Neighbours are similar if the differences of adjacent rows are small compared with the rows, and
    those of adjacent columns compared with the columns, as in prefixes.
    """
    if factors.structured or factors.basis is not None or factors.cells < _COARSEST:
        return None
    matrix = factors.left
    small = _ALIKE * np.linalg.norm(matrix)
    if any(np.linalg.norm(np.diff(matrix, axis=axis)) > small for axis in (0, 1)):
        return None
    return factorise(matrix[::2, ::2])


def resampled(values: Array, size: int) -> Array:
    """Values interpolated at ``size`` equally spaced positions, shape (size,)."""
    if values.size == size:
        return values
    return np.interp(np.linspace(0, 1, size), np.linspace(0, 1, values.size), values)


def extrapolated(optima: Sequence[Array], size: int) -> Array:
    """Extrapolate optimal weights, up to a factor, from those of coarser domains, shape (size,).

    The last optimum differs from its own extrapolation by some factor; the next one is expected to
    differ by the same factor. If some weights vanish, the last optimum is only resampled.

    Parameters
    ----------
    optima : sequence of numpy.ndarray
        Positive weights of ..., every fourth, every second entry; at least 4 `_EDGE` of each.
    size : int
        Number of all entries.
    """
    last = optima[-1]
    if any(values.min() < _VANISHING * values.mean() for values in optima[-2:]):
        return resampled(last, size)
    if len(optima) == 1:
        return _refined(last, size)
    surprise = last / _refined(optima[-2], last.size)
    return _refined(last, size) * resampled(surprise, size)


def _refined(values: Array, size: int) -> Array:
    """Interpolate from every second entry to all: by index near the ends, elsewhere by position.

    On finer and finer domains, the weights near the ends depend on the number of cells in between,
    and all change by the same factor.
    """
    half = size // 2
    ahead, behind = _from_start(values, half), _from_start(values[::-1], size - half)
    return np.concatenate([ahead, behind[::-1]])


def _from_start(values: Array, count: int) -> Array:
    refined = np.interp(np.arange(count) / 2, np.arange(values.size), values)
    refined[:_EDGE] = values[:_EDGE] * (refined[_EDGE] / values[_EDGE])
    return refined
