"""Gaussian mechanisms as factorisations W = L B of the query matrix W, and products of them.

This is the factorization mechanism: the answers to W are ``L (B x + z)``, where x is the data
vector and z is standard normal. The squared privacy cost Δ² is the largest squared column norm of
B, and the variances are the squared row norms of L. `solvers.noise.verification` checks L B = W.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import prod

import numpy as np
import scipy

from solvers.errors import NotApplicableError, SolveFailedError
from solvers.noise.noise import LARGEST_EXPANDED, GaussianNoise, refuse_unlisted
from solvers.problem.neighbours import ADD_REMOVE, Neighbours
from workloads.operators import (
    LARGEST_MATRIX_BYTES,
    Array,
    Composed,
    Explicit,
    Kronecker,
    Matrix,
    QueryOperator,
    Scaled,
    dense,
)
from workloads.operators.blas import product
from workloads.operators.protocol import kron
from workloads.workload import LARGEST_LISTED

_HELD = 1e-10
"""Relative tolerance within which the mechanism's own basis must reproduce L and B.

These are ten digits of the variances and of the privacy profile, of the fourteen that L and B have.
"""

_SMALL = 64
"""Largest identity that is stored densely: with 64 entries, both forms multiply equally fast."""


@dataclass(frozen=True, eq=False)
class InBasis:
    """Gaussian noise on the queries of a basis: a `solvers.noise.noise.Coordinates`.

    Attributes
    ----------
    rows : QueryOperator
        The queries of the basis, shape (b, d).
    queries : QueryOperator
        W expressed in the basis, shape (m, b).
    root : numpy.ndarray, shape (b, k), or float
        A square root of the noise's covariance; a number means this multiple of the identity.
        For the strategy B of a `Factorisation`, ``root @ B`` is the basis.
    """

    rows: QueryOperator
    queries: QueryOperator
    root: Array | float

    @cached_property
    def basis(self) -> Array:
        """The queries of the basis as a dense matrix, shape (b, d)."""
        return dense(self.rows.matrix())

    @cached_property
    def representation(self) -> Matrix:
        """W expressed in the basis, as a dense or CSR matrix of shape (m, b)."""
        return self.queries.matrix()

    @cached_property
    def covariance(self) -> Array:
        """Covariance of the noise, shape (b, b): ``root @ root.T``.

        If the root is a number, this is a read-only view of O(b) memory.
        """
        if isinstance(self.root, float):
            size = self.rows.shape[0]
            centred = np.zeros(2 * size - 1)
            centred[size - 1] = self.root**2
            return np.lib.stride_tricks.sliding_window_view(centred, size)[::-1]
        return product(self.root, self.root.T)


@dataclass(frozen=True, eq=False)
class Factorisation(GaussianNoise):
    """The noise of a factorisation W = L B, with independent standard normal noise on Bx.

    Attributes
    ----------
    decoder : QueryOperator
        L, shape (m, k).
    strategy : QueryOperator
        B, shape (k, d).
    own : InBasis
        The same noise, up to rounding, described on the mechanism's own basis.
    neighbours : Neighbours
        The relation of neighbouring databases. Under replace-one, L B may differ from W by queries
        that are constant over the cells between which a record moves: their answers are public.
    """

    decoder: QueryOperator
    strategy: QueryOperator
    own: InBasis
    neighbours: Neighbours = ADD_REMOVE

    @cached_property
    def coordinates(self) -> InBasis:
        """The noise described on the mechanism's own basis, or on B if that basis is inaccurate.

        The mechanism's own basis can be less accurate than B: the rounding errors of the basis's
        orthonormal rows are divided by W's smallest singular value, and a nearly singular
        covariance has no correct digits in double precision.
        """
        if isinstance(self.own.root, float) or self._holds(self.own):
            return self.own
        return InBasis(self.strategy, Explicit(self.left), 1.0)

    def _holds(self, own: InBasis) -> bool:
        """Return whether ``own`` has L and B's queries, variances and profile, up to `_HELD`."""
        variances, profile = self.query_variances, self.strategy.squared_column_norms()
        # with basis Q, representation R and covariance Σ, the variances are diag(R Σ Rᵀ) and the
        # profile is diag(Qᵀ Σ⁻¹ Q); Σ is scaled to a diagonal of ones for its Cholesky factor
        units = np.sqrt(np.diag(own.covariance))[:, None]
        try:
            lower = scipy.linalg.cholesky(
                own.covariance / units / units.T, lower=True, check_finite=False
            )
        except scipy.linalg.LinAlgError:
            return False
        columns = scipy.linalg.solve_triangular(
            lower, own.basis / units, lower=True, check_finite=False
        )
        if not (
            _near(own.queries.quadratic_forms(own.covariance), variances)
            and _near(np.square(columns).sum(axis=0), profile)
        ):
            return False
        if not isinstance(own.queries, Explicit):
            return True  # W expressed in the basis has the structure of W, and is exact
        # R Q = L B, in units of the noise
        rows, columns = np.sqrt(_positive(variances)), np.sqrt(_positive(profile))
        off = product(dense(own.representation), own.basis) - product(
            dense(self.left), dense(self.right)
        )
        return bool(np.all(np.abs(off) <= _HELD * np.outer(rows, columns)))

    def divided(self, scale: float) -> "Factorisation":
        """Return a copy whose noise is divided by ``scale``."""
        return replace(
            self,
            decoder=multiplied(self.decoder, 1 / scale),
            strategy=multiplied(self.strategy, scale),
            own=replace(self.own, root=self.own.root / scale),
        )

    def met(self, mechanism: str, targets: Array) -> "Factorisation":
        """Return a copy scaled to just meet the targets; raises the errors of `scale_of`."""
        return self.divided(scale_of(mechanism, self.query_variances, targets))

    def with_cells_scaled(self, factors: Array) -> "Factorisation":
        """Return the factorisation of W with columns multiplied by ``factors``; L is unchanged."""
        return replace(
            self,
            strategy=Explicit(dense(self.right) * factors),
            own=replace(self.own, rows=Explicit(self.own.basis * factors)),
        )

    @property
    def left(self) -> Matrix:
        """L, dense or CSR, shape (m, k)."""
        return self.decoder.matrix()

    @property
    def right(self) -> Matrix:
        """B, dense or CSR, shape (k, d)."""
        return self.strategy.matrix()

    @cached_property
    def query_variances(self) -> Array:
        """The squared row norms of L, shape (m,)."""
        return self.decoder.squared_row_norms()

    @cached_property
    def privacy_profile(self) -> Array:
        """The squared column norms of B, shape (d,).

        Under replace-one, entry j is the largest squared distance from column j to the column of a
        neighbouring cell.
        """
        if self.neighbours.add_remove:
            return self.strategy.squared_column_norms()
        return self.neighbours.partners(dense(self.right))[0]

    @property
    def squared_privacy_cost(self) -> float:
        """The largest entry of the privacy profile."""
        return float(self.privacy_profile.max())

    @property
    def fisher_information(self) -> float:
        """Trace of the Fisher information BᵀB about x, the same for all relations of neighbours."""
        return float(self.strategy.squared_column_norms().sum())

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n vectors L z of errors, shape (n, m)."""
        return self.decoder.apply(rng.standard_normal((n, self.decoder.shape[1])).T).T


@dataclass(frozen=True, eq=False)
class ProductNoise(GaussianNoise):
    """The noise of a product of mechanisms, one for each factor of W = W1 ⊗ ... ⊗ Wn.

    The optimum of Problem 1 is γ₂(A)², where γ₂ is the factorisation norm and A is W with every row
    divided by the square root of its target. If all targets are equal, the product of the factors'
    optimal covariances is optimal. The products of the factors' dual weights prove this, because
    the nuclear norm of a Kronecker product is the product of the factors' nuclear norms. Hence
    γ₂(A1 ⊗ A2) = γ₂(A1) γ₂(A2) (Lee, Shraibman and Špalek 2008, Theorem 17). The same argument
    holds for the least total error at equal weights. The covariances of GM, of IP and of the
    mechanism of least Fisher information are products by definition. A union of several products
    cannot be solved factor by factor.

    Attributes
    ----------
    parts : tuple of Factorisation
        The mechanism of each factor, with unit targets.
    target : float
        The common target of all queries.
    """

    parts: tuple[Factorisation, ...]
    target: float

    @property
    def squared_privacy_cost(self) -> float:
        """Δ² when targets are just met: the product of the factors' Δ², divided by the target."""
        return prod(part.squared_privacy_cost for part in self.parts) / self.target

    @cached_property
    def query_variances(self) -> Array:
        """Variance of every query, shape (m,); with more than 10^7 queries, only the largest."""
        if self._queries > LARGEST_LISTED:
            return np.array([self.target])
        return self.target * kron([part.query_variances for part in self.parts])

    @cached_property
    def privacy_profile(self) -> Array:
        """Squared cost of every cell, shape (d,); with more than 10^7 cells, only the largest."""
        if prod(part.strategy.shape[1] for part in self.parts) > LARGEST_LISTED:
            return np.array([self.squared_privacy_cost])
        return kron([part.privacy_profile for part in self.parts]) / self.target

    @property
    def total_variance(self) -> float:
        """Sum of the query variances when the targets are just met."""
        return self.target * prod(part.total_variance for part in self.parts)

    @property
    def fisher_information(self) -> float:
        """Trace of the Fisher information about x when the targets are just met."""
        return prod(part.fisher_information for part in self.parts) / self.target

    @property
    def coordinates(self) -> "ProductNoise":
        """The noise itself: its basis and covariance are products over the factors."""
        return self

    @property
    def basis(self) -> Array:
        """The Kronecker product B of the factors' own bases, shape (k, d)."""
        return _written_out("B", [part.coordinates.basis for part in self.parts])

    @property
    def representation(self) -> Matrix:
        """W expressed in `basis`, as a CSR array of shape (m, k)."""
        factors = (part.coordinates.representation for part in self.parts)
        sparse = scipy.sparse  # imported when it is first used: it takes long
        return reduce(lambda left, right: sparse.csr_array(sparse.kron(left, right)), factors)

    @property
    def covariance(self) -> Array:
        """Covariance of the noise on Bx, shape (k, k)."""
        return self.target * _written_out("Σ", [part.coordinates.covariance for part in self.parts])

    def divided(self, scale: float) -> "ProductNoise":
        """Return a copy whose noise is divided by ``scale``."""
        return replace(self, target=self.target / scale**2)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n vectors of errors, shape (n, m), by applying the factors' L one after another."""
        refuse_unlisted(self._queries)
        left = Kronecker((tuple(part.left for part in self.parts),))
        numbers = rng.standard_normal((n, left.shape[1]))
        return np.asarray(self.target**0.5 * left.apply(numbers.T).T)

    @property
    def fits(self) -> bool:
        """Whether the product's rank is small enough to write its covariance out."""
        return prod(part.strategy.shape[0] for part in self.parts) <= LARGEST_EXPANDED

    @property
    def _queries(self) -> int:
        return prod(part.decoder.shape[0] for part in self.parts)


def _written_out(what: str, arrays: Sequence[Array]) -> Array:
    rows, columns = (prod(array.shape[i] for array in arrays) for i in (0, 1))
    if 8 * rows * columns > LARGEST_MATRIX_BYTES:
        raise NotApplicableError(
            f"{what} of a product is not written out as a {rows} x {columns} matrix; "
            "use the factors in noise.parts, which describe it completely"
        )
    return kron(arrays)


def scale_of(mechanism: str, variances: Array, targets: Array) -> float:
    """Return the number by which L must be divided so that the targets are just met.

    Raises
    ------
    SolveFailedError
        If no variance is positive, or some variance is not finite.
    """
    ratio = float(np.max(variances / targets))
    if not (np.isfinite(ratio) and ratio > 0):
        raise SolveFailedError(
            f"{mechanism}: the largest variance ratio is {ratio}; expected a positive number"
        )
    return float(np.sqrt(ratio))


def _near(actual: Array, expected: Array) -> bool:
    return bool(np.all(np.abs(actual - expected) <= _HELD * _positive(expected)))


def _positive(values: Array) -> Array:
    """Replace values that are not positive by the largest value."""
    return np.where(values > 0, values, values.max())


def identity(size: int) -> Explicit:
    """Return the identity as an operator: dense if that is faster, otherwise sparse."""
    return Explicit(np.eye(size) if size <= _SMALL else scipy.sparse.eye_array(size, format="csr"))


def multiplied(operator: QueryOperator, factor: float) -> QueryOperator:
    """Return the operator with all its queries multiplied by ``factor``."""
    if isinstance(operator, Explicit):
        return Explicit(operator.array * factor)
    if isinstance(operator, Composed):
        return Composed(operator.operator, dense(operator.columns) * factor)
    return Scaled(operator, np.full(operator.shape[0], factor))
