"""The query matrix itself, or its structure where that pays: for all remaining problems.

Whether a solve keeps the structure of the queries is up to `Problem.factors`, so that closed
forms that need no factorisation make none.
"""

from solvers.dual import programs as dual
from solvers.dual.iteration import Deadline
from solvers.mechanism import Mechanism, Work
from solvers.problem import Problem, factors, memory
from solvers.reduction import Obstacle, Options, Reduction
from solvers.solution import Solution
from solvers.user_mechanisms import verified_solution
from workloads import Workload
from workloads.operators import LARGEST_MATRIX_BYTES, Marginals
from workloads.parameters import LARGEST_SIZE


def _accepts(problem: Problem) -> Problem | Obstacle:
    """Any problem but marginals too large to write out, whose operator has no limit on size."""
    m, d = problem.workload.shape
    large = 8 * d * max(m, d) > LARGEST_MATRIX_BYTES
    if large and isinstance(problem.workload.operator, Marginals):
        return Obstacle("too large for query matrices")
    return problem


def solve(mechanism: Mechanism, problem: Problem, options: Options) -> Solution:
    """The mechanism on query matrices, verified if it is a plug-in or a user's."""
    assert mechanism.solve is not None
    solution: Solution = mechanism.solve(problem, **options)
    return verified_solution(mechanism.name, problem, solution) if mechanism.foreign else solution


def _lower_bound(problem: Problem, tol: float, max_iterations: int, deadline: Deadline) -> float:
    whole = problem.relative.factors
    result = dual.optimum(whole, tol=tol, max_iterations=max_iterations, deadline=deadline)
    return result.lower / problem.unit


def _hindrance(mechanism: Mechanism, problem: Problem, options: Options) -> Obstacle | None:
    """An obstacle if the solve would take too much memory."""
    m, d = problem.workload.shape
    if max(m, d) > LARGEST_SIZE:
        return Obstacle("too large for query matrices")
    operator = problem.workload.operator
    if mechanism.uses_structure:
        operator = factors.compact(operator)
    pays = mechanism.uses_structure and factors.structure_pays(operator)
    k = operator.shape[1] if pays else d
    planned = mechanism.expected_work(m, k, options, operator.form_work if pays else None)
    short = memory.shortage(planned.bytes + factors.bytes_of_basis(k, d))
    return Obstacle(f"by its query matrix it takes {short}") if short else None


def _work(mechanism: Mechanism, workload: Workload, options: Options) -> Work:
    m, d = workload.shape
    if mechanism.uses_structure and isinstance(workload, Workload):
        operator = factors.compact(workload.operator)
        structured = factors.form_work(operator)
        if structured is not None:
            k = operator.shape[1]
            work = mechanism.expected_work(m, k, options, structured)
            return Work(work.flops, work.bytes + factors.bytes_of_basis(k, d))
    return mechanism.expected_work(int(m), int(d), options)


REDUCTION = Reduction(
    "query matrix", 100, _accepts, solve, _lower_bound, _work, hindrance=_hindrance
)
