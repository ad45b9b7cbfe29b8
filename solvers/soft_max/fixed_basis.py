"""Problem 4 in a fixed basis: the coordinates of Σ that the paper uses.

Equations (13) and (14) of arXiv v1, every factorisation shared.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg as sla

from solvers.problem import Problem
from solvers.soft_max.basis import Factored
from solvers.soft_max.objective import SoftMax
from workloads.operators import Array, Explicit
from workloads.operators.blas import product
from workloads.operators.scaled import scaled_rows

_MARGIN = 0.99


@dataclass(frozen=True, eq=False)
class Iterate:
    """A covariance with its Cholesky factor and what follows from it.

    Attributes
    ----------
    basis : numpy.ndarray, shape (k, d)
        B.
    queries : Explicit
        ``diag(c)**-0.5 @ L``, shape (m, k).
    lower : numpy.ndarray, shape (k, k)
        R with Σ = R Rᵀ.
    whitened : numpy.ndarray, shape (k, d)
        ``inv(R) @ B``: its squared column norms are the profile.
    ratios : numpy.ndarray, shape (m,)
        h.
    """

    basis: Array
    queries: Explicit
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
    queries = Explicit(scaled_rows(factored.representation, problem.targets**-0.5))
    largest = float(queries.quadratic_forms(covariance).max())
    return iterate(factored.basis, queries, _MARGIN / largest * covariance)


def iterate(basis: Array, queries: Explicit, covariance: Array) -> Iterate:
    """The iterate at a covariance.

    Raises
    ------
    scipy.linalg.LinAlgError
        If it is not positive definite.
    """
    return _with_ratios(basis, queries, covariance, queries.quadratic_forms(covariance))


def _with_ratios(basis: Array, queries: Explicit, covariance: Array, ratios: Array) -> Iterate:
    lower = sla.cholesky(covariance, lower=True, check_finite=False)
    whitened = sla.solve_triangular(lower, basis, lower=True, check_finite=False)
    return Iterate(basis, queries, covariance, lower, whitened, ratios)


class Hessian:
    """F to second order in the coordinates of Σ, without a preconditioner.

    With X = Σ⁻¹ B and M = X diag(p) Xᵀ the Hessian takes P to
    Σ⁻¹ P M + M P Σ⁻¹ + t1 X diag(p (a - p·a)) Xᵀ + t2 Vᵀ diag(q (b - q·b)) V,
    where a_i = x_iᵀ P x_i and b_j = v_jᵀ P v_j.
    """

    def __init__(self, objective: SoftMax, at: Iterate) -> None:
        weights = objective.weights(at)
        self._objective, self._at, self._p, self._q = objective, at, weights.p, weights.q
        self._x = sla.solve_triangular(
            at.lower, at.whitened, lower=True, trans="T", check_finite=False
        )
        inverse, _ = sla.lapack.dpotri(at.lower, lower=True)
        self._precision = np.tril(inverse) + np.tril(inverse, -1).T
        half = self._x * np.sqrt(weights.p)
        mean = product(half, half.T)
        self.gradient: Array = at.queries.gram(weights.q + objective.omega) - mean

    @property
    def drift(self) -> Array:
        """See `solvers.soft_max.objective.Model`."""
        objective, p, q = self._objective, self._p, self._q
        g, h = self._at.profile, self._at.ratios
        of_profile = product(self._x * (objective.t1 * p * (g - p @ g)), self._x.T)
        return self._at.queries.gram(objective.t2 * q * (h - q @ h)) - of_profile

    def product(self, along: Array) -> Array:
        """The Hessian times a symmetric matrix P, three products of size k x k x d for B.

        Twice its part in B is Z Xᵀ + X Zᵀ, Z = 2 Σ⁻¹ P X diag(p) + t1 X diag(p (a - p·a)).
        """
        objective, x, p, q = self._objective, self._x, self._p, self._q
        moved = product(along, x)
        a = np.einsum("ij,ij->j", x, moved)
        b = self._at.queries.quadratic_forms(along)
        mixed = product(self._precision, moved * (2 * p))
        mixed += x * (objective.t1 * p * (a - p @ a))
        half = product(mixed, x.T)
        image: Array = self._at.queries.gram(objective.t2 * q * (b - q @ b))
        image += (half + half.T) / 2
        return image

    def precondition(self, residual: Array) -> Array:
        """The residual itself, as in Algorithm 2."""
        return residual

    def derivatives(self, along: Array) -> tuple[Array, Array]:
        """Of the profile and of the ratios along a symmetric matrix."""
        of_profile: Array = -np.einsum("ij,ij->j", self._x, product(along, self._x))
        return of_profile, self._at.queries.quadratic_forms(along)

    def ray(self, along: Array) -> Callable[[float], Iterate]:
        """The covariances along a symmetric matrix."""
        at = self._at
        growth = at.queries.quadratic_forms(along)

        def moved(length: float) -> Iterate:
            return _with_ratios(
                at.basis, at.queries, at.covariance + length * along, at.ratios + length * growth
            )

        return moved
