"""Lower bounds on the squared privacy cost, from any weights of columns and queries."""

from solvers.problem import Problem


def quick_lower_bound(problem: Problem) -> float:
    """A certified lower bound on Δ² from a few steps of the dual."""
    raise NotImplementedError
