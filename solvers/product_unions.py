"""Unions of Kronecker products in coordinates of which every product sees few.

A product that sums over an attribute sees one direction of its values, the total. Where the first
coordinate of every attribute is its total, such a product sees no other one; coordinates that
none sees are left out. What is left is the rank, or near it, whatever the number of cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from workloads.operators import (
    Array,
    Composed,
    Kronecker,
    Matrix,
    QueryOperator,
    Scaled,
    Stacked,
    cumulative,
    dense,
)

_PARALLEL = 1e-14
_MOST_CELLS = 10_000_000
_MOST_VALUES = 5_000
"""Of one attribute, whose coordinates are a matrix of so many rows and columns."""

Product = tuple[Sequence[Matrix], Array]
"""The factors of a Kronecker product, one for each attribute, and a number for each row."""


@dataclass(frozen=True, eq=False)
class InCoordinates:
    """A union of products W in the coordinates that some of them sees.

    Attributes
    ----------
    operator : QueryOperator
        W in the coordinates, shape (m, k).
    frames : tuple of numpy.ndarray
        Orthonormal rows for each attribute, whose products are all coordinates.
    seen : numpy.ndarray of int, shape (k,)
        The numbers of those that some product sees.
    """

    operator: QueryOperator
    frames: tuple[Array, ...]
    seen: NDArray[np.intp]

    @property
    def rows(self) -> Array:
        """The coordinates as orthonormal rows, shape (k, d)."""
        return Kronecker((self.frames,)).rows(self.seen)


def in_coordinates(operator: QueryOperator) -> InCoordinates | None:
    """The operator in the coordinates that some product sees.

    None where it is no union of products, all coordinates are seen, or there are too many.
    """
    products = _products(operator)
    if products is None or operator.shape[1] > _MOST_CELLS:
        return None
    if max(int(factor.shape[1]) for factor in products[0][0]) > _MOST_VALUES:
        return None
    frames = [
        _frame(factors) for factors in zip(*(factors for factors, _ in products), strict=True)
    ]
    turned = [
        [_turned(factor, frame) for factor, frame in zip(factors, frames, strict=True)]
        for factors, _ in products
    ]
    seen = np.zeros([len(frame) for frame in frames], dtype=bool)
    places = [np.ix_(*(np.arange(f.shape[1]) for f in factors)) for factors in turned]
    for place in places:
        seen[place] = True
    if seen.all():
        return None
    numbers = np.cumsum(seen).reshape(seen.shape) - 1
    parts = [
        Composed(
            Scaled(_product(factors, own, frames), scale),
            _selection(numbers[place].ravel(), int(seen.sum())),
        )
        for (factors, scale), own, place in zip(products, turned, places, strict=True)
    ]
    return InCoordinates(Stacked(tuple(parts)), tuple(frames), np.flatnonzero(seen))


def _products(operator: QueryOperator) -> list[Product] | None:
    """The products that an operator is a union of; None if it is none."""
    if isinstance(operator, Kronecker):
        sizes = operator.term_sizes
        return [(term, np.ones(size)) for term, size in zip(operator.terms, sizes, strict=True)]
    if isinstance(operator, Scaled):
        inner = _products(operator.operator)
        if inner is None:
            return None
        inner = inner * operator.times
        ends = np.cumsum([scale.size for _, scale in inner])[:-1]
        shares = np.split(operator.factors, ends)
        return [(term, scale * own) for (term, scale), own in zip(inner, shares, strict=True)]
    if isinstance(operator, Stacked):
        listed: list[Product] = []
        for part in operator.parts:
            own = _products(part)
            if own is None:
                return None
            listed += own
        return listed
    return None


def _frame(factors: Sequence[Matrix]) -> Array:
    """Orthonormal rows: the direction of the factors of one row first, if there are any.

    A reflection that takes the first value there; the values themselves if there is none.
    """
    size = int(factors[0].shape[1])
    single = [factor for factor in factors if factor.shape[0] == 1]
    frame = np.eye(size)
    if not single or size == 1:
        return frame
    total = dense(single[0]).ravel()
    normal = total / np.linalg.norm(total)
    normal[0] += np.copysign(1.0, normal[0])
    return np.asarray(frame - np.outer(normal, normal) * (2 / (normal @ normal)))


def _turned(factor: Matrix, frame: Array) -> Matrix:
    """A factor in the coordinates, less those of no row that it sees."""
    if np.count_nonzero(frame) == len(frame):
        return factor
    turned = dense(factor @ frame.T)
    beside = np.abs(turned[:, 1:]).max(initial=0.0)
    return turned[:, :1] if beside <= _PARALLEL * np.abs(turned[:, 0]).max() else turned


def _product(
    factors: Sequence[Matrix], turned: Sequence[Matrix], frames: Sequence[Array]
) -> QueryOperator:
    """A product in its coordinates; by the differences of its columns where it is over one."""
    wide = [j for j, factor in enumerate(turned) if factor.shape[1] > 1]
    if len(wide) == 1 and all(f.shape[0] == 1 for j, f in enumerate(turned) if j not in wide):
        known = cumulative(factors[wide[0]])
        if known is not None:
            total = float(np.prod([dense(f) for j, f in enumerate(turned) if j not in wide]))
            return Composed(known, total * frames[wide[0]].T)
    return Kronecker((tuple(turned),))


def _selection(numbers: NDArray[np.intp], count: int) -> sp.csr_array:
    """The coordinates of a product among all that are seen."""
    places = (np.ones(numbers.size), (np.arange(numbers.size), numbers))
    return sp.csr_array(places, shape=(numbers.size, count))
