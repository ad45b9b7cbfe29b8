"""Problem 4 in a basis that follows the covariance.

By Theorem 2 of arXiv v1 every basis holds the same mechanisms, and it decides how fast
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

from solvers.problem.factors import Factors
from solvers.soft_max.objective import ChartModel, SoftMax
from workloads.operators import Array, Composed, Explicit, QueryOperator, dense
from workloads.operators.blas import product, whole


@dataclass(frozen=True, eq=False)
class Iterate:
    """A covariance in its own basis.

    Attributes
    ----------
    columns : numpy.ndarray, shape (k, d)
        ``inv(C) @ B``: its squared column norms are the profile.
    ratios : numpy.ndarray, shape (m,)
        h.
    before : tuple of numpy.ndarray and QueryOperator
        The factor of the covariance that this one was reached from, and the scaled queries
        in its basis.
    turn : numpy.ndarray, shape (k, k)
        What that factor is multiplied by from the right.
    """

    columns: Array
    ratios: Array
    before: tuple[Array, QueryOperator]
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
        weights = objective.weights(self)
        return ChartModel(objective, self, weights, self.chart(weights.p))

    def chart(self, p: Array) -> "AdaptedChart":
        """The basis in which Σ = I and ``columns @ diag(p) @ columns.T`` is diagonal."""
        half = self.columns * np.sqrt(p)
        mean, rotation = sla.eigh(product(half, half.T), driver="evd", check_finite=False)
        turn = product(self.turn, rotation)
        factor, queries = product(self.before[0], turn), _turned(self.before[1], turn)
        columns = product(rotation.T, self.columns)
        return AdaptedChart(
            np.maximum(mean, 0.0), columns, factor, queries, queries.squared_row_norms()
        )


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
    """The iterate of a covariance, unscaled; parameters and errors as for `first`."""
    k = len(covariance)
    basis = np.eye(k) if factors.basis is None else factors.basis
    lower = sla.cholesky(covariance, lower=True, check_finite=False)
    columns = sla.solve_triangular(lower, basis, lower=True, check_finite=False)
    queries = (
        Composed(factors.operator, np.eye(k)) if factors.structured else Explicit(factors.left)
    )
    return Iterate(
        columns, factors.operator.quadratic_forms(covariance), (np.eye(k), queries), lower
    )


def _turned(queries: QueryOperator, by: Array) -> QueryOperator:
    """The queries in the basis that a matrix takes the present one to."""
    if isinstance(queries, Composed):
        return Composed(queries.operator, product(dense(queries.columns), by))
    return Explicit(product(dense(queries.matrix()), by))


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
    queries: QueryOperator
    ratios: Array

    @cached_property
    def curvature(self) -> Array:
        return np.add.outer(self.mean, self.mean)

    def damping(self, gradient: Array) -> Array:
        excess = np.maximum(np.diag(gradient), 0.0)
        return np.add.outer(excess, excess)

    def forms(self, along: Array) -> tuple[Array, Array]:
        of_profile: Array = np.einsum("ij,ij->j", self.columns, product(along, self.columns))
        return of_profile, self.queries.quadratic_forms(along)

    def weighted(self, of_profile: Array, of_ratios: Array) -> Array:
        total = product(self.columns * of_profile, self.columns.T)
        total += whole(self.queries.gram(of_ratios))
        return total

    def ray(self, along: Array) -> Callable[[float], Iterate]:
        growth, identity = self.queries.quadratic_forms(along), np.eye(len(along))

        def moved(length: float) -> Iterate:
            lower = sla.cholesky(identity + length * along, lower=True, check_finite=False)
            columns = sla.solve_triangular(lower, self.columns, lower=True, check_finite=False)
            ratios = self.ratios + length * growth
            return Iterate(columns, ratios, (self.factor, self.queries), lower)

        return moved
