"""The nuclear norm of matrices that share the weights of their columns and of their rows.

    f(p, q) = sum_T || diag(q)^1/2 A_T diag(p)^1/2 ||_*

over blocks A_T, each scaled by its multiplicity. A query matrix is one block. If W does not change
when the values of some attributes are relabelled, it splits into one block for each subset of these
attributes, whose columns and rows represent whole orbits of cells and queries. A block has only the
rows of the queries that see its subset, and the columns of their cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from solvers.dual.newton_system import BlockVectors, PreconditionedSystem, Rows
from solvers.dual.spectrum import Spectrum, rough_masses, spectrum
from solvers.problem.factors import Factors
from workloads.operators import Array

_EQUAL_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class Block:
    """One of the matrices A_T, and the places of its rows and columns among all weights.

    Attributes
    ----------
    factors : Factors
        A_T times its multiplicity.
    rows : slice or numpy.ndarray of int
        Indices of its rows among the m query weights, ascending.
    columns : slice or numpy.ndarray of int
        Indices of its columns among the d column weights, ascending.
    """

    factors: Factors
    rows: Rows
    columns: Rows = field(default_factory=lambda: slice(None))


@dataclass(frozen=True, eq=False)
class MatrixBlocks:
    """The function f of n free weights: those of the columns and, if free, of the queries.

    Attributes
    ----------
    blocks : tuple of Block
        The matrices.
    cells : int
        Number of column weights d.
    offset : numpy.ndarray, shape (m,)
        Given query weights, to which the free ones are added.
    free_queries : bool
        Whether the queries have free weights too.
    """

    blocks: tuple[Block, ...]
    cells: int
    offset: Array
    free_queries: bool

    @cached_property
    def queries(self) -> int:
        """Number of query weights m."""
        return self.offset.size

    @cached_property
    def groups(self) -> Array:
        """Indicators of the columns' and of the queries' free weights, shape (n, 1 or 2)."""
        sizes = [self.cells, self.offset.size] if self.free_queries else [self.cells]
        return np.repeat(np.eye(len(sizes)), sizes, axis=0)

    @property
    def uniform(self) -> Array:
        """Equal weights, each group of sum one, shape (n,)."""
        sizes = self.groups.sum(axis=0)
        return np.asarray(self.groups @ (1 / sizes))

    @property
    def by_norms(self) -> Array:
        """Weights proportional to squared norms, but none far below the mean, shape (n,)."""
        norms = [block.factors.squared_norms for block in self.blocks]
        columns = self.column_sums([of_columns for of_columns, _ in norms])
        rows = self.row_sums([of_rows for _, of_rows in norms])
        shares = [columns / columns.sum()] + [rows / rows.sum()] * self.free_queries
        return (1 - _EQUAL_SHARE) * np.concatenate(shares) + _EQUAL_SHARE * self.uniform

    def column_sums(self, parts: Sequence[Array]) -> Array:
        """The sums over all blocks of numbers for the columns of each block, shape (d,)."""
        total = np.zeros(self.cells)
        for block, part in zip(self.blocks, parts, strict=True):
            total[block.columns] += part
        return total

    def row_sums(self, parts: Sequence[Array]) -> Array:
        """The sums over all blocks of numbers for the rows of each block, shape (m,)."""
        total = np.zeros(self.queries)
        for block, part in zip(self.blocks, parts, strict=True):
            total[block.rows] += part
        return total

    def rough_gradient(self, x: Array) -> Array | None:
        """A rough multiple of the gradient at positive free weights, shape (n,).

        None if it would cost no less than the gradient that `at` computes.
        """
        p, q = self._all_weights(x)
        columns, rows = [], []
        for block in self.blocks:
            masses = rough_masses(block.factors, p[block.columns], q[block.rows])
            if masses is None:
                return None
            columns.append(masses[0])
            rows.append(masses[1])
        parts = [self.column_sums(columns) / p]
        return np.concatenate([*parts, self.row_sums(rows) / q] if self.free_queries else parts)

    def _all_weights(self, x: Array) -> tuple[Array, Array]:
        """Column weights p, and query weights q with the given ones included."""
        free = x[self.cells :]
        return x[: self.cells], self.offset + free if self.free_queries else self.offset

    def at(self, x: Array) -> "BlocksPoint":
        """The point at free weights x, shape (n,)."""
        p, q = self._all_weights(x)
        spectra = tuple([spectrum(b.factors, p[b.columns], q[b.rows]) for b in self.blocks])
        norm = float(sum([each.singular.sum() for each in spectra]))
        profile = self.column_sums([each.column_mass for each in spectra]) / p
        return BlocksPoint(self, x, p, q, spectra, norm, profile)


@dataclass(frozen=True, eq=False)
class BlocksPoint:
    """The function f, evaluated at given weights.

    Attributes
    ----------
    blocks : MatrixBlocks
        The function f.
    x : numpy.ndarray, shape (n,)
        The free weights.
    p : numpy.ndarray, shape (d,)
        Column weights.
    q : numpy.ndarray, shape (m,)
        All query weights, including given ones.
    spectra : tuple of Spectrum
        The spectrum of each block.
    nuclear_norm : float
        The value of f.
    profile : numpy.ndarray, shape (d,)
        The privacy profile of the inner solution.
    """

    blocks: MatrixBlocks
    x: Array
    p: Array
    q: Array
    spectra: tuple[Spectrum, ...]
    nuclear_norm: float
    profile: Array

    @property
    def spectrum(self) -> Spectrum:
        """The spectrum of the only block; ValueError if there are several."""
        (only,) = self.spectra
        return only

    @cached_property
    def variance_ratios(self) -> Array:
        """Variances over targets of the inner solution, shape (m,)."""
        return self.blocks.row_sums([each.row_mass for each in self.spectra]) / self.q

    @cached_property
    def gradient(self) -> Array:
        """The gradient of 2f in the free weights, shape (n,)."""
        if not self.blocks.free_queries:
            return self.profile
        return np.concatenate([self.profile, self.variance_ratios])

    def newton_system(self, diagonal: Array, constraints: Array) -> PreconditionedSystem:
        """The Newton system at this point."""
        free, d, m = self.blocks.free_queries, self.p.size, self.q.size
        # relative changes of the free query weights change all weights by their free share
        signs = np.concatenate([np.ones(d), -self.x[d:] / self.q]) if free else np.ones(d)
        vectors = []
        for block, own in zip(self.blocks.blocks, self.spectra, strict=True):
            weights = block.columns
            if free and isinstance(block.columns, slice) and isinstance(block.rows, slice):
                weights = slice(None)
            elif free:
                numbers = np.arange(d)[block.columns], d + np.arange(m)[block.rows]
                weights = np.concatenate(numbers)
            queries = own.queries if free else None
            vectors.append(BlockVectors(own.singular, own.columns, queries, weights))
        mass = self.x * self.gradient
        return PreconditionedSystem(vectors, signs, mass, diagonal, constraints)


def one_block(factors: Factors, offset: Array, *, free_queries: bool = True) -> MatrixBlocks:
    """The function f of a single matrix, as one block."""
    return MatrixBlocks((Block(factors, slice(None)),), factors.cells, offset, free_queries)
