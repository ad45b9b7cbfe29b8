"""Which problems are a single Kronecker product."""

from dataclasses import dataclass

import numpy as np

from solvers.orbits.single import single_orbit
from solvers.problem import Problem, as_problem
from workloads import from_matrix
from workloads.operators import Kronecker


@dataclass(frozen=True, eq=False)
class Product:
    """A single Kronecker product with equal targets.

    Attributes
    ----------
    problem : Problem
        The whole.
    parts : tuple of Problem
        Its factors, each with unit targets.
    target : float
        The variance bound of every query.
    """

    problem: Problem
    parts: tuple[Problem, ...]
    target: float


def product(problem: Problem) -> Product | None:
    """The factors of a problem; None if it is a marginal, or no product with equal targets."""
    operator, targets = problem.workload.operator, problem.targets
    if not isinstance(operator, Kronecker) or len(operator.terms) > 1 or single_orbit(problem):
        return None
    if not np.all(targets == targets[0]):
        return None
    parts = tuple(as_problem(from_matrix(part, name="factor")) for part in operator.terms[0])
    return Product(problem, parts, float(targets[0]))
