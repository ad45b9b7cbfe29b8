"""Problem 4 of PVLDB 14(10) by its Algorithms 1 to 3, every factorisation shared.

    F(Σ) = 1/t1 log sum_i exp(t1 g_i) + 1/t2 log sum_j exp(t2 h_j) + sum_j omega_j h_j,
    g_i = b_iᵀ Σ⁻¹ b_i,   h_j = v_j Σ v_jᵀ / c_j

(equation (8) of arXiv v1, whose printed form misses the second exp; omega is the hybrid's
weight of total variance, section 6.1 of the PVLDB version). The listing of Algorithm 1 takes
a step after it has raised t too, along a direction that belongs to the old t and need not
descend; its text takes one only otherwise, and so does this.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg as sla

from solvers.deadline import Deadline
from solvers.dual import Weights
from solvers.solution import quadratic_forms
from workloads.operators import Array, Matrix

_SMALLEST_STEP = 1e-14


@dataclass(frozen=True)
class Settings:
    """The constants of Algorithms 1 to 3.

    Attributes
    ----------
    mu : float
        MU: the factor by which t grows.
    nttol : float
        NTTOL: a level ends once ``|<s, gradient>|`` is less.
    tol : float
        TOL: the last level is the first with ``(d + m) / t1 < tol``.
    max_cg : int
        MAXCG: conjugate gradient steps of a direction.
    tol2 : float
        TOL2: squared norm of the residual at which they end earlier.
    t2_over_t1 : float
        t2 / t1 after t has been raised: 1 in the paper, MU in its code.
    sigma, beta : float
        Sufficient decrease and shrinking factor of the line search.
    max_iterations : int
        MAXITER.
    """

    mu: float
    nttol: float
    tol: float
    max_cg: int
    tol2: float
    t2_over_t1: float
    sigma: float
    beta: float
    max_iterations: int


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
        self._mean = half @ half.T
        self.gradient = _weighted_gram(problem.rows, found.q + problem.omega) - self._mean

    def product(self, along: Array) -> Array:
        """The Hessian times a symmetric matrix P, three products of size k x k x d for B.

        Twice its part in B is Z Xᵀ + X Zᵀ, Z = 2 Σ⁻¹ P X diag(p) + t1 X diag(p (a - p·a)).
        """
        problem, x, p, q = self._problem, self._x, self._p, self._q
        moved = along @ x
        a = np.einsum("ij,ij->j", x, moved)
        b = quadratic_forms(problem.rows, along)
        mixed = self._precision @ (moved * (2 * p))
        mixed += x * (problem.t1 * p * (a - p @ a))
        half: Array = mixed @ x.T
        image: Array = _weighted_gram(problem.rows, problem.t2 * q * (b - q @ b))
        image += (half + half.T) / 2
        return image


def conjugate_gradient(
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
    hessian = Hessian(problem, at)
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


@dataclass(frozen=True, eq=False)
class Minimised:
    """Where Algorithm 1 ended.

    Attributes
    ----------
    problem : SoftMax
        At the last t.
    iterate : Iterate
        The last covariance.
    iterations, products : int
        Directions computed, and products with the Hessian.
    finished, timed_out : bool
        Whether it ended by its own rule; whether time ran out before.
    """

    problem: SoftMax
    iterate: Iterate
    iterations: int
    products: int
    finished: bool
    timed_out: bool


def minimise(
    problem: SoftMax,
    start: Iterate,
    settings: Settings,
    deadline: Deadline,
    enough: Callable[[SoftMax, Iterate], bool],
) -> Minimised:
    """Algorithm 1.

    Parameters
    ----------
    problem : SoftMax
        Problem 4 at the first t.
    start : Iterate
        The first covariance.
    settings : Settings
        MU, NTTOL, ….
    deadline : Deadline
        When to stop with the covariance so far.
    enough : callable
        Asked at the end of every level: whether to stop before TOL says so.

    Returns
    -------
    Minimised
    """
    at, iterations, products, finished = start, 0, 0, False
    size = problem.basis.shape[1] + problem.rows.shape[0]
    while iterations < settings.max_iterations and not deadline.passed:
        direction = conjugate_gradient(problem, at, settings.max_cg, settings.tol2)
        iterations, products = iterations + 1, products + direction.products
        if abs(direction.slope) < settings.nttol:
            finished = size / problem.t1 < settings.tol or enough(problem, at)
            if finished:
                break
            t1 = settings.mu * problem.t1
            problem = replace(problem, t1=t1, t2=settings.t2_over_t1 * t1)
            continue
        moved = line_search(problem, at, direction, settings)
        if moved is None:
            break
        at = moved
    timed_out = deadline.passed and not finished
    return Minimised(problem, at, iterations, products, finished, timed_out)


def line_search(
    problem: SoftMax, at: Iterate, direction: Direction, settings: Settings
) -> Iterate | None:
    """Algorithm 3; None where no step decreases F any more."""
    value = problem.value(at.profile, at.ratios)
    along = quadratic_forms(problem.rows, direction.matrix)
    length = 1.0
    while length > _SMALLEST_STEP:
        try:
            moved = with_ratios(
                problem, at.covariance + length * direction.matrix, at.ratios + length * along
            )
        except sla.LinAlgError:
            length *= settings.beta
            continue
        allowed = value + length * settings.sigma * direction.slope
        if problem.value(moved.profile, moved.ratios) <= allowed:
            return moved
        length *= settings.beta
    return None


def _weighted_gram(rows: Matrix, by: Array) -> Array:
    """``rows.T @ diag(by) @ rows``, dense."""
    if isinstance(rows, np.ndarray):
        return rows.T @ (by[:, None] * rows)
    return (rows.T @ rows.multiply(by[:, None])).toarray()
