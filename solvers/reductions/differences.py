"""Replace-one neighbours: differences of columns instead of columns (`solvers.dual.differences`).

A mechanism that minimises over them, or whose sensitivity is its own, declares so:
`OnDifferences` among its ``forms``. Any other chooses its noise as for add-remove; what that
noise costs is read over all pairs of neighbours. Either way the query matrix is written out.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from solvers.dual import pairs
from solvers.dual.differences import Differences, differences
from solvers.dual.iteration import Deadline
from solvers.errors import NotApplicableError
from solvers.mechanism import Mechanism, Work
from solvers.noise.factorisation import Factorisation
from solvers.privacy.budget import NoBudget
from solvers.problem import Problem
from solvers.problem.neighbours import ADD_REMOVE, Neighbours
from solvers.reduction import Options, Reduction
from solvers.reductions import query_matrix
from solvers.solution import Solution
from workloads import Workload
from workloads.operators import LARGEST_MATRIX_BYTES


@dataclass(frozen=True)
class OnDifferences:
    """The form of a mechanism under replace-one neighbours.

    Attributes
    ----------
    solve : callable
        ``solve(smaller, **options) -> Solution``, with all options on query matrices.
    """

    solve: Callable[..., Any]


def as_asked(solve: Callable[..., Any]) -> Callable[..., Any]:
    """The form under replace-one of a mechanism that handles neighbours itself."""
    return lambda smaller, **options: solve(smaller.problem, **options)


def _accepts(problem: Problem) -> Differences | None:
    """Raises rather than letting the next reduction solve another problem."""
    if problem.neighbours.add_remove:
        return None
    m, d = problem.workload.shape
    if 8 * d * max(m, d) > LARGEST_MATRIX_BYTES:
        raise NotApplicableError(
            f"{problem.neighbours.title} on {problem.size}: replace-one neighbours need the query "
            "matrix, which is too large to write out; leave neighbours at add-remove"
        )
    return differences(problem)


def _solve(mechanism: Mechanism, smaller: Differences, options: Options) -> Solution:
    form = mechanism.form(OnDifferences)
    solution: Solution
    if form is not None:
        solution = form.solve(smaller, **options)
        return solution
    plain = replace(smaller.problem, neighbours=ADD_REMOVE)
    solution = query_matrix.solve(mechanism, plain, options)
    noise = solution.noise
    if isinstance(noise, Factorisation):
        noise = replace(noise, neighbours=smaller.problem.neighbours)
    elif not isinstance(noise.curve, NoBudget):
        raise NotApplicableError(
            f"{mechanism.name}: the cost of its noise under {smaller.problem.neighbours.title} is "
            "not known; leave neighbours at add-remove"
        )
    return replace(solution, problem=smaller.problem, noise=noise, known_lower_bound=None)


def refuse_far_targets(problem: Problem) -> None:
    """Raise NotApplicableError where pairs cannot be minimised over in double precision."""
    if problem.unit != 1:
        raise NotApplicableError(
            f"{problem.neighbours.title} on {problem.size}: targets about {problem.unit:.0e} times "
            "the queries' squared norms are beyond double precision over pairs of cells; scale the "
            "targets to within a factor of 1e60, Δ² is in inverse proportion to them"
        )


def _lower_bound(
    smaller: Differences, tol: float, max_iterations: int, deadline: Deadline
) -> float:
    refuse_far_targets(smaller.problem)
    return pairs.optimum(smaller, tol, max_iterations, deadline).lower


def expected_work(
    mechanism: Mechanism, workload: Workload, options: Options, neighbours: Neighbours
) -> Work:
    """What a solve takes: one column for each pair where the mechanism minimises over them."""
    m, d = int(workload.shape[0]), int(workload.shape[1])
    own = mechanism.form(OnDifferences) is not None
    return mechanism.expected_work(m, neighbours.count(d) if own else d, options)


REDUCTION = Reduction("differences of neighbours", 5, _accepts, _solve, _lower_bound)
