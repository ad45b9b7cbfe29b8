"""COA: the matrix mechanism of least total error by the Newton method of KDD'16.

COA and `CA` solve the same program; `CA` finds its certified optimum in a fraction of the time.
Program (10) is to minimise ``F(X) = <X⁻¹, V>`` over positive definite X with unit diagonal, where
V = WᵀW and X is the Gram matrix of the strategy. Algorithm 1 computes Newton directions by a few
conjugate gradient steps (Algorithm 2) and takes Armijo steps with beta = 0.1 and sigma = 0.25.
Algorithm 3 repeats Algorithm 1 on V + θI for θ = 1, 0.1, … 1e-10.

This module differs from the paper:

- Line 7 of Algorithm 2 has a misprint; the product of the Hessian with P is ``-(G P Z + Z P G)``
  with Z = X⁻¹ and G = -Z V Z, as the paper's section 4.1 derives.
- Algorithm 1, line 9, does not say how to decide that "X is an optimal solution". Here a
  certificate decides: for any column weights p >= 0,

      F(X) >= || W diag(p)^1/2 ||_*² / sum(p)        (nuclear norm),

  and the best p are the multipliers of diag(X) = 1, which are ``diag(Z V Z)``. The mechanism
  stops when the relative gap of the objective *without* θ is at most ``tol``. The paper's
  own runs used ``homotopy=False, theta=1e-3, tol=0, max_iterations=30``.
- θ is in units of the mean diagonal entry of V, so that the units of W do not matter.
- V may have any rank: as in the paper, θ > 0 keeps X positive definite. If V is rank deficient,
  the last θ raises the objective by about sqrt(θ), 1e-5 at θ = 1e-10, and five conjugate
  gradient steps are too few: with random W of a third or half the full rank over 24 to 48 cells,
  COA ends 0.04 to 0.23 % above the optimum, unconverged after 1000 steps; with ``cg_steps=20``,
  at most 0.01 %.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
import scipy

from solvers.dual.iteration import Stop, sufficient_decrease, traced
from solvers.mechanism import Iterative, ProblemSize, Work
from solvers.problem import Problem
from solvers.problem.row_space import invert_positive
from solvers.solution import Solution
from solvers.strategy import from_covariance
from workloads.operators import Array
from workloads.operators.blas import inner, product
from workloads.parameters import Bounds, Count, NotNegative, Positive

_SMALLEST_STEP = 1e-12
"""Shortest step that is tried: a shorter one changes the objective by less than its rounding error.

On prefixes, ranges and random signs full steps are accepted, and a limit of 1e-4 changes nothing.
"""

_STAGE_TOLERANCE = 1e-3
"""Newton decrement, relative to the objective, at which the solve for one θ ends.

Only the last θ counts, so the others need not be accurate: 1e-5 takes a third more steps for the
same answers. With 1e-1, a W of a quarter of full rank ends with 3 % more total error.
"""

_SOLVED = 1e-20
"""Squared residual, relative to the first, at which conjugate gradients end: a rounding error.

On an average of four cells, where the first step solves the equations, a further one would be noise
that moves Δ² by 3e-9 of itself.
"""


@dataclass(frozen=True, eq=False)
class _Point:
    """A matrix X, its inverse, the value and the gradient of F for ``V + θI``, and ``<X⁻¹, V>``."""

    X: Array
    inverse: Array
    objective: float
    gradient: Array
    unregularised: float

    def measured(self, unit: float) -> tuple[float, float]:
        """Return ``<X⁻¹, V>`` and the norm of the off-diagonal gradient, both times ``unit``."""
        free = _clear_diagonal(self.gradient.copy())
        return self.unregularised * unit, float(np.linalg.norm(free)) * unit


def _certify_gap(point: _Point, V: Array) -> float:
    """Certify the relative gap of ``<X⁻¹, V>``; multipliers of diag(X) = 1 prove it."""
    weights = -np.diag(point.gradient)
    root = np.sqrt(weights)
    # the nuclear norm of W diag(p)^1/2 from the eigenvalues of diag(p)^1/2 V diag(p)^1/2
    squares = scipy.linalg.eigvalsh(root[:, None] * V * root, check_finite=False)
    norm = float(np.sum(np.sqrt(np.maximum(squares, 0.0))))
    return point.unregularised / (norm**2 / float(weights.sum())) - 1.0


def _list_thetas(last: float, homotopy: bool) -> Iterator[float]:
    theta = 1.0
    while homotopy and theta > 1.0001 * last:
        yield theta
        theta *= 0.1
    yield last


def _step(point: _Point, direction: Array, V: Array, theta: float, length: float) -> _Point:
    """Take a step of this length; LinAlgError if X is then not positive definite."""
    return _evaluate(point.X + length * direction, V, theta)


def _evaluate(X: Array, V: Array, theta: float) -> _Point:
    inverse = invert_positive(X)
    gradient = -product(product(inverse, V), inverse) - theta * product(inverse, inverse)
    unregularised = inner(inverse, V)
    objective = unregularised + theta * float(np.trace(inverse))
    return _Point(X, inverse, objective, (gradient + gradient.T) / 2, unregularised)


def _find_direction(point: _Point, steps: int) -> Array:
    """Find the Newton direction by conjugate gradients with zero diagonal (Algorithm 2)."""
    D = np.zeros_like(point.X)
    R = _clear_diagonal(-point.gradient)
    P, squared = R, inner(R, R)
    negligible = _SOLVED * squared
    for _ in range(steps):
        if squared <= negligible:
            break
        # line 7 of Algorithm 2: the Hessian times P is -(G P Z + Z P G), by two d x d products
        half = product(product(point.gradient, P), point.inverse)
        image = _clear_diagonal(-(half + half.T))
        curvature = inner(P, image)
        if curvature <= 0:
            break
        step = squared / curvature
        D, R = D + step * P, R - step * image
        previous, squared = squared, inner(R, R)
        P = R + (squared / previous) * P
    return D


def _clear_diagonal(matrix: Array) -> Array:
    np.fill_diagonal(matrix, 0.0)
    return matrix


@dataclass(frozen=True)
class COA(Iterative):
    """The matrix mechanism of least total error, by the Newton method of KDD'16.

    The targets only scale the noise. The solve stops at a certified relative gap of the total
    error, ``notes["total_error_gap"]`` of the solution; a ``tol`` of 0 runs all iterations.

    Attributes
    ----------
    cg_steps : int
        Conjugate gradient steps for each direction (T of Algorithm 2).
    homotopy : bool
        Whether to solve for θ = 1, 0.1, ... in turn (Algorithm 3) instead of for the last θ alone.
    theta : float
        The last θ, in units of the mean diagonal entry of V.
    """

    name = "COA"
    source = "KDD'16, Algorithms 1-3"
    presets: ClassVar = {
        "published": {"homotopy": False, "theta": 1e-3, "tol": 0.0, "max_iterations": 30}
    }
    revision = 2
    shrink: ClassVar[float] = 0.1
    sufficient: ClassVar[float] = 0.25
    """β and σ of the line search in Algorithm 1, as section 5 of KDD'16 states them."""

    max_iterations: Count = 1000
    cg_steps: Annotated[int, Bounds(ge=1)] = 5
    homotopy: bool = True
    theta: Positive = 1e-10

    def on_matrix(self, problem: Problem) -> Solution:
        """Return the solution of Algorithm 3.

        Its ``measures`` are the largest factors by which a single step multiplied the objective
        (with θ) and the norm of the gradient.
        """
        stopping = self.stopping()
        stop: Stop | None = None
        operator = problem.workload.operator
        gram = operator.gram(self.query_weights(problem))
        unit = float(np.trace(gram)) / len(gram)
        V = gram / unit
        X, iterations = np.eye(len(V)), 0
        visited: list[tuple[float, float]] = []
        rises: list[float] = []
        for current in _list_thetas(self.theta, self.homotopy):
            point = _evaluate(X, V, current)
            visited = visited or [point.measured(unit)]
            while (stop := stopping.spent(iterations)) is None:
                direction = self.direction(point, unit, iterations)
                slope = inner(point.gradient, direction)
                if current > self.theta and -slope <= _STAGE_TOLERANCE * point.objective:
                    break
                if -slope <= self.tol * point.objective and _certify_gap(point, V) <= self.tol:
                    break
                moved = sufficient_decrease(
                    partial(_step, point, direction, V, current),
                    lambda moved: moved.objective,
                    point.objective,
                    slope,
                    sufficient=self.sufficient,
                    shrink=self.shrink,
                    least=_SMALLEST_STEP,
                )
                if moved is None:
                    break
                rises.append(moved.objective / point.objective)
                point, iterations = moved, iterations + 1
                visited.append(point.measured(unit))
                if self.is_last(1 - rises[-1]):
                    break
            X = point.X
        gap = _certify_gap(point, V)
        norms = [norm for _, norm in visited]
        measures = {}
        if rises:
            measures["objective_rise"] = max(rises)
            measures["gradient_rise"] = float((np.array(norms[1:]) / norms[:-1]).max())
        basis, covariance = np.eye(problem.workload.d), scipy.linalg.inv(point.X)
        return replace(
            from_covariance(self.name, problem, basis, operator, covariance),
            iterations=iterations,
            converged=gap <= self.tol,
            timed_out=stop is Stop.TIMED_OUT and gap > self.tol,
            notes={"total_error_gap": gap},
            measures=measures,
            trace=traced([cost for cost, _ in visited], gradient_norm=norms),
        )

    def query_weights(self, problem: Problem) -> Array:
        """Return the weights of the queries' variances in the total error, shape (m,)."""
        return np.ones(problem.workload.m)

    def direction(self, point: _Point, unit: float, iterations: int) -> Array:
        """Return the direction of the next step; ``unit`` is the mean diagonal entry of V."""
        return _find_direction(point, self.cg_steps)

    def is_last(self, decrease: float) -> bool:
        """Return whether a step with this relative decrease ends the run; here none does."""
        return False

    def work(self, size: ProblemSize) -> Work:
        """Up to 300 Newton steps, each a few products of d x d matrices."""
        d = size.d
        steps = min(self.max_iterations, 300)
        return Work(flops=4e8 + 40.0 * steps * d**3, bytes=100.0 * d * d)


@dataclass(frozen=True)
class PublishedCA(COA):
    """CA, wCA-I and wCA-II as PVLDB 14(10) and arXiv v1 ran them: up to thirty steps of COA.

    The constants are those of the authors' code (cmla-psu/matrixqueries, SM-II/convexdp.py):
    β = 0.5, σ = 1e-4, θ = 1e-3 times the mean diagonal entry of V, five conjugate gradient steps, a
    first step along the negative gradient, and an end after a step that lowers the objective by at
    most 1e-5 of it. The result is not the optimum, and it moves with the last bits of W: for ranges
    over 64 cells by 0.1 % if the entries of W change by 1e-14.

    Attributes
    ----------
    weighting : {"CA", "wCA-I", "wCA-II"}
        Whether queries have equal weights, or are divided by their targets or by the square roots
        of their targets.
    """

    name = "published-CA"
    source = "the authors' code of PVLDB 14(10), section 7"
    presets: ClassVar = {}
    revision = 1
    shrink = 0.5
    sufficient = 1e-4

    tol: NotNegative = 0.0
    max_iterations: Count = 30
    homotopy: bool = False
    theta: Positive = 1e-3
    weighting: Literal["CA", "wCA-I", "wCA-II"] = "CA"

    def query_weights(self, problem: Problem) -> Array:
        """Return the squares of the factors by which the rows of W are scaled."""
        powers = {"CA": 0, "wCA-I": 2, "wCA-II": 1}
        return problem.targets ** -powers[self.weighting]

    def direction(self, point: _Point, unit: float, iterations: int) -> Array:
        """First the negative gradient, from which the line search tries the authors' lengths.

        The authors do not divide V by its unit, so that they try lengths 2^-j times the unit. They
        accept none of the first ones; beginning at 2^20 times the unit's fraction changes no step
        of theirs, and makes the answer the same in every unit.
        """
        if iterations == 0:
            fraction, _ = np.frexp(unit)
            return _clear_diagonal(-(2.0**20) * fraction * point.gradient)
        return super().direction(point, unit, iterations)

    def is_last(self, decrease: float) -> bool:
        """Return whether the objective fell by a hundred thousandth at most."""
        return decrease <= 1e-5
