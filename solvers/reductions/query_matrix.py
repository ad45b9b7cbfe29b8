"""The query matrix itself, or its structure where that pays: what no other reduction takes.

Whether a solve keeps the structure of the queries is up to `Problem.factors`, so that closed
forms that need no factorisation make none.
"""

from solvers import factors, memory
from solvers.dual import programs as dual
from solvers.foreign import checked
from solvers.mechanism import Mechanism, Work
from solvers.problem import Problem
from solvers.reduction import Obstacle, Options, Reduction
from solvers.solution import Solution
from workloads import Workload
from workloads.operators import LARGEST_MATRIX_BYTES, Marginals
from workloads.parameters import LARGEST_SIZE


def _accepts(problem: Problem) -> Problem | Obstacle:
    """Any problem but marginals too large to write out: theirs is the one operator of any size."""
    m, d = problem.workload.shape
    large = 8 * d * max(m, d) > LARGEST_MATRIX_BYTES
    if large and isinstance(problem.workload.operator, Marginals):
        return Obstacle("too large for query matrices")
    return problem


def _obstacle(mechanism: Mechanism, options: Options) -> None:
    return None


def solve(mechanism: Mechanism, problem: Problem, options: Options) -> Solution:
    """What the mechanism does on query matrices; verified where it is somebody else's."""
    assert mechanism.solve is not None
    found: Solution = mechanism.solve(problem, **options)
    return checked(mechanism.name, problem, found) if mechanism.foreign else found


def _lower_bound(
    problem: Problem, tol: float, max_iterations: int, time_limit: float | None
) -> float:
    return dual.optimum(
        problem.factors, tol=tol, max_iterations=max_iterations, time_limit=time_limit
    ).lower


def _hindrance(mechanism: Mechanism, problem: Problem, options: Options) -> Obstacle | None:
    """That the solve is planned to take more memory than there is."""
    m, d = problem.workload.shape
    if max(m, d) > LARGEST_SIZE:
        return Obstacle("too large for query matrices")
    operator = problem.workload.operator
    if mechanism.uses_structure:
        operator = factors.compact(operator)
    pays = mechanism.uses_structure and factors.structure_pays(operator)
    k = operator.shape[1] if pays else d
    planned = mechanism.expected_work(m, k, options, operator.form_work if pays else None)
    short = memory.trouble(planned.bytes + factors.bytes_of_basis(k, d))
    return Obstacle(f"by its query matrix it takes {short}") if short else None


def _work(mechanism: Mechanism, workload: Workload, options: Options) -> Work:
    m, d = workload.shape
    if mechanism.uses_structure and isinstance(workload, Workload):
        operator = factors.compact(workload.operator)
        structured = factors.form_work(operator)
        if structured is not None:
            k = operator.shape[1]
            found = mechanism.expected_work(m, k, options, structured)
            return Work(found.flops, found.bytes + factors.bytes_of_basis(k, d))
    return mechanism.expected_work(int(m), int(d), options)


REDUCTION = Reduction(
    "query matrix", 100, _accepts, _obstacle, solve, _lower_bound, _work, _hindrance
)
