"""Blocks that are the same with their cells in reverse order, folded into even and odd halves.

Where reversing the cells only exchanges queries of equal targets, as with all ranges, weights that
are equal on mirror images lose nothing, the dual being concave. In the orthonormal sums and
differences of mirror images the matrix falls into two of half the size: a quarter of the work of
a spectrum. With query j for the orbit of j and its image, and cell i for that of i and i', they are

    (A[j, i] ± A[j, i']) / 2, and A[j, i] where i is its own image,

at the weights of whole orbits.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from solvers.dual.matrix_blocks import Block, MatrixBlocks
from solvers.problem.factors import Factors, factorise
from workloads.operators import (
    Array,
    Cumulative,
    Explicit,
    Indices,
    QueryOperator,
    Scaled,
    Stacked,
)
from workloads.operators.blas import product

_FEWEST_CELLS = 192
"""Below, two small spectra take as long as one."""
_EQUAL = 1e-10
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class Reflection:
    """What blocks are folded into.

    Attributes
    ----------
    folded : MatrixBlocks
    orbits : numpy.ndarray of int, shape (n,)
        For every free weight of the whole the number of that of its orbit.
    """

    folded: MatrixBlocks
    orbits: Indices

    def fold(self, x: Array) -> Array:
        """Free weights of orbits, from those of the whole."""
        return np.bincount(self.orbits, x).astype(np.float64)

    def unfold(self, x: Array) -> Array:
        """Free weights of the whole, equal on every orbit."""
        unfolded: Array = (x / np.bincount(self.orbits))[self.orbits]
        return unfolded


def reflection(blocks: MatrixBlocks) -> Reflection | None:
    """How blocks fold; None if they do not, or it does not pay."""
    if blocks.cells < _FEWEST_CELLS:
        return None
    columns = np.arange(blocks.cells)[::-1]
    rows = _images(blocks, columns)
    return None if rows is None else _folded(blocks, columns, rows)


def _images(blocks: MatrixBlocks, columns: Indices) -> Indices | None:
    """The images of all queries; None if that of some query is none, or one of other weight.

    Queries are identified by their answers to random data, which are compared on other data.
    """
    cells = np.arange(blocks.cells)
    for block in blocks.blocks:
        own = cells[block.columns]
        if not np.array_equal(np.sort(columns[own]), own):
            return None
    data = np.random.default_rng(0).uniform(1, 2, (blocks.cells, 2))
    plain, turned = _answers(blocks, data), _answers(blocks, data[columns])
    rows = np.empty(blocks.queries, dtype=np.intp)
    rows[_ascending(plain[:, 0])] = _ascending(turned[:, 0])
    alike = (
        np.allclose(plain, turned[rows], _EQUAL, 0)
        and np.allclose(blocks.offset, blocks.offset[rows], _EQUAL, 0)
        and np.array_equal(rows[rows], np.arange(rows.size))
    )
    return rows if alike else None


def _answers(blocks: MatrixBlocks, data: Array) -> Array:
    """A mixture of every query's answers in all blocks."""
    shares = np.random.default_rng(1).uniform(1, 2, len(blocks.blocks))
    pairs = zip(shares, blocks.blocks, strict=True)
    total = np.zeros((blocks.queries, data.shape[1]))
    for share, block in pairs:
        basis, own = block.factors.basis, data[block.columns]
        seen = own if basis is None else product(basis, own)
        total[block.rows] += share * block.factors.operator.apply(seen)
    return total


def _ascending(values: Array) -> Indices:
    """The order of some numbers; equal ones, but for rounding, stay in their order."""
    return np.argsort(np.round(values / np.abs(values).max(), 13), kind="stable")


def _folded(blocks: MatrixBlocks, columns: Indices, rows: Indices) -> Reflection | None:
    halves: list[Block] = []
    of_columns, of_rows = _orbits(columns), _orbits(rows)
    for block in blocks.blocks:
        own = np.arange(blocks.cells)[block.columns]
        image = np.searchsorted(own, columns[own])
        row = np.arange(blocks.queries)[block.rows]
        for sign in (1, -1):
            cells = np.flatnonzero((own < columns[own]) | ((own == columns[own]) & (sign > 0)))
            kept = np.flatnonzero((row < rows[row]) | ((row == rows[row]) & (sign > 0)))
            factors = _half(block.factors, kept, _sums(image, cells, sign))
            if factors is None:
                return None
            if factors.rank:
                halves.append(Block(factors, of_rows[row[kept]], of_columns[own[cells]]))
    offset = np.bincount(of_rows, blocks.offset).astype(np.float64)
    smaller = replace(blocks, blocks=tuple(halves), cells=int(of_columns.max()) + 1, offset=offset)
    free = [of_columns] + [smaller.cells + of_rows] * blocks.free_queries
    return Reflection(smaller, np.concatenate(free))


def _orbits(images: Indices) -> Indices:
    """The number of every element's orbit, in the order of their first elements."""
    first = np.minimum(np.arange(images.size), images)
    return np.unique(first, return_inverse=True)[1]


def _sums(images: Indices, cells: Indices, sign: int) -> Array:
    """Half the sums, or the differences, of some cells and their images, as columns."""
    sums = np.zeros((images.size, cells.size))
    at = np.arange(cells.size)
    sums[cells, at] += 0.5
    sums[images[cells], at] += 0.5 * sign
    return sums


def _half(factors: Factors, at: Indices, sums: Array) -> Factors | None:
    """Some of the queries, ascending, over the sums; of rank 0 where they see nothing of these.

    None where the structure of the whole is not known of them.
    """
    if factors.basis is None:
        operator = _over(factors.operator, at, sums)
        return None if operator is None else Factors(operator, None)
    if factors.structured:
        return None
    whole = factors.left[at]
    matrix = product(whole, product(factors.basis, sums))
    rounding = _ROUNDING * np.linalg.norm(whole) * np.linalg.norm(factors.basis)
    if np.linalg.norm(matrix) <= rounding:
        return Factors(Explicit(matrix[:, :0]), None)
    return factorise(matrix)


def _over(operator: QueryOperator, at: Indices, sums: Array) -> QueryOperator | None:
    """Some of the queries over the sums, with their structure; None where it is not known."""
    if isinstance(operator, Explicit):
        return Explicit(np.asarray(operator.array[at] @ sums))
    if isinstance(operator, Cumulative):
        prefixes = np.cumsum(sums, axis=0)
        prefixes[:, :-1] -= prefixes[:, 1:]
        differences = sp.csr_array(operator.differences[at] @ sp.csr_array(prefixes))
        differences.eliminate_zeros()
        return Cumulative(differences)
    if isinstance(operator, Scaled):
        m = operator.operator.shape[0]
        once = at[at < m]
        each = once + m * np.arange(operator.times)[:, None]
        inner = _over(operator.operator, once, sums) if np.array_equal(at, each.ravel()) else None
        return None if inner is None else Scaled(inner, operator.factors[at])
    if isinstance(operator, Stacked):
        ends = np.cumsum([0, *(part.shape[0] for part in operator.parts)])
        cuts = np.searchsorted(at, ends)
        parts = [
            _over(part, at[low:high] - first, sums)
            for part, first, low, high in zip(operator.parts, ends, cuts, cuts[1:], strict=False)
            if low < high
        ]
        known = tuple(part for part in parts if part is not None)
        return Stacked(known) if len(known) == len(parts) else None
    return None
