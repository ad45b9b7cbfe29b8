"""A problem on marginals with one target for each marginal, and what is derived from it."""

from dataclasses import dataclass
from functools import cached_property
from math import log

import numpy as np

from solvers.marginals.closure import Closure, closure
from solvers.marginals.collapse import Collapsed, collapse
from solvers.marginals.optimum import minimise
from solvers.marginals.program import Program, program
from solvers.problem import Problem
from workloads import TargetsError
from workloads.operators import Array, Marginals
from workloads.targets import by_group


@dataclass(frozen=True, eq=False)
class Structure:
    """Marginals and their targets.

    Attributes
    ----------
    problem : Problem
        Whose workload is made of marginals.
    operator : Marginals
        The workload's operator.
    targets : numpy.ndarray, shape (number of marginals,)
        The variance bound of every query of each marginal.
    """

    problem: Problem
    operator: Marginals
    targets: Array

    @cached_property
    def closure(self) -> Closure:
        """The subsets of attributes that the marginals contain."""
        return closure(self.operator)

    @cached_property
    def program(self) -> Program:
        """Problem 1 in subset variables."""
        return program(self.closure, self.targets)

    @cached_property
    def collapsed(self) -> Collapsed:
        """The same with alike subsets and marginals together."""
        return collapse(self.program, self.closure, self.targets)

    def hybrid(self, total_error_weight: float) -> Collapsed:
        """Problem 1 with a weight on the sum of all query variances, collapsed."""
        if total_error_weight == 0:
            return self.collapsed
        weighted = program(self.closure, self.targets, total_error_weight)
        return collapse(weighted, self.closure, self.targets)

    def lower_bound(
        self, tol: float, max_iterations: int = 100, time_limit: float | None = None
    ) -> float:
        """A certified lower bound on Δ² over all linear query mechanisms.

        Parameters
        ----------
        tol : float
            How far below the optimum it may lie, relatively, if there is time enough.
        max_iterations : int
            Newton steps at most.
        time_limit : float, optional
            In seconds.

        Returns
        -------
        float
        """
        smaller = self.collapsed.program
        return minimise(
            smaller, tol=tol, max_iterations=max_iterations, time_limit=time_limit
        ).lower

    @cached_property
    def log_sizes(self) -> Array:
        """Natural logarithms of the number of queries of each marginal."""
        return np.array([log(size) for size in self.operator.marginal_sizes])


def structure(problem: Problem) -> Structure | None:
    """The problem's structure; None where it is none of marginals with one target for each."""
    workload = problem.workload
    if not isinstance(workload.operator, Marginals) or not workload.group_sizes:
        return None
    try:
        targets = by_group(workload, problem.targets)
    except TargetsError:
        return None
    return Structure(problem, workload.operator, np.asarray(targets, dtype=np.float64))
