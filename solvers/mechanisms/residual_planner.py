"""ResidualPlanner: noisy marginals from residuals, each with a noise of its own.

Xiao, He, Zhang and Kifer (NeurIPS 2023). For a set S of attributes the base mechanism of S
measures the marginal on S without what smaller marginals say of it: with n_i values of attribute
i and J all ones, the Kronecker product of I - J/n_i over S and of the total over the others,
plus noise whose covariance is σ_S² times the product of the I - J/n_i. With N_S the product of
the n_i over S and w_S that of the n_i - 1,

    it adds (w_S / N_S) / σ_S² to every entry of the privacy profile, and
    w_S N_S / N_T² σ_S² to the variance of every query of a marginal T that contains S.

Any convex loss of the variances leaves one variable for each S in the downward closure, whatever
the domain. The total variance has a closed form (by Cauchy and Schwarz),
σ_S² ~ 1 / (N_S sqrt(sum over T that contain S of 1 / N_T)); the largest variance, each over its
target, is Problem 1 itself and is solved to a certified gap.
"""

from math import log

import numpy as np

from solvers.errors import NotApplicableError, OptionError
from solvers.marginals.closure import Closure
from solvers.marginals.noise import MarginalsNoise
from solvers.marginals.optimum import minimise
from solvers.marginals.solutions import certified, subset_noise
from solvers.marginals.structure import Structure
from solvers.mechanism import Mechanism
from solvers.problem import Problem
from solvers.reductions.marginals import OnMarginals
from solvers.solution import Solution
from workloads.operators import Array

OBJECTIVES = ("total-variance", "max-variance")


def solve(
    problem: Problem,
    *,
    objective: str = "total-variance",
    tol: float = 1e-6,
    max_iterations: int = 100,
    time_limit: float | None = None,
) -> Solution:
    """It takes marginals alone; on them `on_marginals` is called.

    Parameters
    ----------
    problem : Problem
        The workload and its targets.
    objective : {"total-variance", "max-variance"}
        The sum of all variances, or the largest variance over its target.
    tol : float
        Certified relative gap of the largest variance to reach.
    max_iterations : int
        Newton steps at most.
    time_limit : float, optional
        In seconds.

    Raises
    ------
    NotApplicableError
        Always.
    """
    raise NotApplicableError(
        f"ResidualPlanner on {problem.size}: it plans marginals with one target for each (the "
        "workloads marginals, or census without ordered attributes); with prefixes or ranges, or "
        "targets that differ within a marginal, take ResidualPlanner+"
    )


def on_marginals(
    structure: Structure,
    *,
    objective: str,
    tol: float,
    max_iterations: int,
    time_limit: float | None,
) -> Solution:
    """The σ_S of the least total variance, or of the least of the largest variances.

    Raises
    ------
    OptionError
        If there is no such objective.
    SolveFailedError
        If the variances of all subsets do not confirm the optimum of the largest one.
    """
    if objective not in OBJECTIVES:
        raise OptionError(
            f"ResidualPlanner: objective {objective!r}; expected {' or '.join(OBJECTIVES)}"
        )
    if objective == "total-variance":
        logs = _least_total_variance(structure.closure) - _privacy_costs(structure.closure)
        noise = MarginalsNoise(structure, subset_noise(structure, np.exp(logs - logs.max())))
        return Solution("ResidualPlanner", structure.problem, noise)
    found = minimise(
        structure.collapsed.program,
        tol=tol,
        max_iterations=max_iterations,
        time_limit=time_limit,
    )
    return certified("ResidualPlanner", structure, structure.collapsed, found, 0.0, {})


def _privacy_costs(closure: Closure) -> Array:
    """Logarithms of w_S / N_S: what the base mechanism of each subset costs at σ_S = 1."""
    return closure.log_ranks - _log_sizes(closure)


def _least_total_variance(closure: Closure) -> Array:
    """Logarithms of the σ_S² of the least total variance, up to scale."""
    shared = closure.incidence.T @ np.exp(closure.log_sizes.min() - closure.log_sizes)
    return np.asarray(-_log_sizes(closure) - np.log(shared) / 2)


def _log_sizes(closure: Closure) -> Array:
    """Logarithms of the N_S."""
    logs = np.array([*map(log, closure.block_sizes), 0.0])
    return np.asarray(logs[closure.members].sum(axis=1))


MECHANISMS = (
    Mechanism(
        "ResidualPlanner",
        "residuals of marginals with the best noise for their total or their largest variance",
        solve,
        source="Xiao, He, Zhang and Kifer, NeurIPS 2023",
        forms=(OnMarginals(on_marginals),),
    ),
)
