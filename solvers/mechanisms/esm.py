"""Exponential smoothing mechanism: least total error, with a soft maximum for the privacy cost.

KDD'16, eq. (6), after the appendix of Yuan et al. (PVLDB 5(11), 2012): minimise

    smax(diag(X)) tr(W X⁻¹ Wᵀ),   smax(v) = μ log sum_i exp(v_i / μ),

over positive definite X, the Gram matrix of the strategy, by the non-monotone spectral
projected gradient (Birgin, Martinez and Raydan, SIAM J. Optim. 10(4), 2000).

Where the papers leave a choice open:

- **μ**: the soft maximum exceeds the maximum by at most μ log d; μ is chosen such that μ log d is
  half of ``tol`` times the largest diagonal entry at the start.
- **stopping**: the soft-max weights p bound the total error of every strategy from below by
  || W diag(p)^1/2 ||_*². The mechanism stops when this bound certifies a relative gap of
  ``tol``; the minimiser for this μ has such a gap. A first-order method hardly reaches smaller
  gaps; `CA` solves the same program exactly. Compare only total errors: Δ² is not minimised, and
  depends on where within the gap the descent stops.
- **rank**: if W is rank deficient, equation (6) has no minimiser over all cells; KDD'16 names this
  as the source of the mechanism's numerical errors. Here X = Pᵀ Y P, where the rows of P are the
  right singular vectors of W. Then Y is positive definite at the optimum, too.
- **start**: X = (WᵀW)^(1/2), the optimum if all cells have equal weight.
- **constraint set**: every eigenvalue of Y is at least 1e-8 times the least eigenvalue of the
  first Y.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy

from solvers.dual.iteration import Stop, sufficient_decrease
from solvers.mechanism import Iterative, ProblemSize, Work
from solvers.noise.verification import from_right_inverse
from solvers.problem import Problem
from solvers.problem.row_space import invert_positive, singular_rows
from solvers.solution import Solution
from workloads.operators import Array, Explicit
from workloads.parameters import Count, Positive

_MEMORY = 10
"""Number of last objectives of which a step has to improve the largest, as Birgin et al. recommend.

From 1 to 30, it changes the number of steps on prefixes, ranges and random signs by at most 40 %.
"""

_SUFFICIENT = 1e-4
"""Armijo's share of the decrease, as Birgin et al. recommend; 1e-8 gives the same steps."""

_SHORTEST_STEP = 1e-12
"""Shortest step that is tried: a shorter one changes the objective by less than its rounding error.

The limit is not reached on prefixes, ranges and random signs, even if it is 1e-4.
"""

_LONGEST = 1e3
"""Longest step, in units of the norms of Y and of the gradient; it is for negative curvature only.

No number from 10 to 1e6 changes a step on prefixes, ranges and random signs.
"""

_RELATIVE_FLOOR = 1e-8
"""Least eigenvalue of Y, relative to the least one of the first Y.

The constraint only keeps Y positive definite. 1e-3 binds: it takes up to half more steps; 1e-12
lets Y become nearly singular, and takes up to a fifth more.
"""

_BETWEEN_CERTIFICATES = 10
"""Number of steps from one certificate, which needs singular values, to the next.

With 1, a solve ends up to four steps earlier but takes a fifth longer; with 50, up to 30 later.
"""


@dataclass(frozen=True, eq=False)
class Smoothed:
    """The program with the soft maximum, in the coordinates of the right singular vectors.

    Attributes
    ----------
    singular : numpy.ndarray, shape (k,)
        Singular values of W, divided by the largest.
    rows : numpy.ndarray, shape (k, d)
        P: the right singular vectors of W as rows.
    mu : float
        The parameter μ of the soft maximum.
    floor : float
        The least eigenvalue that Y may have.
    """

    singular: Array
    rows: Array
    mu: float
    floor: float

    def project(self, Y: Array) -> Array:
        """Return the matrix nearest to Y whose eigenvalues are all at least ``floor``."""
        try:
            scipy.linalg.cholesky(Y - self.floor * np.eye(len(Y)), lower=True, check_finite=False)
        except scipy.linalg.LinAlgError:
            values, vectors = scipy.linalg.eigh(Y, driver="evd", check_finite=False)
            nearest: Array = (vectors * np.maximum(values, self.floor)) @ vectors.T
            return nearest
        return Y

    def lower_bound(self, shares: Array) -> float:
        """Bound every strategy's total error at Δ² = 1 from below, by the soft-max weights."""
        weighted = self.singular[:, None] * self.rows * np.sqrt(shares)
        return float(np.linalg.norm(weighted, "nuc")) ** 2


@dataclass(frozen=True, eq=False)
class Point:
    """A matrix Y that the descent visits, with the smoothed and the exact objective.

    Attributes
    ----------
    Y, inverse, gradient : numpy.ndarray, shape (k, k)
        Y, its inverse, and the gradient of the smoothed objective.
    smoothed, exact : float
        The objective with the soft maximum and with the maximum.
    shares : numpy.ndarray, shape (d,)
        The soft-max weights; they sum to one.
    """

    Y: Array
    inverse: Array
    gradient: Array
    smoothed: float
    exact: float
    shares: Array


def descend(program: Smoothed, point: Point) -> Iterator[Point]:
    """Yield ``point`` and those that the descent visits after it, until no step is acceptable."""
    yield point
    step = 1 / float(np.abs(point.gradient).max())
    recent = deque([point.smoothed], maxlen=_MEMORY)
    while True:
        # the projected gradient, with a step of the spectral length of Barzilai and Borwein
        direction = program.project(point.Y - step * point.gradient) - point.Y
        moved = sufficient_decrease(
            partial(_step, program, point, direction),
            lambda moved: moved.smoothed,
            max(recent),  # non-monotone: only the largest of the last objectives must improve
            float(np.vdot(direction, point.gradient)),
            sufficient=_SUFFICIENT,
            least=_SHORTEST_STEP,
        )
        if moved is None:
            return
        change = moved.Y - point.Y
        curvature = float(np.vdot(change, moved.gradient - point.gradient))
        point = moved
        step = _LONGEST * float(np.linalg.norm(point.Y) / np.linalg.norm(point.gradient))
        if curvature > 0:
            step = min(step, float(np.vdot(change, change)) / curvature)
        recent.append(point.smoothed)
        yield point


def _step(program: Smoothed, point: Point, direction: Array, length: float) -> Point:
    """Take a step of this length; LinAlgError if Y is then not positive definite."""
    Y = point.Y + length * direction
    return _evaluate(program, Y, invert_positive(Y))


def _evaluate(program: Smoothed, Y: Array, inverse: Array) -> Point:
    rows, squares = program.rows, np.square(program.singular)
    # diag(X) for X = PᵀYP, its soft maximum, and the total error tr(Y⁻¹ diag(s²)) of equation (6)
    columns = np.einsum("ij,ij->j", rows, Y @ rows)
    soft = program.mu * float(scipy.special.logsumexp(columns / program.mu))
    shares = scipy.special.softmax(columns / program.mu)
    error = float(np.diag(inverse) @ squares)
    gradient = error * (rows * shares) @ rows.T - soft * (inverse * squares) @ inverse
    exact = float(columns.max()) * error
    return Point(Y, inverse, (gradient + gradient.T) / 2, soft * error, exact, shares)


@dataclass(frozen=True)
class ESM(Iterative):
    """Exponential smoothing mechanism: least total error, with a soft maximum for the privacy cost.

    The targets only scale the noise. The solve stops at a certified relative gap of the total
    error, ``notes["total_error_gap"]`` of the solution.
    """

    name = "ESM"
    source = "Yuan et al., PVLDB 5(11), 2012, appendix; KDD'16, eq. (6)"

    tol: Positive = 1e-2
    max_iterations: Count = 2000

    def on_matrix(self, problem: Problem) -> Solution:
        """Return the best of the points that the descent visits."""
        stopping = self.stopping()
        singular, rows = singular_rows(problem.workload.matrix)
        singular = singular / singular[0]
        # the best Y if all cells have equal weights
        eigenvalues = singular / float((singular @ np.square(rows)).max())
        smoothing = self.tol / (2 * np.log(max(rows.shape[1], 2)))
        program = Smoothed(singular, rows, smoothing, _RELATIVE_FLOOR * float(eigenvalues.min()))
        first = _evaluate(program, np.diag(eigenvalues), np.diag(1 / eigenvalues))
        best, lower = first, 0.0
        for iterations, point in enumerate(descend(program, first)):
            best = min(best, point, key=lambda visited: visited.exact)
            if iterations % _BETWEEN_CERTIFICATES == 0:
                lower = max(lower, program.lower_bound(point.shares))
            stop = stopping.reason(lower, best.exact, iterations)
            if stop is not None:
                break
        # the strategy: its Gram matrix is PᵀYP
        factor = scipy.linalg.cholesky(best.Y, lower=True, check_finite=False)
        noise = from_right_inverse(
            self.name,
            problem,
            factor.T @ rows,
            scipy.linalg.solve_triangular(factor, rows, lower=True, check_finite=False).T,
            Explicit(rows),
            Explicit(problem.workload.dense @ rows.T),
        )
        return Solution(
            self.name,
            problem,
            noise.met(self.name, problem.targets),
            iterations=iterations,
            converged=stop is Stop.CONVERGED,
            timed_out=stop is Stop.TIMED_OUT,
            notes={"total_error_gap": best.exact / lower - 1},
        )

    def work(self, size: ProblemSize) -> Work:
        """About four hundred d x d gradients, fewer on small domains."""
        m, d = size.m, size.d
        return Work(flops=6.0 * m * d**2 + 400 * 12.0 * d**3, bytes=8.0 * (14 * d**2 + 2 * m * d))
