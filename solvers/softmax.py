"""Problem 4 of PVLDB 14(10): the soft maximum of privacy plus that of variance.

    F(Σ) = 1/t1 log sum_i exp(t1 g_i) + 1/t2 log sum_j exp(t2 h_j) + sum_j omega_j h_j,
    g_i = b_iᵀ Σ⁻¹ b_i,   h_j = v_j Σ v_jᵀ / c_j

(equation (8), whose printed form misses the second exp; omega is the hybrid's weight of
total variance, arXiv version, section 6.1). Two search directions are here: Algorithm 2
itself, and the Newton step of the same function solved well.

In the basis where Σ = I and A = sum_i p_i u_i u_iᵀ is diagonal with entries λ, the Hessian is
S -> A S + S A + (t1 and t2 times the covariance of the soft-max weights): the first part is
division by λ_a + λ_b, the second has rank d + m at most. So the Newton step follows from
d + m unknowns (Woodbury), by conjugate gradients, whatever the basis.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg as sla
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import logsumexp, softmax

from solvers.solution import quadratic_forms
from workloads.operators import Array, Matrix

_SMALLEST_RELATIVE_EIGENVALUE = 1e-10


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
        privacy = logsumexp(self.t1 * profile) / self.t1
        accuracy = logsumexp(self.t2 * ratios) / self.t2
        return float(privacy + accuracy + self.omega @ ratios)


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


@dataclass(frozen=True, eq=False)
class Weights:
    """The soft-max weights of an iterate: a point of the dual.

    Attributes
    ----------
    p : numpy.ndarray, shape (d,)
        Of the columns; they sum to one.
    q : numpy.ndarray, shape (m,)
        Of the queries; they sum to one, omega is not in them.
    """

    p: Array
    q: Array


@dataclass(frozen=True, eq=False)
class Direction:
    """A search direction.

    Attributes
    ----------
    matrix : numpy.ndarray, shape (k, k)
        Symmetric.
    slope : float
        Its product with the gradient; negative where F decreases.
    products : int
        Products with the Hessian that it took.
    """

    matrix: Array
    slope: float
    products: int


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
    return Weights(softmax(problem.t1 * at.profile), softmax(problem.t2 * at.ratios))


class PlainHessian:
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
        self._mean = half @ half.T
        self.gradient = _weighted_gram(problem.rows, found.q + problem.omega) - self._mean

    def product(self, p: Array) -> Array:
        """The Hessian times a symmetric matrix."""
        problem = self._problem
        half = self._precision @ (p @ self._mean)
        a = np.einsum("ij,ij->j", self._x, p @ self._x)
        b = quadratic_forms(problem.rows, p)
        along_cells = problem.t1 * self._p * (a - self._p @ a)
        along_queries = problem.t2 * self._q * (b - self._q @ b)
        return (
            half
            + half.T
            + (self._x * along_cells) @ self._x.T
            + _weighted_gram(problem.rows, along_queries)
        )


def plain_direction(
    problem: SoftMax, at: Iterate, max_products: int, tolerance: float
) -> Direction:
    """Algorithm 2: conjugate gradients from zero, in the coordinates of Σ.

    Parameters
    ----------
    problem : SoftMax
        Problem 4.
    at : Iterate
        Where.
    max_products : int
        MAXCG.
    tolerance : float
        TOL2: stop once the squared norm of the residual is no larger.

    Returns
    -------
    Direction
    """
    hessian = PlainHessian(problem, at)
    residual = -hessian.gradient
    found, search = np.zeros_like(residual), residual
    energy, products = float(np.vdot(residual, residual)), 0
    while products < max_products:
        image = hessian.product(search)
        products += 1
        length = energy / float(np.vdot(search, image))
        found = found + length * search
        residual = residual - length * image
        following = float(np.vdot(residual, residual))
        if following <= tolerance:
            break
        search, energy = residual + following / energy * search, following
    return Direction(found, float(np.vdot(found, hessian.gradient)), products)


def newton_direction(
    problem: SoftMax, at: Iterate, max_products: int, tolerance: float
) -> Direction:
    """The Newton step from its d + m soft-max unknowns, by preconditioned CG.

    Parameters
    ----------
    problem : SoftMax
        Problem 4.
    at : Iterate
        Where.
    max_products : int
        Products with the Hessian at most.
    tolerance : float
        The residual to reach, relative to the right-hand side.

    Returns
    -------
    Direction
        The same in every basis.
    """
    found = weights(problem, at)
    half = at.whitened * np.sqrt(found.p)
    eigenvalues, rotation = sla.eigh(half @ half.T, check_finite=False, driver="evd")
    eigenvalues = np.maximum(eigenvalues, _SMALLEST_RELATIVE_EIGENVALUE * eigenvalues[-1])
    frame = at.lower @ rotation
    moved = np.concatenate([at.whitened.T @ rotation, problem.rows @ frame])
    descent = np.diag(eigenvalues) - _weighted_gram(
        moved[problem.basis.shape[1] :], found.q + problem.omega
    )
    system = _SoftMaxSystem(problem, found, eigenvalues, moved)
    free = system.kernel * descent
    unknowns, products = system.solve(system.restrict(free), max_products, tolerance)
    step = free - system.extend(unknowns)
    return Direction(frame @ step @ frame.T, -float(np.vdot(step, descent)), products)


class _SoftMaxSystem:
    """I + N J D⁻¹ Jᵀ Nᵀ of the Woodbury identity, for the Hessian D + Jᵀ Nᵀ N J.

    D S = A S + S A, row i of J is -u_i u_iᵀ, row j is v_j v_jᵀ, and N Nᵀ is the covariance
    of the soft-max weights, t (diag(p) - p pᵀ) in each block: N = sqrt(t) diag(p)^1/2 times
    the projection along p^1/2.
    """

    def __init__(
        self, problem: SoftMax, found: Weights, eigenvalues: Array, moved: Array
    ) -> None:
        self.kernel = 1 / np.add.outer(eigenvalues, eigenvalues)
        self._moved = moved
        self._roots = np.sqrt(found.p), np.sqrt(found.q)
        self._scale = np.concatenate(
            [-np.sqrt(problem.t1) * self._roots[0], np.sqrt(problem.t2) * self._roots[1]]
        )

    def extend(self, y: Array) -> Array:
        """``D⁻¹ Jᵀ Nᵀ y``, shape (k, k)."""
        return self.kernel * _weighted_gram(self._moved, self._scale * self._project(y))

    def restrict(self, s: Array) -> Array:
        """``N J s`` for a symmetric (k, k) matrix."""
        return self._project(self._scale * quadratic_forms(self._moved, s))

    def solve(self, right: Array, max_products: int, tolerance: float) -> tuple[Array, int]:
        """The solution and the number of products, Jacobi-preconditioned."""
        squares = np.square(self._moved)
        diagonal = 1 + np.square(self._scale) * quadratic_forms(squares, self.kernel)
        products = 0

        def product(y: Array) -> Array:
            nonlocal products
            products += 1
            return y + self.restrict(self.extend(y))

        shape = (right.size, right.size)
        solution, _ = cg(
            LinearOperator(shape, matvec=product, dtype=np.float64),
            right,
            rtol=tolerance,
            maxiter=max_products,
            M=LinearOperator(
                shape, matvec=lambda y: self._project(y / diagonal), dtype=np.float64
            ),
        )
        return solution, products

    def _project(self, y: Array) -> Array:
        cells, queries = self._roots
        first, second = y[: cells.size], y[cells.size :]
        return np.concatenate(
            [first - (cells @ first) * cells, second - (queries @ second) * queries]
        )


def _weighted_gram(rows: Matrix, by: Array) -> Array:
    """``rows.T @ diag(by) @ rows``, dense."""
    if isinstance(rows, np.ndarray):
        return rows.T @ (by[:, None] * rows)
    return (rows.T @ rows.multiply(by[:, None])).toarray()
