"""The optimum of Problem 1, certified: least privacy cost that meets every target."""

from solvers import dual
from solvers.checked import from_dual
from solvers.method import Method, Work
from solvers.problem import Problem
from solvers.solution import Solution


def solve(
    problem: Problem,
    *,
    tol: float = 1e-6,
    max_iterations: int = 100,
    time_limit: float | None = None,
    start: dual.Weights | None = None,
) -> Solution:
    """The covariance of least Δ² (Problem 1 of PVLDB 14(10)) by an interior point in the dual.

    Parameters
    ----------
    problem : Problem
        The workload and its targets.
    tol : float
        Certified relative gap to reach.
    max_iterations : int
        Newton steps at most.
    time_limit : float, optional
        In seconds; on expiry the best mechanism so far is returned with its gap.
    start : Weights, optional
        Dual weights of a neighbouring problem (``Solution.weights``); changes no result
        beyond the gap.

    Returns
    -------
    Solution

    Raises
    ------
    SolveFailedError
        If the covariance does not confirm the numbers of the dual.
    """
    result = dual.optimum(
        problem.factors,
        tol=tol,
        start=start,
        max_iterations=max_iterations,
        time_limit=time_limit,
    )
    return from_dual(
        "optimal",
        problem,
        result,
        lambda solution: solution.squared_privacy_cost,
        known_lower_bound=result.lower,
    )


def work(m: int, d: int) -> Work:
    """About ten Newton steps, each a factorisation and a preconditioner."""
    n = m + d
    step = 30.0 * d**3 + 5.0 * n * n * d + n**3 / 3 + 12.0 * n * d * d
    return Work(flops=11 * step, bytes=16.0 * n * n + 40.0 * m * d)


METHODS = (
    Method(
        "optimal",
        "the certified optimum: least privacy cost that meets every target",
        solve,
        source="Problem 1 of PVLDB 14(10), by its dual (design.md section 4)",
        self_certifying=True,
        work=work,
    ),
)
