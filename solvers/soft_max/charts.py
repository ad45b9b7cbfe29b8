"""Problem 4 in coordinates that are adapted to the covariance, a matrix or a number in each block.

By Theorem 2 of arXiv v1 every basis represents the same mechanisms, but the basis determines how
fast conjugate gradients converge. So each Newton step is taken in the basis in which the current Σ
is I and B diag(p) Bᵀ is diagonal, with entries λ. There the Hessian of F maps a direction P to

    (λ_a + λ_b) P_ab + t1 B diag(p (a - p·a)) Bᵀ + t2 Vᵀ diag(q (b - q·b)) V,

where a_i = b_iᵀ P b_i and b_j = v_jᵀ P v_j, p and q are the soft-max weights, and V has the scaled
queries v_j as rows. The preconditioner inverts the first term. Only the factor C of Σ = C Cᵀ is
stored. After a step P, the Cholesky factor of I + P updates C, so no step factorises an
ill-conditioned matrix.

If there are several blocks with shared weights, each has its own covariance, and the profiles and
the ratios of all blocks add up; a direction concatenates the directions of the blocks. If all
blocks have size one, their covariances are a vector of variances v, and a direction is a vector of
relative changes of v; the Hessian of the profile is then diagonal, with entries 2/v.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from solvers.dual.matrix_blocks import MatrixBlocks
from solvers.dual.programs import Weights
from solvers.dual.scalar_blocks import ScalarBlocks
from solvers.soft_max.objective import DiagonalChart
from workloads.operators import Array, Composed, Explicit, QueryOperator, dense
from workloads.operators.blas import product, whole


@dataclass(frozen=True, eq=False)
class AdaptedIterate:
    """A covariance Σ = C Cᵀ, stored in the basis in which it is the identity.

    Attributes
    ----------
    columns : numpy.ndarray, shape (k, d)
        ``inv(C) @ B``: its squared column norms are the profile.
    ratios : numpy.ndarray, shape (m,)
        The variance ratios h.
    before : tuple of numpy.ndarray and QueryOperator
        The factor of the previous covariance, and the scaled queries in the basis of that factor.
    turn : numpy.ndarray, shape (k, k)
        The matrix T for which ``before[0] @ T`` is the factor of this covariance.
    """

    columns: Array
    ratios: Array
    before: tuple[Array, QueryOperator]
    turn: Array

    @cached_property
    def profile(self) -> Array:
        """The privacy profile g, shape (d,)."""
        return np.asarray(np.einsum("ij,ij->j", self.columns, self.columns))

    @cached_property
    def factor(self) -> Array:
        """C with Σ = C Cᵀ, shape (k, k), in the basis of the block's factors."""
        return product(self.before[0], self.turn)

    def chart(self, p: Array) -> "AdaptedChart":
        """Build the chart where Σ = I and ``columns @ diag(p) @ columns.T`` is diagonal."""
        half = self.columns * np.sqrt(p)
        mean, rotation = scipy.linalg.eigh(product(half, half.T), driver="evd", check_finite=False)
        turn = product(self.turn, rotation)
        factor, queries = product(self.before[0], turn), _turned(self.before[1], turn)
        columns = product(rotation.T, self.columns)
        return AdaptedChart(
            np.maximum(mean, 0.0), columns, factor, queries, queries.squared_row_norms()
        )


def _turned(queries: QueryOperator, by: Array) -> QueryOperator:
    """Return the queries after their basis is changed by the matrix ``by``."""
    if isinstance(queries, Composed):
        return Composed(queries.operator, product(dense(queries.columns), by))
    return Explicit(product(dense(queries.matrix()), by))


@dataclass(frozen=True, eq=False)
class AdaptedChart:
    """The chart in the basis where Σ = I and ``columns @ diag(p) @ columns.T`` is diagonal."""

    mean: Array
    columns: Array
    factor: Array
    queries: QueryOperator
    ratios: Array

    def forms(self, along: Array) -> tuple[Array, Array]:
        of_profile = np.einsum("ij,ij->j", self.columns, product(along, self.columns))
        return of_profile, self.queries.quadratic_forms(along)

    def weighted(self, of_profile: Array, of_ratios: Array) -> Array:
        of_columns = product(self.columns * of_profile, self.columns.T)
        return of_columns + whole(self.queries.gram(of_ratios))

    def ray(self, along: Array) -> Callable[[float], AdaptedIterate]:
        growth, identity = self.queries.quadratic_forms(along), np.eye(len(along))

        def moved(length: float) -> AdaptedIterate:
            lower = scipy.linalg.cholesky(identity + length * along, lower=True, check_finite=False)
            columns = scipy.linalg.solve_triangular(
                lower, self.columns, lower=True, check_finite=False
            )
            ratios = self.ratios + length * growth
            return AdaptedIterate(columns, ratios, (self.factor, self.queries), lower)

        return moved


@dataclass(frozen=True, eq=False)
class BlocksIterate:
    """An iterate with one covariance for each block."""

    blocks: MatrixBlocks
    parts: Sequence[AdaptedIterate]

    @cached_property
    def profile(self) -> Array:
        """The profile, one entry for each orbit of cells."""
        return self.blocks.column_sums([part.profile for part in self.parts])

    @cached_property
    def ratios(self) -> Array:
        """The variance ratios, one for each orbit of queries."""
        return self.blocks.row_sums([part.ratios for part in self.parts])

    def chart(self, p: Array) -> "_BlocksChart":
        """Return the chart that joins the charts of all blocks."""
        pairs = zip(self.parts, self.blocks.blocks, strict=True)
        return _BlocksChart(self.blocks, [part.chart(p[b.columns]) for part, b in pairs])


def balanced(blocks: MatrixBlocks, covariances: Iterable[Array]) -> BlocksIterate:
    """Scale the covariances so that the largest profile entry equals the largest ratio.

    Parameters
    ----------
    covariances : iterable of numpy.ndarray, shape (k, k)
        For each block, the covariance of the noise on its basis, up to a scale that all share.

    Raises
    ------
    scipy.linalg.LinAlgError
        If a covariance is not positive definite.
    """
    iterates = []
    for block, covariance in zip(blocks.blocks, covariances, strict=True):
        operator, identity = block.factors.operator, np.eye(len(covariance))
        lower = scipy.linalg.cholesky(covariance, lower=True, check_finite=False)
        basis = identity if block.factors.basis is None else block.factors.basis
        columns = scipy.linalg.solve_triangular(lower, basis, lower=True, check_finite=False)
        queries = Composed(operator, identity) if block.factors.structured else operator
        ratios = operator.quadratic_forms(covariance)
        iterates.append(AdaptedIterate(columns, ratios, (identity, queries), lower))
    plain = BlocksIterate(blocks, iterates)
    scale = float(np.sqrt(plain.profile.max() / plain.ratios.max()))
    root = np.sqrt(scale)
    parts = [
        AdaptedIterate(at.columns / root, scale * at.ratios, at.before, root * at.turn)
        for at in iterates
    ]
    return BlocksIterate(blocks, parts)


def first_of_blocks(blocks: MatrixBlocks, start: Weights) -> BlocksIterate:
    """Return the inner solution at the dual weights ``start``, rescaled by `balanced`."""
    roots = blocks.at(np.concatenate([start.p, start.q])).roots
    return balanced(blocks, [product(root, root.T) for root in roots])


@dataclass(frozen=True, eq=False)
class _BlocksChart(DiagonalChart[BlocksIterate]):
    """A chart that joins the charts of all blocks."""

    blocks: MatrixBlocks
    charts: Sequence[AdaptedChart]

    @cached_property
    def curvature(self) -> Array:
        return _joined([np.add.outer(chart.mean, chart.mean) for chart in self.charts])

    def excess(self, gradient: Array) -> Array:
        rises = [np.maximum(np.diag(own), 0.0) for own in self._split(gradient)]
        return _joined([np.add.outer(rise, rise) for rise in rises])

    def forms(self, along: Array) -> tuple[Array, Array]:
        pairs = zip(self.charts, self._split(along), strict=True)
        forms = [chart.forms(own) for chart, own in pairs]
        of_profile = self.blocks.column_sums([columns for columns, _ in forms])
        return of_profile, self.blocks.row_sums([rows for _, rows in forms])

    def weighted(self, of_profile: Array, of_ratios: Array) -> Array:
        pairs = zip(self.charts, self.blocks.blocks, strict=True)
        return _joined([c.weighted(of_profile[b.columns], of_ratios[b.rows]) for c, b in pairs])

    def ray(self, along: Array) -> Callable[[float], BlocksIterate]:
        pairs = zip(self.charts, self._split(along), strict=True)
        rays = [chart.ray(own) for chart, own in pairs]
        return lambda length: BlocksIterate(self.blocks, [ray(length) for ray in rays])

    def _split(self, along: Array) -> list[Array]:
        parts, end = [], 0  # np.split takes a tenth of a solve of 64 cells
        for size in (len(chart.mean) for chart in self.charts):
            parts.append(along[end : end + size**2].reshape(size, size))
            end += size**2
        return parts


def _joined(matrices: Sequence[Array]) -> Array:
    return np.concatenate([matrix.ravel() for matrix in matrices])


@dataclass(frozen=True, eq=False)
class ScalarIterate:
    """An iterate with one variance for each block, if all blocks have size one.

    Attributes
    ----------
    v : numpy.ndarray, shape (blocks,)
        The variances, all positive.
    """

    blocks: ScalarBlocks
    v: Array

    @cached_property
    def profile(self) -> Array:
        """The common profile entry of all cells, shape (1,)."""
        return np.array([(1 / self.v).sum()])

    @cached_property
    def ratios(self) -> Array:
        """The variance ratios, one for each orbit of queries or each class of orbits."""
        return self.blocks.ratios(self.v)

    def chart(self, p: Array) -> "_ScalarChart":
        """Return the chart whose directions are relative changes of v."""
        return _ScalarChart(self)


def first_of_scalars(blocks: ScalarBlocks, log_counts: Array) -> ScalarIterate:
    """Return the inner solution at equal query weights, rescaled like `balanced`.

    After rescaling, the common profile entry of the cells equals the largest variance ratio.
    """
    v = blocks.inner(np.exp(log_counts - np.logaddexp.reduce(log_counts)))
    scale = float(np.sqrt((1 / v).sum() / blocks.ratios(v).max()))
    return ScalarIterate(blocks, scale * v)


class _ScalarChart(DiagonalChart[ScalarIterate]):
    """The chart whose directions are relative changes of v."""

    def __init__(self, at: ScalarIterate) -> None:
        self._at = at
        self._matrix = scipy.sparse.csr_array(at.blocks.matrix @ scipy.sparse.diags_array(at.v))

    @cached_property
    def curvature(self) -> Array:
        return 2 / self._at.v

    def excess(self, gradient: Array) -> Array:
        return 2 * np.maximum(gradient, 0.0)

    def forms(self, along: Array) -> tuple[Array, Array]:
        of_profile = np.array([float((along / self._at.v).sum())])
        return of_profile, np.asarray(self._matrix @ along)

    def weighted(self, of_profile: Array, of_ratios: Array) -> Array:
        return np.asarray(of_profile / self._at.v + self._matrix.T @ of_ratios)

    def ray(self, along: Array) -> Callable[[float], ScalarIterate]:
        def moved(length: float) -> ScalarIterate:
            v = self._at.v * (1 + length * along)
            if not v.min() > 0:
                raise scipy.linalg.LinAlgError("a variance is not positive")
            return ScalarIterate(self._at.blocks, v)

        return moved
