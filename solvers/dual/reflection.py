"""Problems that stay the same if the order of their cells is reversed, solved by halves.

If reversing the cells only exchanges queries with equal targets, as it does for all ranges, for
prefixes from both ends and for symmetric windows, some optimal weights are equal on mirror images,
because the dual is concave. Take one query j of each pair of mirror images, and one cell i of each
pair i, i'. In the orthonormal sums and differences of mirror images, the matrix splits into the

    even half  (A_ji + A_ji') / 2   and the   odd half  (A_ji - A_ji') / 2,

whose weights are the total weights of the pairs. A query or cell that is its own mirror image is
part of the even half only. A spectrum of the two halves takes a quarter of the work of a spectrum
of the whole.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy

from solvers.dual.matrix_blocks import Block, BlocksPoint, MatrixBlocks
from solvers.dual.predictor_corrector import Optimum
from solvers.problem.factors import Factors, factorise
from workloads.operators import Array, Cumulative, Explicit, Indices, QueryOperator, Scaled
from workloads.operators.blas import product

_FEWEST_CELLS = 192
"""Least number of cells of a problem that is halved.

With fewer cells, the two spectra of the halves take as long as one, because the overhead of calls
takes more time than the arithmetic.
"""
_DIGITS = 13
"""Decimal digits to which answers are compared when queries are matched.

Rounding errors of the largest answers are 1e-13 at most; the answers of 500 000 random queries are
1e-12 apart or more.
"""
_EQUAL = 1e-10
"""Largest relative difference of two answers that are considered equal.

Prefix sums over the largest domains have relative rounding errors of 1e-13. Queries that differ by
more would make the halves another problem: its optimum would not close the certified gap.
"""


@dataclass(frozen=True, eq=False)
class Reflection:
    """A problem and its halves; without the symmetry, ``halves`` is the problem itself.

    Attributes
    ----------
    whole : MatrixBlocks
        The problem.
    halves : MatrixBlocks
        The even and the odd half, with one weight for each pair of mirror images.
    pairs : numpy.ndarray of int, shape (n,)
        For each free weight of the whole, the index of its pair's weight.
    """

    whole: MatrixBlocks
    halves: MatrixBlocks
    pairs: Indices

    def first(self, x: Array) -> BlocksPoint:
        """Return the halves' point at the whole's free weights ``x``, summed over each pair."""
        return self.halves.at(np.bincount(self.pairs, x).astype(np.float64))

    def unfold(self, progress: Optimum[BlocksPoint], bounds: "Bounds") -> Optimum[BlocksPoint]:
        """Return the result for the whole; its bounds hold whether or not the symmetry is exact."""
        if self.halves is self.whole:
            return progress
        proof = best = self._unfolded(progress.best)
        if progress.proof is not progress.best:
            proof = self._unfolded(progress.proof)
        lower, upper = bounds(proof)[0], bounds(best)[1]
        return replace(progress, lower=lower, upper=upper, proof=proof, best=best)

    def _unfolded(self, point: BlocksPoint) -> BlocksPoint:
        return self.whole.at((point.x / np.bincount(self.pairs))[self.pairs])


Bounds = Callable[[BlocksPoint], tuple[float, float]]
"""Computes the certified lower and upper bound at a point."""


def reflection(whole: MatrixBlocks, fewest_cells: int = _FEWEST_CELLS) -> Reflection:
    """Split a problem into halves if it has a single matrix, is symmetric, and is large enough."""
    images, d = None, whole.cells
    if len(whole.blocks) == 1 and d >= fewest_cells:
        factors = whole.blocks[0].factors
        operator = factors.operator if factors.structured else Explicit(factors.whole)
        images = _mirror_images(operator, whole.offset)
    if images is None:
        return Reflection(whole, whole, np.arange(len(whole.groups)))
    queries, pairs = np.unique(np.minimum(images, np.arange(images.size)), return_inverse=True)
    apart = np.flatnonzero(images[queries] != queries)
    cells = np.eye(d)[:, : d - d // 2]
    even = _half(operator, queries, (cells + cells[::-1]) / 2)
    odd = _half(operator, queries[apart], (cells - cells[::-1])[:, : d // 2] / 2)
    split = ((even, slice(None), slice(None)), (odd, apart, np.arange(d // 2)))
    halves = replace(
        whole,
        blocks=tuple(Block(half, *weights) for half, *weights in split if half is not None),
        cells=d - d // 2,
        offset=np.bincount(pairs, whole.offset).astype(np.float64),
    )
    of_cells = np.minimum(np.arange(d), np.arange(d)[::-1])
    free = [of_cells, halves.cells + pairs] if whole.free_queries else [of_cells]
    return Reflection(whole, halves, np.concatenate(free))


def _mirror_images(operator: QueryOperator, offset: Array) -> Indices | None:
    """For each query, the index of its mirror image; None if some query has none of equal offset.

    Queries are recognised by their answers to random data. None also for queries with a structure
    that `_half` cannot keep.
    """
    if isinstance(operator, Scaled):
        kept = isinstance(operator.operator, Cumulative) and operator.times == 1
    else:
        kept = isinstance(operator, Explicit)
    if not kept:
        return None
    data = np.random.default_rng(0).uniform(1, 2, (operator.shape[1], 2))
    answers, turned = operator.apply(data), operator.apply(data[::-1])
    images = np.empty(len(answers), dtype=np.intp)
    # queries are matched in the order of their answers to the first data set
    images[_order(answers[:, 0])] = _order(turned[:, 0])
    mirrored = (
        np.array_equal(images[images], np.arange(images.size))
        and np.allclose(answers, turned[images], rtol=_EQUAL, atol=0)
        and np.allclose(offset, offset[images], rtol=_EQUAL, atol=0)
    )
    return images if mirrored else None


def _order(values: Array) -> Indices:
    """Return the order of the values; values that are equal but for rounding keep their order."""
    return np.argsort(np.round(values / np.abs(values).max(), _DIGITS), kind="stable")


def _half(operator: QueryOperator, queries: Indices, columns: Array) -> Factors | None:
    """Factors of some queries times ``columns``, or None if all entries of the product are 0."""
    if isinstance(operator, Scaled) and isinstance(operator.operator, Cumulative):
        # with W = D T and S = columns, W S = (D T S T'^-1) T', where T' computes prefix sums
        prefixes = np.cumsum(columns, axis=0)
        prefixes[:, :-1] -= prefixes[:, 1:]
        differences = operator.operator.differences[queries] @ scipy.sparse.csr_array(prefixes)
        differences.eliminate_zeros()
        return Factors(Scaled(Cumulative(differences), operator.factors[queries]), None)
    matrix = product(operator.rows(queries), columns) if queries.size else np.zeros((0, 0))
    return factorise(matrix) if matrix.any() else None
