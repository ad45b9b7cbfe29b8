"""Subsets and marginals that are alike, made one variable and one constraint each.

A partition of the marginals and of the subsets is *equitable* when every marginal of a class
contains equally many subsets of each class, and every subset of a class lies in equally many
marginals of each class. Where the entries of A are equal too, averaging v over the classes
keeps ``A v <= 1`` and, ``1/v`` being convex, does not raise the objective (for linear programs:
Grohe, Kersting, Mladenov and Selman, "Dimension reduction via colour refinement", ESA 2014).
The coarsest equitable partition is found by colour refinement, without a search for symmetries:
the 166 751 subsets of the 3-way marginals of 100 equal attributes become 4 classes.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from solvers.marginals.closure import Closure, Index
from solvers.marginals.program import Program
from workloads.operators import Array

_DIGITS = 12
_SEED = 0x5EED


@dataclass(frozen=True, eq=False)
class Collapsed:
    """A smaller program with the same optimum.

    Attributes
    ----------
    program : Program
        One constraint and one variable for each class.
    marginal_class, subset_class : numpy.ndarray of int
        The class of each constraint and of each variable of the original.
    """

    program: Program
    marginal_class: Index
    subset_class: Index

    def variables(self, v: Array) -> Array:
        """The original's variables, from those of the classes."""
        return (v * np.bincount(self.subset_class))[self.subset_class]

    def weights(self, q: Array) -> Array:
        """The original's dual weights, from those of the classes."""
        return (q / np.bincount(self.marginal_class))[self.marginal_class]


def collapse(program: Program, closure: Closure, targets: Array) -> Collapsed:
    """The program on the classes of the coarsest equitable partition.

    Parameters
    ----------
    program : Program
        Of the marginals.
    closure : Closure
        Of the same marginals.
    targets : numpy.ndarray, shape (number of marginals,)
        Their variance bounds.

    Returns
    -------
    Collapsed
    """
    start_rows = _colours(np.column_stack([np.log(targets), closure.log_sizes]))
    start_columns = _colours(closure.log_ranks[:, None])
    rows, columns = _refined(closure.incidence, start_rows, start_columns)
    sizes = np.bincount(columns)
    members = sp.csr_array(
        (sizes[columns].astype(float), (np.arange(columns.size), columns)),
        shape=(columns.size, sizes.size),
    )
    _, representatives = np.unique(rows, return_index=True)
    smaller = Program(
        sp.csr_array(program.matrix[representatives] @ members),
        np.bincount(rows, weights=program.offset).astype(np.float64),
        program.log_counts[representatives] + np.log(np.bincount(rows)),
    )
    return Collapsed(smaller, rows, columns)


def _colours(keys: Array) -> Index:
    _, colours = np.unique(np.round(keys, _DIGITS), axis=0, return_inverse=True)
    return colours.reshape(-1)


def _refined(incidence: sp.csr_array, rows: Index, columns: Index) -> tuple[Index, Index]:
    """Colours refined until the partition is equitable; hashing only proposes it."""
    ones = incidence.astype(np.int64)
    turned = sp.csr_array(ones.T)
    random = np.random.default_rng(_SEED)
    while True:
        before = rows.max(), columns.max()
        rows = _split(rows, ones @ _codes(random, columns))
        columns = _split(columns, turned @ _codes(random, rows))
        if (rows.max(), columns.max()) == before:
            return rows, columns


def _codes(random: np.random.Generator, colours: Index) -> Index:
    return random.integers(-(2**62), 2**62, size=int(colours.max()) + 1)[colours]


def _split(colours: Index, sums: Index) -> Index:
    """Classes that differ in colour or, among equal colours, in the sum (which may wrap)."""
    _, codes = np.unique(sums, return_inverse=True)
    _, split = np.unique(colours * (codes.max() + 1) + codes, return_inverse=True)
    return np.asarray(split, dtype=np.int64)
