"""The reduction that is tried last: it solves the original problem, with all its queries and cells.

`Problem.factors` decides whether a solve uses the query matrix or the structure of the queries.
Mechanisms in closed form do not need these factors.

From the answer of a user's mechanism, only the factors L and B are used: L B is compared with W,
and the privacy cost and the variances are computed from the factors. A lower bound that the
mechanism reports is ignored; the problem is certified independently.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from solvers.dual import programs
from solvers.dual.iteration import Stopping
from solvers.errors import SolveFailedError
from solvers.forms.reduction import ObstacleError, Reduction
from solvers.mechanism import Mechanism, OnMatrix, ProblemSize, Work
from solvers.noise.factorisation import Factorisation, InBasis, scale_of
from solvers.noise.verification import LARGEST_RESIDUAL, residual
from solvers.problem import Problem, factors, memory
from solvers.solution import Solution
from solvers.strategy import from_strategy
from workloads.operators import Explicit, Matrix, dense
from workloads.parameters import LARGEST_SIZE


def verified_solution(name: str, problem: Problem, answer: object) -> Solution:
    """Verify the answer of a user's mechanism, and rebuild the solution from its factors.

    Raises
    ------
    SolveFailedError
        If the answer is not a valid strategy or solution, or the product of its factors is not the
        workload.
    """
    if isinstance(answer, np.ndarray) or scipy.sparse.issparse(answer):
        answer = from_strategy(name, problem, _fitting(name, problem, answer))
    if not isinstance(answer, Solution) or not isinstance(answer.noise, Factorisation):
        kind = type(answer.noise if isinstance(answer, Solution) else answer).__name__
        raise SolveFailedError(
            f"{name}: the answer is of type {kind}, which cannot be verified; return a strategy "
            "matrix, or a Solution of from_strategy, from_root or from_covariance of "
            "solvers.strategy"
        )
    left, right = (
        Explicit(_matrix(name, factor)) for factor in (answer.noise.left, answer.noise.right)
    )
    if (left.shape[0], right.shape[1]) != problem.workload.shape or left.shape[1] != right.shape[0]:
        raise SolveFailedError(
            f"{name}: factors of shapes {left.shape} and {right.shape}; expected a product of the "
            f"workload's shape, {problem.workload.shape}"
        )
    missing = residual(Explicit(problem.workload.matrix), left, dense(right.array))
    if not missing <= LARGEST_RESIDUAL:
        raise SolveFailedError(
            f"{name}: the product of its factors differs from the workload by {missing:.1e} of the "
            f"noise; expected at most {LARGEST_RESIDUAL:.0e}: they do not answer the queries"
        )
    scale = scale_of(name, left.squared_row_norms(), problem.targets)
    decoder, strategy_ = Explicit(_matrix(name, left.array / scale)), Explicit(right.array * scale)
    noise = Factorisation(decoder, strategy_, InBasis(strategy_, decoder, 1.0))
    return replace(
        answer, mechanism=name, problem=problem, noise=noise, known_lower_bound=None, weights=None
    )


def _fitting(name: str, problem: Problem, strategy: object) -> Matrix:
    matrix = _matrix(name, strategy)
    if matrix.ndim != 2 or matrix.shape[1] != problem.workload.d:
        raise SolveFailedError(
            f"{name}: a strategy of shape {matrix.shape}; expected one column for each of the "
            f"{problem.workload.d} cells"
        )
    values = matrix.data if isinstance(matrix, scipy.sparse.csr_array) else matrix
    if not np.all(np.isfinite(values)) or not np.any(values):
        raise SolveFailedError(f"{name}: its strategy has entries that are not finite, or is 0")
    return matrix


def _matrix(name: str, given: Any) -> Matrix:
    if np.iscomplexobj(given):
        raise SolveFailedError(f"{name}: its matrix has complex entries; expected real numbers")
    if hasattr(given, "tocsr"):
        return scipy.sparse.csr_array(given.astype(np.float64))
    return np.asarray(given, dtype=np.float64)


def estimate_work(mechanism: Mechanism, problem: Problem) -> Work:
    """Estimate the work of a solve, which uses the queries' structure if that saves work."""
    m, d = problem.workload.shape
    if mechanism.uses_structure:
        union = factors.in_coordinates(problem.workload.operator)
        queries = problem.workload.operator if union is None else union.operator
        if factors.structure_pays(queries):
            k = queries.shape[1]
            work = mechanism.work(ProblemSize(m, k, queries.form_work))
            return replace(work, bytes=work.bytes + factors.bytes_of_basis(k, d))
    return mechanism.work(ProblemSize(m, d))


@dataclass(frozen=True, eq=False)
class QueryMatrix(Reduction):
    """The original problem, with all its queries and cells."""

    problem: Problem

    @classmethod
    def of(cls, problem: Problem) -> "QueryMatrix":
        """Every problem is of this kind."""
        return cls(problem)

    def check(self, mechanism: Mechanism) -> None:
        """Check that there is such a form, that the matrix is not too large, and the memory."""
        if not isinstance(mechanism, OnMatrix):
            raise ObstacleError(mechanism.without_matrix)
        if max(self.problem.workload.shape) > LARGEST_SIZE:
            raise ObstacleError("too large for query matrices")
        short = memory.shortage(self.work(mechanism).bytes)
        if short:
            raise ObstacleError(f"by its query matrix it takes {short}")

    def solve(self, mechanism: Mechanism) -> Solution:
        """Solve on the query matrix; answers of plug-ins and of user functions are verified."""
        assert isinstance(mechanism, OnMatrix)
        solution = mechanism.on_matrix(self.problem)
        if mechanism.foreign:
            return verified_solution(mechanism.name, self.problem, solution)
        return solution

    def lower_bound(self, stopping: Stopping) -> float:
        """Return the bound of the dual on the query matrix."""
        return programs.optimum(self.problem.factors, stopping).lower

    def work(self, mechanism: Mechanism) -> Work:
        """Estimate the work by `estimate_work`."""
        return estimate_work(mechanism, self.problem)
