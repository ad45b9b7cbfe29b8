"""Which problems are a single Kronecker product, and the bounds of one."""

from collections.abc import Callable
from math import prod

import numpy as np

from solvers.problem import Problem, as_problem
from workloads import from_matrix
from workloads.operators import Kronecker


def factors(problem: Problem) -> tuple[Problem, ...] | None:
    """The factors of a single product with equal targets, each with unit targets, else None."""
    operator, targets = problem.workload.operator, problem.targets
    if not isinstance(operator, Kronecker) or len(operator.terms) > 1:
        return None
    if not np.all(targets == targets[0]):
        return None
    return tuple(as_problem(from_matrix(part, name="factor")) for part in operator.terms[0])


def lower_bound(
    problem: Problem, parts: tuple[Problem, ...], bound: Callable[[Problem], float]
) -> float:
    """A lower bound on Δ²: the product of those of the factors over the target."""
    return prod(bound(part) for part in parts) / float(problem.targets[0])
