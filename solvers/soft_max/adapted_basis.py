"""Problem 4 in a basis that follows the covariance.

By Theorem 2 of PVLDB 14(10) every basis holds the same mechanisms, and it decides how fast
conjugate gradients are. So each Newton step is taken in the basis in which the present Σ is I
and B diag(p) Bᵀ is diagonal, of entries λ. There the Hessian takes P to

    (λ_a + λ_b) P_ab + t1 B diag(p (a - p·a)) Bᵀ + t2 Vᵀ diag(q (b - q·b)) V,

a_i = b_iᵀ P b_i and b_j = v_jᵀ P v_j, and its first term is the preconditioner. Σ = C Cᵀ is
known by its factor C alone: the step P makes Cholesky's factor of I + P the next factor of C,
and no ill-conditioned matrix is ever factorised.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg as sla

from solvers.factors import Factors
from solvers.soft_max.objective import ChartModel, SoftMax
from workloads.operators import Array, QueryOperator
from workloads.operators.blas import product, whole


@dataclass(frozen=True, eq=False)
class _Held:
    """The queries in a basis, as a matrix of shape (m, k)."""

    matrix: Array

    def forms(self, symmetric: Array) -> Array:
        forms: Array = np.einsum("ij,ij->i", self.matrix, product(self.matrix, symmetric))
        return forms

    def gram(self, weights: Array) -> Array:
        return product(self.matrix.T, weights[:, None] * self.matrix)

    def squares(self) -> Array:
        squares: Array = np.einsum("ij,ij->i", self.matrix, self.matrix)
        return squares

    def turned(self, by: Array) -> "_Held":
        return _Held(product(self.matrix, by))


@dataclass(frozen=True, eq=False)
class _Structured:
    """The queries in a basis, ``operator @ factor``, never formed."""

    operator: QueryOperator
    factor: Array

    def forms(self, symmetric: Array) -> Array:
        inner = product(self.factor, product(symmetric, self.factor.T))
        return self.operator.quadratic_forms(inner)

    def gram(self, weights: Array) -> Array:
        return product(self.factor.T, product(self.operator.gram(weights), self.factor))

    def squares(self) -> Array:
        return self.operator.quadratic_forms(product(self.factor, self.factor.T))

    def turned(self, by: Array) -> "_Structured":
        return _Structured(self.operator, product(self.factor, by))


_Queries = _Held | _Structured


@dataclass(frozen=True, eq=False)
class Iterate:
    """A covariance in its own basis.

    Attributes
    ----------
    columns : numpy.ndarray, shape (k, d)
        ``inv(C) @ B``: its squared column norms are the profile.
    ratios : numpy.ndarray, shape (m,)
        h.
    before : tuple of numpy.ndarray and queries
        The factor of the covariance that this one was reached from, and the scaled queries
        in its basis.
    turn : numpy.ndarray, shape (k, k)
        What that factor is multiplied by from the right.
    """

    columns: Array
    ratios: Array
    before: tuple[Array, _Queries]
    turn: Array

    @cached_property
    def profile(self) -> Array:
        """The privacy profile g, shape (d,)."""
        profile: Array = np.einsum("ij,ij->j", self.columns, self.columns)
        return profile

    @cached_property
    def factor(self) -> Array:
        """C with Σ = C Cᵀ, shape (k, k), in the basis of the first covariance."""
        return product(self.before[0], self.turn)

    def model(self, objective: SoftMax) -> ChartModel:
        """F to second order about this covariance."""
        found = objective.weights(self)
        return ChartModel(objective, self, found, self.chart(found.p))

    def chart(self, p: Array) -> "AdaptedChart":
        """The basis in which Σ = I and ``columns @ diag(p) @ columns.T`` is diagonal."""
        half = self.columns * np.sqrt(p)
        mean, rotation = sla.eigh(product(half, half.T), driver="evd", check_finite=False)
        turn = product(self.turn, rotation)
        factor, queries = product(self.before[0], turn), self.before[1].turned(turn)
        columns = product(rotation.T, self.columns)
        return AdaptedChart(np.maximum(mean, 0.0), columns, factor, queries, queries.squares())


def first(factors: Factors, covariance: Array) -> Iterate:
    """A covariance with largest profile entry and largest ratio equal.

    Parameters
    ----------
    factors : Factors
        Of the scaled workload.
    covariance : numpy.ndarray, shape (k, k)
        Of the noise on its basis, up to scale.

    Raises
    ------
    scipy.linalg.LinAlgError
        If it is not positive definite.
    """
    plain = from_covariance(factors, covariance)
    return scaled(plain, float(np.sqrt(plain.profile.max() / plain.ratios.max())))


def from_covariance(factors: Factors, covariance: Array) -> Iterate:
    """A covariance as it is; parameters and errors as of `first`."""
    k = len(covariance)
    basis = np.eye(k) if factors.basis is None else factors.basis
    lower = sla.cholesky(covariance, lower=True, check_finite=False)
    columns = sla.solve_triangular(lower, basis, lower=True, check_finite=False)
    queries: _Queries = (
        _Structured(factors.operator, np.eye(k)) if factors.structured else _Held(factors.left)
    )
    return Iterate(
        columns, factors.operator.quadratic_forms(covariance), (np.eye(k), queries), lower
    )


def scaled(at: Iterate, factor: float) -> Iterate:
    """The covariance multiplied by a number."""
    root = np.sqrt(factor)
    return Iterate(at.columns / root, factor * at.ratios, at.before, root * at.turn)


@dataclass(frozen=True, eq=False)
class AdaptedChart:
    """The basis in which Σ = I and ``columns @ diag(p) @ columns.T`` is diagonal."""

    mean: Array
    columns: Array
    factor: Array
    queries: _Queries
    ratios: Array

    @cached_property
    def curvature(self) -> Array:
        return np.add.outer(self.mean, self.mean)

    def damping(self, gradient: Array) -> Array:
        excess = np.maximum(np.diag(gradient), 0.0)
        return np.add.outer(excess, excess)

    def forms(self, along: Array) -> tuple[Array, Array]:
        of_profile: Array = np.einsum("ij,ij->j", self.columns, product(along, self.columns))
        return of_profile, self.queries.forms(along)

    def weighted(self, of_profile: Array, of_ratios: Array) -> Array:
        total = product(self.columns * of_profile, self.columns.T)
        total += whole(self.queries.gram(of_ratios))
        return total

    def ray(self, along: Array) -> Callable[[float], Iterate]:
        growth, identity = self.queries.forms(along), np.eye(len(along))

        def moved(length: float) -> Iterate:
            lower = sla.cholesky(identity + length * along, lower=True, check_finite=False)
            columns = sla.solve_triangular(lower, self.columns, lower=True, check_finite=False)
            ratios = self.ratios + length * growth
            return Iterate(columns, ratios, (self.factor, self.queries), lower)

        return moved
