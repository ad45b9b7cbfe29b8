"""Interior point: Problem 1 itself, solved by a primal logarithmic barrier.

The baseline of Table 2 (arXiv v1, section 7.1.1, which cites Boyd and Vandenberghe and gives no
details). Let W = L B, where B has k rows and the columns b_i, and L has the rows v_j. The method
follows the minimisers, over symmetric k x k matrices Σ and a bound s, of the barrier function

    t s - sum_i log(s - g_i) - sum_j log(1 - h_j),   g_i = b_iᵀ Σ⁻¹ b_i,   h_j = v_j Σ v_jᵀ / c_j

(Convex Optimization, section 11.3), while t grows by a constant factor. At a minimiser the gap is
exactly (d + m)/t. After every Newton step, s is set to its best value for Σ and t. If s moved along
the step instead, and there were many more queries than cells, the iterates would creep along the
curved surface g = s.

The certificate does not require minimisers: the multipliers p_i = 1/(s - g_i) and
q_j = 1/(1 - h_j), moved along the Newton step and scaled to sum to one, bound the optimum from
below by the squared nuclear norm of diag(q/c)^1/2 W diag(p)^1/2 (docs/optimal.md), which is
computed from W directly.

The paper does not state the start. Here it is input perturbation, Σ = BBᵀ, scaled so that every
g_i and h_j is at most half of its bound. This start is strictly feasible for every workload.

Every step is taken in coordinates in which Σ = I and sum_i p_i u_i u_iᵀ is diagonal, where u_i are
the columns of B in these coordinates; the profile's curvature is then diagonal. The step solves one
dense symmetric system in k(k+1)/2 + 1 unknowns. The system has about k⁴/4 entries, which limits k
to about two hundred; the paper states d = 64 as its limit. `optimal` has no such limit: the two
mechanisms share only the factorisation of the workload.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy

from solvers.dual.iteration import Stop, sufficient_decrease
from solvers.dual.programs import Weights
from solvers.errors import NotApplicableError
from solvers.mechanism import Iterative, ProblemSize, Work
from solvers.problem import Problem
from solvers.solution import Solution
from solvers.strategy import from_root
from workloads.operators import Array, Explicit
from workloads.parameters import Count, NotNegative

_SUFFICIENT = 0.1
"""Armijo's share of the decrease; from 1e-4 to 0.4 the number of steps changes by two at most."""

_SHORTEST_STEP = 1e-9
"""Shortest step that is tried: a shorter one changes the barrier by less than its rounding error.

Prefixes, ranges and random signs never need a step below 1e-3.
"""


@dataclass(frozen=True, eq=False)
class Point:
    """A strictly feasible pair of a covariance Σ and a bound s.

    Attributes
    ----------
    lower : numpy.ndarray, shape (k, k)
        A square root R of Σ: Σ = R Rᵀ.
    bound : float
        The bound s on the privacy profile.
    whitened : numpy.ndarray, shape (k, d)
        ``inv(R) @ B``.
    queries : numpy.ndarray, shape (m, k)
        ``diag(c)**-0.5 @ L @ R``.
    """

    lower: Array
    bound: float
    whitened: Array
    queries: Array

    @cached_property
    def profile(self) -> Array:
        """The privacy profile g, shape (d,)."""
        return np.asarray(np.square(self.whitened).sum(axis=0))

    @cached_property
    def ratios(self) -> Array:
        """The ratios h of the variances to their targets, shape (m,)."""
        return np.asarray(np.square(self.queries).sum(axis=1))

    def bounded(self, t: float) -> "Point":
        """Return the point with the same Σ and the bound s that minimises the barrier at t.

        At this bound, the multipliers of the profile sum to t.
        """
        # their sum falls as the slack grows, from at least t at 1/t to at most t at d/t
        below = self.profile.max() - self.profile
        slack = scipy.optimize.brentq(
            lambda slack: float((1 / (slack + below)).sum()) - t,
            0.5 / t,
            2 * below.size / t,
            xtol=np.finfo(float).tiny,  # the last digit decides, however small the slack
        )
        return replace(self, bound=float(self.profile.max()) + slack)

    @property
    def value(self) -> float:
        """Δ² of Σ when scaled so that the targets are just met."""
        return float(self.profile.max() * self.ratios.max())

    @cached_property
    def multipliers(self) -> tuple[Array, Array]:
        """Multipliers of the constraints: p = 1/(s - g), shape (d,); q = 1/(1 - h), shape (m,)."""
        return 1 / (self.bound - self.profile), 1 / (1 - self.ratios)

    def barrier(self, t: float) -> float:
        """Return the barrier function at t, which Newton's method minimises."""
        return t * self.bound + float(sum(np.log(part).sum() for part in self.multipliers))


@dataclass(frozen=True, eq=False)
class Step:
    """A Newton step.

    Attributes
    ----------
    origin : Point
        The point where the step starts, in coordinates in which the profile's curvature is
        diagonal.
    change : numpy.ndarray, shape (k, k)
        Change of Σ, in the coordinates in which Σ = I.
    decrement : float
        The squared Newton decrement.
    multipliers : tuple of numpy.ndarray
        p (d,) and q (m,) after the step, to first order; positive if the decrement is less than 1.
    """

    origin: Point
    change: Array
    decrement: float
    multipliers: tuple[Array, Array]


def find_newton_step(point: Point, t: float) -> Step | None:
    """Take the Newton step to the minimiser at t; None if rounding makes the system indefinite."""
    # coordinates in which sum_i p_i u_i u_iᵀ is diagonal: the profile's curvature is diagonal, too
    p, q = point.multipliers
    eigenvalues, rotation = scipy.linalg.eigh(
        (point.whitened * p) @ point.whitened.T, check_finite=False
    )
    whitened, queries = rotation.T @ point.whitened, point.queries @ rotation
    # unknowns: the change of Σ on and above the diagonal, in units of norm 1, and that of s
    first, second = np.triu_indices(len(eigenvalues))
    weight = np.where(first == second, 1.0, np.sqrt(2.0))
    jacobian = np.empty((first.size + 1, p.size + q.size))
    jacobian[:-1, : p.size] = whitened[first] * whitened[second] * -p
    jacobian[:-1, p.size :] = queries.T[first] * queries.T[second] * q
    jacobian[:-1] *= weight[:, None]
    jacobian[-1] = np.concatenate([-p, np.zeros_like(q)])
    gradient = jacobian.sum(axis=1)
    gradient[-1] += t
    hessian = jacobian @ jacobian.T  # the cost of a step: (k²/2)² (d + m) operations
    hessian[np.diag_indices(first.size)] += eigenvalues[first] + eigenvalues[second]
    try:
        factor = scipy.linalg.cho_factor(hessian, overwrite_a=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        return None
    step = -scipy.linalg.cho_solve(factor, gradient, check_finite=False)
    change = np.empty_like(rotation)
    change[first, second] = change[second, first] = step[:-1] / weight
    growth = 1 + step @ jacobian
    return Step(
        Point(point.lower @ rotation, point.bound, whitened, queries),
        change,
        -float(gradient @ step),
        (p * growth[: p.size], q * growth[p.size :]),
    )


def search_line(step: Step, t: float) -> Point | None:
    """Backtrack from the full step to the first acceptable point; None if no length will do."""
    origin = step.origin

    def along(length: float) -> Point | None:
        # LinAlgError if Σ is then not positive definite
        lower = scipy.linalg.cholesky(np.eye(len(step.change)) + length * step.change, lower=True)
        whitened = scipy.linalg.solve_triangular(lower, origin.whitened, lower=True)
        moved = Point(origin.lower @ lower, origin.bound, whitened, origin.queries @ lower)
        return moved.bounded(t) if moved.ratios.max() < 1 else None

    return sufficient_decrease(
        along,
        lambda moved: moved.barrier(t),
        origin.barrier(t),
        -step.decrement,
        sufficient=_SUFFICIENT,
        least=_SHORTEST_STEP,
    )


LARGEST_BYTES = 4 * 2**30
"""Largest memory of a Newton system, which one of rank 210 takes."""

_GROWTH = 10.0
"""Factor by which t grows, a usual one for barriers (Boyd and Vandenberghe, section 11.3.1).

On prefixes, ranges and random signs 2 takes up to 80 % more Newton steps, 100 a quarter fewer.
"""

_CENTRED = 0.2
"""Squared Newton decrement below which t grows; the multipliers of a step need less than 1.

0.02 takes up to 30 % more Newton steps, 0.9 up to 15 % fewer.
"""


def count_system_bytes(rank: int, m: int, d: int) -> float:
    """Memory of a Newton system, in bytes: its matrix, and the Jacobian with d + m columns."""
    unknowns = rank * (rank + 1) / 2 + 1
    return 8.0 * unknowns * (unknowns + 2 * (d + m))


def _prove_bound(problem: Problem, p: Array, q: Array) -> float:
    """Return a lower bound on the squared privacy cost.

    The bound is the squared nuclear norm of ``diag(q/c)^1/2 W diag(p)^1/2``, divided by the product
    of the sums of p and q; p and q are positive.
    """
    weighted = np.sqrt(q)[:, None] * (problem.factors.representation @ (problem.basis * np.sqrt(p)))
    return float(np.linalg.norm(weighted, "nuc")) ** 2 / float(p.sum() * q.sum())


@dataclass(frozen=True)
class InteriorPoint(Iterative):
    """The optimum of Problem 1 by a primal barrier, for small workloads.

    The solve stops at a certified relative gap of Δ², or after ``max_iterations`` Newton steps.
    """

    name = "interior-point"
    source = "arXiv v1, section 7.1.1, Table 2"
    self_certifying = True

    tol: NotNegative = 1e-7
    max_iterations: Count = 500

    def on_matrix(self, problem: Problem) -> Solution:
        """Return the best point of the path.

        Raises
        ------
        NotApplicableError
            If the Newton system needs more than `LARGEST_BYTES`.
        """
        stopping = self.stopping()
        m, d = problem.workload.shape
        rank = problem.factors.rank
        needed = count_system_bytes(rank, m, d)
        if needed > LARGEST_BYTES:
            raise NotApplicableError(
                f"interior-point: workload {problem.workload.name!r} of rank {rank} needs "
                f"{needed / 2**30:.1f} GiB for its Newton system in {rank * (rank + 1) // 2 + 1} "
                f"unknowns, more than the limit of {LARGEST_BYTES // 2**30} GiB; use 'optimal', "
                "which solves the same problem"
            )
        # input perturbation, scaled to at most half of each bound; in this unit of Δ², s is 1
        basis, queries = problem.basis, problem.factors.representation
        covariance = basis @ basis.T
        scale = 2 * float(Explicit(queries).quadratic_forms(covariance).max())
        lower_root = scipy.linalg.cholesky(covariance / scale, lower=True)
        whitened = scipy.linalg.solve_triangular(lower_root, basis, lower=True)
        unit = 2 * float(np.square(whitened).sum(axis=0).max())
        point = Point(lower_root, 1.0, whitened / np.sqrt(unit), queries @ lower_root)
        t, iterations = (d + m) / point.bound, 0
        point = point.bounded(t)
        best, proof = point, point.multipliers
        lower = _prove_bound(problem, *proof) / unit
        while (stop := stopping.reason(lower, best.value, iterations)) is None:
            # 1. the Newton step, whose multipliers prove a bound where they are positive
            step = find_newton_step(point, t)
            if step is None:
                break
            iterations += 1
            if step.decrement < 1:
                bound = _prove_bound(problem, *step.multipliers) / unit
                if bound > lower:
                    lower, proof = bound, step.multipliers
            # 2. a point that lowers the barrier enough; near a minimiser rounding may leave none
            moved = search_line(step, t)
            if moved is None and step.decrement >= _CENTRED:
                break
            point = moved or point
            best = min(best, point, key=lambda visited: visited.value)
            # 3. near the minimiser, whose gap is (d + m)/t, a sharper barrier
            if step.decrement < _CENTRED:
                t *= _GROWTH
                point = point.bounded(t)
        return replace(
            from_root(self.name, problem, problem.basis, problem.representation, best.lower),
            known_lower_bound=lower * unit,
            weights=Weights(*proof),
            iterations=iterations,
            converged=best.value <= lower * (1 + self.tol),
            timed_out=stop is Stop.TIMED_OUT,
        )

    def work(self, size: ProblemSize) -> Work:
        """About forty Newton steps, each a dense system in d(d+1)/2 + 1 unknowns."""
        m, d = size.m, size.d
        unknowns = d * (d + 1) / 2 + 1
        step = unknowns**3 / 3 + unknowns**2 * (d + m)
        return Work(flops=40 * step, bytes=count_system_bytes(d, m, d))
