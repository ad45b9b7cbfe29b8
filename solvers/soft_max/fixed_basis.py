"""Problem 4 in a basis that stays: the coordinates of Σ in which the paper writes it.

Equations (13) and (14) of arXiv v1, every factorisation shared.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from solvers.problem import Problem
from solvers.soft_max.basis import Factored
from solvers.soft_max.objective import SoftMax
from workloads.operators import Array, Explicit, Matrix
from workloads.operators.blas import product

_MARGIN = 0.99


@dataclass(frozen=True, eq=False)
class QueriesInBasis:
    """A workload in a basis, its queries scaled by their targets.

    Attributes
    ----------
    basis : numpy.ndarray, shape (k, d)
        B.
    rows : numpy.ndarray or scipy.sparse.csr_array, shape (m, k)
        ``diag(c)**-0.5 @ L``.
    """

    basis: Array
    rows: Matrix


@dataclass(frozen=True, eq=False)
class Iterate:
    """A covariance with its Cholesky factor and what follows from it.

    Attributes
    ----------
    lower : numpy.ndarray, shape (k, k)
        R with Σ = R Rᵀ.
    whitened : numpy.ndarray, shape (k, d)
        ``inv(R) @ B``: its squared column norms are the profile.
    ratios : numpy.ndarray, shape (m,)
        h.
    """

    queries: QueriesInBasis
    covariance: Array
    lower: Array
    whitened: Array
    ratios: Array

    @cached_property
    def profile(self) -> Array:
        """The privacy profile g, shape (d,)."""
        profile: Array = np.einsum("ij,ij->j", self.whitened, self.whitened)
        return profile

    def model(self, objective: SoftMax) -> "Hessian":
        """F to second order about this covariance."""
        return Hessian(objective, self)


def first(problem: Problem, factored: Factored, covariance: Array) -> Iterate:
    """A first covariance inside the targets (section 6.3).

    The paper's factor compares the targets with the diagonal of the covariance, not with
    the variances of the queries; here it is 0.99 times the largest that meets the targets,
    as the text wants.

    Parameters
    ----------
    covariance : numpy.ndarray, shape (k, k)
        Of the noise on the basis, up to scale.

    Raises
    ------
    scipy.linalg.LinAlgError
        If it is not positive definite.
    """
    left, scale = factored.representation, problem.targets[:, None] ** -0.5
    rows = scale * left if isinstance(left, np.ndarray) else sp.csr_array(left.multiply(scale))
    largest = float(Explicit(rows).quadratic_forms(covariance).max())
    return iterate(QueriesInBasis(factored.basis, rows), _MARGIN / largest * covariance)


def iterate(queries: QueriesInBasis, covariance: Array) -> Iterate:
    """The iterate at a covariance.

    Raises
    ------
    scipy.linalg.LinAlgError
        If it is not positive definite.
    """
    return _with_ratios(queries, covariance, Explicit(queries.rows).quadratic_forms(covariance))


def _with_ratios(queries: QueriesInBasis, covariance: Array, ratios: Array) -> Iterate:
    lower = sla.cholesky(covariance, lower=True, check_finite=False)
    whitened = sla.solve_triangular(lower, queries.basis, lower=True, check_finite=False)
    return Iterate(queries, covariance, lower, whitened, ratios)


class Hessian:
    """F to second order in the coordinates of Σ, without a preconditioner.

    With X = Σ⁻¹ B and M = X diag(p) Xᵀ the Hessian takes P to
    Σ⁻¹ P M + M P Σ⁻¹ + t1 X diag(p (a - p·a)) Xᵀ + t2 Vᵀ diag(q (b - q·b)) V,
    where a_i = x_iᵀ P x_i and b_j = v_jᵀ P v_j.
    """

    def __init__(self, objective: SoftMax, at: Iterate) -> None:
        found = objective.weights(at)
        self._objective, self._at, self._p, self._q = objective, at, found.p, found.q
        self._x = sla.solve_triangular(
            at.lower, at.whitened, lower=True, trans="T", check_finite=False
        )
        inverse, _ = sla.lapack.dpotri(at.lower, lower=True)
        self._precision = np.tril(inverse) + np.tril(inverse, -1).T
        half = self._x * np.sqrt(found.p)
        mean = product(half, half.T)
        self.gradient: Array = _weighted_gram(at.queries.rows, found.q + objective.omega) - mean

    @property
    def drift(self) -> Array:
        """See `solvers.soft_max.objective.Model`."""
        objective, p, q = self._objective, self._p, self._q
        g, h = self._at.profile, self._at.ratios
        of_profile = product(self._x * (objective.t1 * p * (g - p @ g)), self._x.T)
        return _weighted_gram(self._at.queries.rows, objective.t2 * q * (h - q @ h)) - of_profile

    def product(self, along: Array) -> Array:
        """The Hessian times a symmetric matrix P, three products of size k x k x d for B.

        Twice its part in B is Z Xᵀ + X Zᵀ, Z = 2 Σ⁻¹ P X diag(p) + t1 X diag(p (a - p·a)).
        """
        objective, x, p, q = self._objective, self._x, self._p, self._q
        moved = product(along, x)
        a = np.einsum("ij,ij->j", x, moved)
        b = Explicit(self._at.queries.rows).quadratic_forms(along)
        mixed = product(self._precision, moved * (2 * p))
        mixed += x * (objective.t1 * p * (a - p @ a))
        half = product(mixed, x.T)
        image: Array = _weighted_gram(self._at.queries.rows, objective.t2 * q * (b - q @ b))
        image += (half + half.T) / 2
        return image

    def precondition(self, residual: Array) -> Array:
        """The residual itself, as in Algorithm 2."""
        return residual

    def derivatives(self, along: Array) -> tuple[Array, Array]:
        """Of the profile and of the ratios along a symmetric matrix."""
        of_profile: Array = -np.einsum("ij,ij->j", self._x, product(along, self._x))
        return of_profile, Explicit(self._at.queries.rows).quadratic_forms(along)

    def ray(self, along: Array) -> Callable[[float], Iterate]:
        """The covariances along a symmetric matrix."""
        at = self._at
        growth = Explicit(at.queries.rows).quadratic_forms(along)

        def moved(length: float) -> Iterate:
            return _with_ratios(
                at.queries, at.covariance + length * along, at.ratios + length * growth
            )

        return moved


def _weighted_gram(rows: Matrix, by: Array) -> Array:
    """``rows.T @ diag(by) @ rows``, dense."""
    if isinstance(rows, np.ndarray):
        return product(rows.T, by[:, None] * rows)
    return np.asarray((rows.T @ rows.multiply(by[:, None])).todense())
