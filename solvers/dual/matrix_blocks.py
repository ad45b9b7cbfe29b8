"""The nuclear norm of weighted matrices that share weights of their columns and rows.

    f(p, q) = sum_T || diag(q)^1/2 A_T diag(p)^1/2 ||_*

The column weights are p and the query weights are q. The sum is over blocks A_T, each multiplied by
the number of times that it occurs. The dual of a query matrix without known symmetry has a single
block. If W does not change when the values of some attributes are relabelled, the dual splits into
blocks whose columns and rows represent whole orbits of cells and queries (`solvers.forms.orbits`).
Each of these blocks describes the contrasts over some subset T of the attributes. It has rows only
for the queries that depend on these contrasts, and columns only for the cells that the contrasts
involve.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from solvers.dual.newton_system import BlockVectors, PreconditionedSystem, Rows
from solvers.dual.spectrum import LOOSEST_TOL, Spectrum, masses, rough_masses, spectrum
from solvers.problem.factors import Factors
from workloads.operators import Array
from workloads.operators.blas import product

_EQUAL_SHARE = 0.1
"""Share of the first weights that is equal; the panel takes 464 steps with 0.001, 467 with 0.5."""


@dataclass(frozen=True, eq=False)
class Block:
    """One of the matrices A_T, and the indices of its weights among all weights.

    Attributes
    ----------
    factors : Factors
        Factors of A_T, multiplied by the number of times that A_T occurs.
    rows : slice or numpy.ndarray of int
        For each row of A_T, the index of its weight among the m query weights; ascending.
    columns : slice or numpy.ndarray of int
        For each column of A_T, the index of its weight among the d column weights; ascending.
    """

    factors: Factors
    rows: Rows
    columns: Rows = field(default_factory=lambda: slice(None))


@dataclass(frozen=True, eq=False)
class MatrixBlocks:
    """The function f of the n free weights: column weights and, unless fixed, query weights.

    Attributes
    ----------
    blocks : tuple of Block
        The matrices.
    cells : int
        Number of column weights d.
    offset : numpy.ndarray, shape (m,)
        Fixed query weights, to which the free query weights are added.
    free_queries : bool
        Whether there are free query weights, besides the free column weights.
    tol : float
        Relative error that rounding may cause in the gradient.
    """

    blocks: tuple[Block, ...]
    cells: int
    offset: Array
    free_queries: bool
    tol: float = LOOSEST_TOL

    @cached_property
    def groups(self) -> Array:
        """The indicators of column weights and, if free, of query weights, shape (n, 1 or 2)."""
        sizes = [self.cells, self.offset.size] if self.free_queries else [self.cells]
        return np.repeat(np.eye(len(sizes)), sizes, axis=0)

    @property
    def uniform(self) -> Array:
        """Weights that are equal within each group and sum to one there, shape (n,)."""
        sizes = self.groups.sum(axis=0)
        return np.asarray(self.groups @ (1 / sizes))

    @property
    def by_norms(self) -> Array:
        """Weights nearly proportional to the squared norms of columns and of rows, shape (d + m,).

        A small equal share is added to every weight, so that no weight is far below the mean.
        """
        norms = [block.factors.squared_norms for block in self.blocks]
        columns = self.column_sums([of_columns for of_columns, _ in norms])
        rows = self.row_sums([of_rows for _, of_rows in norms])
        shares = np.concatenate([columns / columns.sum(), rows / rows.sum()])
        return (1 - _EQUAL_SHARE) * shares + _EQUAL_SHARE * self.uniform

    def column_sums(self, parts: Sequence[Array]) -> Array:
        """For each column weight, add up the numbers of its columns in all blocks, shape (d,).

        ``parts`` has one array for each block, with one number for each column of the block.
        """
        total = np.zeros(self.cells)
        for block, part in zip(self.blocks, parts, strict=True):
            total[block.columns] += part
        return total

    def row_sums(self, parts: Sequence[Array]) -> Array:
        """For each query weight, add up the numbers of its rows in all blocks, shape (m,).

        ``parts`` has one array for each block, with one number for each row of the block.
        """
        total = np.zeros(self.offset.size)
        for block, part in zip(self.blocks, parts, strict=True):
            total[block.rows] += part
        return total

    def rough_gradient(self, x: Array) -> Array | None:
        """Return a rough gradient, up to a factor, at positive weights of columns and queries.

        The weights and the gradient have shape (d + m,). None if a rough gradient would be too
        inaccurate, or would take as much work as the exact gradient at the point that `at` returns.
        """
        p, q = x[: self.cells], x[self.cells :]
        columns, rows = [], []
        for block in self.blocks:
            rough = rough_masses(block.factors, p[block.columns], q[block.rows])
            if rough is None:
                return None
            columns.append(rough[0])
            rows.append(rough[1])
        return np.concatenate([self.column_sums(columns) / p, self.row_sums(rows) / q])

    def at(self, x: Array) -> "BlocksPoint":
        """Evaluate f at free weights x, shape (n,)."""
        p, free = x[: self.cells], x[self.cells :]
        q = self.offset + free if self.free_queries else self.offset
        spectra = [spectrum(b.factors, p[b.columns], q[b.rows], self.tol) for b in self.blocks]
        norm = float(sum([each.singular.sum() for each in spectra]))
        return BlocksPoint(self, x, p, q, spectra, norm)


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
        The query weights: the fixed weights plus the free weights.
    spectra : list of Spectrum
        The spectrum of each block.
    nuclear_norm : float
        The value of f.
    """

    blocks: MatrixBlocks
    x: Array
    p: Array
    q: Array
    spectra: list[Spectrum]
    nuclear_norm: float

    @property
    def spectrum(self) -> Spectrum:
        """The spectrum of the only block; ValueError if there are several."""
        (only,) = self.spectra
        return only

    @property
    def roots(self) -> list[Array]:
        """For each block, R with ``Σ = R Rᵀ``, the covariance of the inner solution on its basis.

        Σ is the matrix geometric mean, and ``R = basis diag(p)^1/2 Z Λ^-1/2``, shape (k, k).
        """
        roots = []
        for block, own in zip(self.blocks.blocks, self.spectra, strict=True):
            basis, turned = block.factors.basis, own.columns / np.sqrt(own.singular)
            root = np.sqrt(self.p[block.columns])[:, None] * turned
            roots.append(root if basis is None else product(basis, root))
        return roots

    @cached_property
    def profile(self) -> Array:
        """The privacy profile of the inner solution, (d,); column weights must be positive."""
        return self.blocks.column_sums([masses(s.cells, s.singular) for s in self.spectra]) / self.p

    @cached_property
    def variance_ratios(self) -> Array:
        """The ratios of variance to target of the inner solution, shape (m,)."""
        return self.blocks.row_sums([masses(s.queries, s.singular) for s in self.spectra]) / self.q

    @cached_property
    def gradient(self) -> Array:
        """The gradient of 2f with respect to the free weights, shape (n,)."""
        if not self.blocks.free_queries:
            return self.profile
        return np.concatenate([self.profile, self.variance_ratios])

    def newton_system(self, diagonal: Array, constraints: Array) -> PreconditionedSystem:
        """Return the Newton system at this point."""
        free, d, m = self.blocks.free_queries, self.p.size, self.q.size
        # if the free part of a query weight grows by a share, the whole weight grows by less
        signs = np.concatenate([np.ones(d), -self.x[d:] / self.q]) if free else np.ones(d)
        vectors = []
        for block, own in zip(self.blocks.blocks, self.spectra, strict=True):
            own_vectors, weights = [own.cells], np.arange(d)[block.columns]
            if free:
                own_vectors.append(own.queries)
                weights = np.concatenate([weights, d + np.arange(m)[block.rows]])
            vectors.append(BlockVectors(own.singular, own_vectors, weights))
        mass = self.x * self.gradient
        return PreconditionedSystem(vectors, signs, mass, diagonal, constraints)


def as_blocks(whole: Factors | MatrixBlocks, tol: float = LOOSEST_TOL) -> MatrixBlocks:
    """Convert a matrix to one block without fixed weights; blocks keep their matrices."""
    if isinstance(whole, MatrixBlocks):
        return replace(whole, tol=tol)
    m, d = whole.operator.shape[0], whole.cells
    return MatrixBlocks((Block(whole, slice(None)),), d, np.zeros(m), True, tol)
