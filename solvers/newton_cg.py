"""Algorithms 1 to 3 of PVLDB 14(10): Newton's method on the covariance, by few CG steps.

The listing of Algorithm 1 takes a step after it has raised t too, along a direction that
belongs to the old t and need not descend; its text takes one only otherwise, and so does
this.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg as sla

from solvers.softmax import Hessian, Iterate, SoftMax, with_ratios
from solvers.solution import quadratic_forms
from solvers.stopping import Deadline
from workloads.operators import Array
from workloads.operators.blas import inner

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
    energy, products = inner(residual, residual), 0
    while products < max_products:
        image = hessian.product(search)
        products += 1
        length = energy / inner(search, image)
        found = found + length * search
        residual = residual - length * image
        following = inner(residual, residual)
        if following <= tolerance:
            break
        search, energy = residual + following / energy * search, following
    return Direction(found, inner(found, hessian.gradient), products)


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
