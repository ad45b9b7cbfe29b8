"""The nuclear norm of matrices that share the weights of their columns and of their rows.

    f(p, q) = sum_T || diag(q)^1/2 A_T diag(p)^1/2 ||_*

over blocks A_T, each scaled by its multiplicity. A query matrix is one block. If W does not change
when the values of some attributes are relabelled, it splits into one block for each subset of these
attributes, whose columns and rows represent whole orbits of cells and queries. A block has only the
rows of the queries that see its subset, and the columns of their cells.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from solvers.dual.newton_system import BlockVectors, PreconditionedSystem
from solvers.dual.singular_vectors import Rows
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

    @property
    def queries(self) -> int:
        """Number of query weights m."""
        return self.offset.size

    @property
    def groups(self) -> Array:
        """Indicators of the columns' and of the queries' free weights, shape (n, 1 or 2)."""
        return np.repeat(np.eye(2 if self.free_queries else 1), self._sizes, axis=0)

    @property
    def uniform(self) -> Array:
        """Equal weights, each group of sum one, shape (n,)."""
        return np.repeat(1 / np.array(self._sizes), self._sizes)

    @property
    def by_norms(self) -> Array:
        """Weights proportional to squared norms, but none far below the mean, shape (n,)."""
        norms = [block.factors.squared_norms for block in self.blocks]
        columns = self.column_sums([of_columns for of_columns, _ in norms])
        rows = self.row_sums([of_rows for _, of_rows in norms])
        shares = [columns / columns.sum()] + [rows / rows.sum()] * self.free_queries
        return (1 - _EQUAL_SHARE) * np.concatenate(shares) + _EQUAL_SHARE * self.uniform

    @property
    def _sizes(self) -> list[int]:
        return [self.cells, self.queries] if self.free_queries else [self.cells]

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
        profile = self.column_sums(columns) / p
        if not self.free_queries:
            return profile
        return np.concatenate([profile, self.row_sums(rows) / q])

    def _all_weights(self, x: Array) -> tuple[Array, Array]:
        """Column weights p, and query weights q with the given ones included."""
        free = x[self.cells :]
        return x[: self.cells], self.offset + free if self.free_queries else self.offset

    def at(self, x: Array) -> "BlocksPoint":
        """The point at free weights x, shape (n,)."""
        p, q = self._all_weights(x)
        spectra = [spectrum(b.factors, p[b.columns], q[b.rows]) for b in self.blocks]
        return BlocksPoint(self, x, p, q, tuple(spectra))


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
    """

    blocks: MatrixBlocks
    x: Array
    p: Array
    q: Array
    spectra: tuple[Spectrum, ...]

    @property
    def spectrum(self) -> Spectrum:
        """The spectrum of the only block; ValueError if there are several."""
        (only,) = self.spectra
        return only

    @cached_property
    def nuclear_norm(self) -> float:
        """The value of f."""
        return sum([spectrum.nuclear_norm for spectrum in self.spectra])

    @cached_property
    def profile(self) -> Array:
        """The privacy profile of the inner solution, shape (d,)."""
        return self._column_mass / self.p

    @cached_property
    def variance_ratios(self) -> Array:
        """Variances over targets of the inner solution, shape (m,)."""
        return self._row_mass / self.q

    @cached_property
    def gradient(self) -> Array:
        """The gradient of 2f in the free weights, shape (n,)."""
        if not self.blocks.free_queries:
            return self.profile
        return np.concatenate([self.profile, self.variance_ratios])

    def newton_system(self, diagonal: Array, constraints: Array) -> PreconditionedSystem:
        """The Newton system at this point."""
        with_queries = self.blocks.free_queries
        signs, mass = np.ones(self.x.size), self._column_mass
        if with_queries:
            free_share = self.x[self.p.size :] / self.q
            signs[self.p.size :] = -free_share
            mass = np.concatenate([mass, self._row_mass * free_share])
        vectors = [
            BlockVectors(spectrum.singular, spectrum.vectors(with_queries=with_queries), weights)
            for spectrum, weights in zip(self.spectra, self._weights, strict=True)
        ]
        return PreconditionedSystem(vectors, signs, mass, diagonal, constraints)

    @property
    def _weights(self) -> Iterator[Rows]:
        """The indices of each block's weights among the free ones."""
        columns, queries = np.arange(self.p.size), self.p.size + np.arange(self.q.size)
        for block in self.blocks.blocks:
            if not self.blocks.free_queries:
                yield block.columns
            elif isinstance(block.columns, slice) and isinstance(block.rows, slice):
                yield slice(None)
            else:
                yield np.concatenate([columns[block.columns], queries[block.rows]])

    @cached_property
    def _column_mass(self) -> Array:
        return self.blocks.column_sums([spectrum.column_mass for spectrum in self.spectra])

    @cached_property
    def _row_mass(self) -> Array:
        return self.blocks.row_sums([spectrum.row_mass for spectrum in self.spectra])


def one_block(factors: Factors, offset: Array, *, free_queries: bool = True) -> MatrixBlocks:
    """The function f of a single matrix, as one block."""
    return MatrixBlocks((Block(factors, slice(None)),), factors.cells, offset, free_queries)
