"""From a dual result to a solution whose covariance confirms the dual's numbers."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from solvers.certified import ROUNDING
from solvers.dual import DualResult, Weights
from solvers.errors import SolveFailedError
from solvers.problem import Problem
from solvers.solution import Solution, from_covariance

_AGREEMENT = 1e-6


def from_dual(
    method: str,
    problem: Problem,
    result: DualResult,
    value: Callable[[Solution], float],
    tol: float,
    notes: Mapping[str, Any] | None = None,
    **facts: Any,
) -> Solution:
    """The solution of a dual result, its profile and variances recomputed from Σ alone.

    Parameters
    ----------
    method : str
        The method's name.
    problem : Problem
        The workload and its targets.
    result : DualResult
        Weights and covariance.
    value : callable
        The objective of a solution; must give ``result.upper``.
    tol : float
        The gap that the objective, recomputed, must keep to be converged.
    notes : Mapping, optional
        What to report beside the factorisations and products.
    **facts
        Other attributes of `Solution`.

    Returns
    -------
    Solution

    Raises
    ------
    SolveFailedError
        If the objective recomputed from the covariance differs from the dual's, or is below
        its lower bound.
    """
    solution = from_covariance(
        method,
        problem,
        problem.basis,
        problem.queries,
        result.covariance,
        iterations=result.iterations,
        converged=result.converged,
        timed_out=result.timed_out,
        weights=Weights(result.proof.p, result.proof.q),
        notes={
            "factorisations": result.factorisations,
            "products": result.products,
            **(notes or {}),
        },
        **facts,
    )
    found = value(solution)
    confirmed = abs(found - result.upper) <= _AGREEMENT * result.upper
    if not (confirmed and found >= result.lower * (1 - ROUNDING)):
        decades = float(np.ptp(np.log10(problem.targets)))
        raise SolveFailedError(
            f"{method}: the objective recomputed from the covariance is {found:.9g}, the dual "
            f"claims {result.upper:.9g} and proves that none is below {result.lower:.9g}: "
            "too ill-conditioned for double precision (the targets "
            f"span {decades:.1f} decades: bring them closer together; or queries or cells of W "
            "are equal but for rounding: make them equal)"
        )
    if solution.converged and found > result.lower * (1 + tol):
        return replace(solution, converged=False)
    return solution
