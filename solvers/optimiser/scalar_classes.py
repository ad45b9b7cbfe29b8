"""Scalar blocks and weights that are alike, made one variable and one constraint each.

A partition of the rows and of the columns of A is *equitable* when every row of a class has
equally many entries in each class of columns, and every column of a class in each class of rows.
Where the entries of A are equal too, averaging v over the classes keeps ``A v <= 1`` and, ``1/v``
being convex, does not raise the objective (for linear programs: Grohe, Kersting, Mladenov and
Selman, "Dimension reduction via colour refinement", ESA 2014). The coarsest equitable partition is
found by colour refinement, without a search for symmetries: the 166 751 subsets of the 3-way
marginals of 100 equal attributes become 4 classes.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from solvers.optimiser.scalar_blocks import ScalarBlocks
from workloads.operators import Array

Index = NDArray[np.int64]

_DIGITS = 12
_SEED = 0x5EED


@dataclass(frozen=True, eq=False)
class ScalarClasses:
    """Scalar blocks, and fewer of them with the same optimum.

    Attributes
    ----------
    whole : ScalarBlocks
        All of them.
    smaller : ScalarBlocks
        One row and one column for each class.
    row_class, column_class : numpy.ndarray of int
        The class of every row and of every column of the whole.
    """

    whole: ScalarBlocks
    smaller: ScalarBlocks
    row_class: Index
    column_class: Index

    def with_offset(self, offset: Array) -> "ScalarClasses":
        """The same with other given weights, equal within every class of rows."""
        smaller = replace(self.smaller, offset=self.row_sums(offset))
        return replace(self, whole=replace(self.whole, offset=offset), smaller=smaller)

    def row_sums(self, values: Array) -> Array:
        """Numbers of all rows, added up over each class."""
        return np.bincount(self.row_class, weights=values).astype(np.float64)

    def variables(self, v: Array) -> Array:
        """The variables v of the whole, from those of the classes."""
        return (v * np.bincount(self.column_class))[self.column_class]

    def weights(self, x: Array) -> Array:
        """The weights of the whole, from those of the classes."""
        return (x / np.bincount(self.row_class))[self.row_class]


def collapse(whole: ScalarBlocks, row_keys: Array, column_keys: Array) -> ScalarClasses:
    """The classes of the coarsest equitable partition.

    Parameters
    ----------
    whole : ScalarBlocks
        A sparse, its entries and the offset functions of the keys of row and column.
    row_keys : numpy.ndarray, shape (rows, any number)
        Rows of different keys are not alike, nor such that differ in the 12th digit.
    column_keys : numpy.ndarray, shape (columns, any number)
        The same for the columns.

    Returns
    -------
    ScalarClasses
    """
    matrix = sp.csr_array(whole.matrix)
    rows, columns = _refined(matrix, _colours(row_keys), _colours(column_keys))
    sizes = np.bincount(columns)
    members = sp.csr_array(
        (sizes[columns].astype(float), (np.arange(columns.size), columns)),
        shape=(columns.size, sizes.size),
    )
    _, representatives = np.unique(rows, return_index=True)
    offset = np.bincount(rows, weights=whole.offset).astype(np.float64)
    smaller = ScalarBlocks(sp.csr_array(matrix[representatives] @ members), offset)
    return ScalarClasses(whole, smaller, rows, columns)


def _colours(keys: Array) -> Index:
    _, colours = np.unique(np.round(keys, _DIGITS), axis=0, return_inverse=True)
    return colours.reshape(-1)


def _refined(matrix: sp.csr_array, rows: Index, columns: Index) -> tuple[Index, Index]:
    """Colours refined until the partition is equitable; hashing only proposes it."""
    pattern = np.ones(matrix.nnz, dtype=np.int64), matrix.indices, matrix.indptr
    ones = sp.csr_array(pattern, shape=matrix.shape)
    turned = sp.csr_array(ones.T)
    random = np.random.default_rng(_SEED)
    while True:
        before = rows.max(), columns.max()
        rows = _split(rows, np.asarray(ones @ _codes(random, columns)))
        columns = _split(columns, np.asarray(turned @ _codes(random, rows)))
        if (rows.max(), columns.max()) == before:
            return rows, columns


def _codes(random: np.random.Generator, colours: Index) -> Index:
    return random.integers(-(2**62), 2**62, size=int(colours.max()) + 1)[colours]


def _split(colours: Index, sums: Index) -> Index:
    """Classes that differ in colour or, among equal colours, in the sum (which may wrap)."""
    _, codes = np.unique(sums, return_inverse=True)
    _, split = np.unique(colours * (codes.max() + 1) + codes, return_inverse=True)
    return np.asarray(split, dtype=np.int64)
