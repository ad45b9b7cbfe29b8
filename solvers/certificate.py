"""Certified lower bounds on the squared privacy cost of any linear query mechanism."""

from solvers import reduction
from solvers.problem import Problem

_MOST_ITERATIONS = 100
_QUICK_ITERATIONS = 3


def certify(problem: Problem, tol: float = 1e-4, time_limit: float | None = None) -> float:
    """A lower bound on Δ² within ``tol`` of the optimum.

    Parameters
    ----------
    problem : Problem
        The workload and its targets.
    tol : float
        How far below the optimum it may lie, relatively, if there is time enough.
    time_limit : float, optional
        In seconds.

    Returns
    -------
    float
        Valid whether or not ``tol`` was reached.

    Raises
    ------
    NotApplicableError
        If no reduction accepts the problem.
    """
    return reduction.lower_bound(problem, tol, _MOST_ITERATIONS, time_limit)


def quick_lower_bound(problem: Problem) -> float:
    """A lower bound on Δ² from three Newton steps of the dual: usually within 1 %.

    Parameters
    ----------
    problem : Problem
        The workload and its targets.

    Returns
    -------
    float

    Raises
    ------
    NotApplicableError
        If no reduction accepts the problem.
    """
    return reduction.lower_bound(problem, 0.0, _QUICK_ITERATIONS, None)
