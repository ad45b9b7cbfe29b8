"""Problem 4 of PVLDB 14(10): its function, gradient and Hessian, every factorisation shared.

    F(Σ) = 1/t1 log sum_i exp(t1 g_i) + 1/t2 log sum_j exp(t2 h_j) + sum_j omega_j h_j,
    g_i = b_iᵀ Σ⁻¹ b_i,   h_j = v_j Σ v_jᵀ / c_j

(equation (8) of arXiv v1, whose printed form misses the second exp; omega is the hybrid's
weight of total variance, section 6.1 of the PVLDB version).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from solvers.basis import Factored
from solvers.dual import Weights
from solvers.problem import Problem
from solvers.solution import quadratic_forms
from workloads.operators import Array, Matrix
from workloads.operators.blas import product

_MARGIN = 0.99


@dataclass(frozen=True, eq=False)
class SoftMax:
    """The data of Problem 4 and its sharpness.

    Attributes
    ----------
    basis : numpy.ndarray, shape (k, d)
        B.
    rows : numpy.ndarray or scipy.sparse.csr_array, shape (m, k)
        ``diag(c)**-0.5 @ L``.
    omega : numpy.ndarray, shape (m,)
        Weight of every variance ratio in the total.
    t1, t2 : float
        Sharpness of the two soft maxima.
    """

    basis: Array
    rows: Matrix
    omega: Array
    t1: float = 1.0
    t2: float = 1.0

    def value(self, profile: Array, ratios: Array) -> float:
        """F where the profile is g and the variance ratios are h."""
        maxima = soft_maximum(profile, self.t1) + soft_maximum(ratios, self.t2)
        return maxima + float(self.omega @ ratios)


@dataclass(frozen=True, eq=False)
class Iterate:
    """A covariance with its Cholesky factor and what follows from it.

    Attributes
    ----------
    covariance : numpy.ndarray, shape (k, k)
        Σ.
    lower : numpy.ndarray, shape (k, k)
        R with Σ = R Rᵀ.
    whitened : numpy.ndarray, shape (k, d)
        ``inv(R) @ B``: its squared column norms are the profile.
    ratios : numpy.ndarray, shape (m,)
        h.
    """

    covariance: Array
    lower: Array
    whitened: Array
    ratios: Array

    @cached_property
    def profile(self) -> Array:
        """The privacy profile g, shape (d,)."""
        profile: Array = np.einsum("ij,ij->j", self.whitened, self.whitened)
        return profile


def begin(
    problem: Problem, factored: Factored, omega: Array, covariance: Array
) -> tuple[SoftMax, Iterate]:
    """Problem 4 at t = 1, and a first covariance inside the targets (section 6.3).

    The paper's factor compares the targets with the diagonal of the covariance, not with
    the variances of the queries; here it is 0.99 times the largest that meets the targets,
    as the text wants.

    Parameters
    ----------
    problem : Problem
        The workload and its targets.
    factored : Factored
        The workload in a basis.
    omega : numpy.ndarray, shape (m,)
        Weight of every variance ratio in the total.
    covariance : numpy.ndarray, shape (k, k)
        Of the noise on the basis, up to scale.
    """
    left, scale = factored.representation, problem.targets[:, None] ** -0.5
    rows = scale * left if isinstance(left, np.ndarray) else sp.csr_array(left.multiply(scale))
    program = SoftMax(factored.basis, rows, omega)
    largest = float(quadratic_forms(rows, covariance).max())
    return program, iterate(program, _MARGIN / largest * covariance)


def iterate(problem: SoftMax, covariance: Array) -> Iterate:
    """The iterate at a covariance.

    Raises
    ------
    scipy.linalg.LinAlgError
        If it is not positive definite.
    """
    return with_ratios(problem, covariance, quadratic_forms(problem.rows, covariance))


def with_ratios(problem: SoftMax, covariance: Array, ratios: Array) -> Iterate:
    """The iterate at a covariance whose variance ratios are known.

    Raises
    ------
    scipy.linalg.LinAlgError
        If it is not positive definite.
    """
    lower = sla.cholesky(covariance, lower=True, check_finite=False)
    whitened = sla.solve_triangular(lower, problem.basis, lower=True, check_finite=False)
    return Iterate(covariance, lower, whitened, ratios)


def weights(problem: SoftMax, at: Iterate) -> Weights:
    """The soft-max weights of both maxima."""
    return Weights(soft_weights(at.profile, problem.t1), soft_weights(at.ratios, problem.t2))


def soft_maximum(values: Array, t: float) -> float:
    """``1/t log sum exp(t values)``, where SciPy's takes longer than all else at small d."""
    largest = float(values.max())
    return largest + float(np.log(np.exp(t * (values - largest)).sum())) / t


def soft_weights(values: Array, t: float) -> Array:
    """``exp(t values)`` of sum one: the gradient of the soft maximum."""
    found: Array = np.exp(t * (values - values.max()))
    found /= found.sum()
    return found


class Hessian:
    """Gradient and Hessian of F in the coordinates of Σ, everything reused factored once.

    Equations (13) and (14); with X = Σ⁻¹ B and M = X diag(p) Xᵀ the Hessian takes P to
    Σ⁻¹ P M + M P Σ⁻¹ + t1 X diag(p (a - p·a)) Xᵀ + t2 Vᵀ diag(q (b - q·b)) V,
    where a_i = x_iᵀ P x_i and b_j = v_jᵀ P v_j.
    """

    def __init__(self, problem: SoftMax, at: Iterate) -> None:
        found = weights(problem, at)
        self._problem, self._p, self._q = problem, found.p, found.q
        self._x = sla.solve_triangular(
            at.lower, at.whitened, lower=True, trans="T", check_finite=False
        )
        inverse, _ = sla.lapack.dpotri(at.lower, lower=True)
        self._precision = np.tril(inverse) + np.tril(inverse, -1).T
        half = self._x * np.sqrt(found.p)
        self._mean = product(half, half.T)
        self.gradient = _weighted_gram(problem.rows, found.q + problem.omega) - self._mean

    def product(self, along: Array) -> Array:
        """The Hessian times a symmetric matrix P, three products of size k x k x d for B.

        Twice its part in B is Z Xᵀ + X Zᵀ, Z = 2 Σ⁻¹ P X diag(p) + t1 X diag(p (a - p·a)).
        """
        problem, x, p, q = self._problem, self._x, self._p, self._q
        moved = product(along, x)
        a = np.einsum("ij,ij->j", x, moved)
        b = quadratic_forms(problem.rows, along)
        mixed = product(self._precision, moved * (2 * p))
        mixed += x * (problem.t1 * p * (a - p @ a))
        half = product(mixed, x.T)
        image: Array = _weighted_gram(problem.rows, problem.t2 * q * (b - q @ b))
        image += (half + half.T) / 2
        return image


def _weighted_gram(rows: Matrix, by: Array) -> Array:
    """``rows.T @ diag(by) @ rows``, dense."""
    if isinstance(rows, np.ndarray):
        return product(rows.T, by[:, None] * rows)
    return np.asarray((rows.T @ rows.multiply(by[:, None])).todense())
