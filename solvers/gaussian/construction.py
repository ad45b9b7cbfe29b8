"""From a dual result to a solution: the factors that the dual has at hand."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from solvers.certificate import ROUNDING
from solvers.dual.programs import Weights
from solvers.errors import SolveFailedError
from solvers.factors import seen_cells
from solvers.gaussian.factorisation import Factorisation, identity
from solvers.gaussian.verification import from_right_inverse
from solvers.optimiser import BlocksPoint, Progress, ScalarPoint
from solvers.optimiser.spectrum import Spectrum
from solvers.problem import Problem
from solvers.release import Release
from solvers.solution import Solution
from workloads.operators import Array, Explicit


def from_dual(
    mechanism: str,
    problem: Problem,
    result: Progress[BlocksPoint],
    value: Callable[[Solution], float],
    tol: float,
    notes: Mapping[str, Any] | None = None,
    **facts: Any,
) -> Solution:
    """The solution of a dual result, its profile and variances those of its own factors.

    Parameters
    ----------
    result : Progress
        Weights with their spectrum.
    value : callable
        The objective of a solution.
    tol : float
        The gap that the objective must keep to be converged.
    notes : Mapping, optional
        What to report beside the factorisations and products.

    Raises
    ------
    SolveFailedError
        If the factors do not give the workload, or the objective is below its lower bound.
    """
    noise = inner_factorisation(mechanism, problem, result.best.p, result.best.spectrum)
    return from_noise(mechanism, problem, noise, result, value, tol, notes, **facts)


def from_noise(
    mechanism: str,
    problem: Problem,
    noise: Release,
    result: Progress[BlocksPoint] | Progress[ScalarPoint],
    value: Callable[[Solution], float],
    tol: float,
    notes: Mapping[str, Any] | None = None,
    **facts: Any,
) -> Solution:
    """The solution of a dual result whose noise is known; parameters as of `from_dual`."""
    solution = Solution(
        mechanism,
        problem,
        noise,
        iterations=result.iterations,
        converged=result.converged,
        timed_out=result.timed_out,
        weights=Weights(result.proof.p, result.proof.q),
        trace=result.trace,
        notes={
            "factorisations": result.factorisations,
            "products": result.products,
            **(notes or {}),
        },
        **facts,
    )
    found = value(solution)
    if not found >= result.lower * (1 - ROUNDING):
        raise SolveFailedError(
            f"{mechanism}: the objective of the answer is {found:.9g}, and the dual proves that "
            f"none is below {result.lower:.9g}: too ill-conditioned for double precision"
        )
    if solution.converged and found > result.lower * (1 + tol):
        return replace(solution, converged=False)
    return solution


def inner_factorisation(
    mechanism: str, problem: Problem, p: Array, spectrum: Spectrum
) -> Factorisation:
    """The inner solution at dual weights, scaled so that the targets are just met."""
    return inner_unscaled(mechanism, problem, p, spectrum).met(mechanism, problem.targets)


def inner_unscaled(mechanism: str, problem: Problem, p: Array, spectrum: Spectrum) -> Factorisation:
    """The inner solution at dual weights, from the singular value decomposition there.

    With ``diag(q)^1/2 A diag(p)^1/2 = X diag(λ) Zᵀ`` the strategy is
    ``B = sqrt(λ) Zᵀ / sqrt(p)``, and ``L = W B⁺`` is ``diag(c)^1/2 X sqrt(λ) / sqrt(q)``
    without a division by the query weights: queries of no weight have their limit.

    Parameters
    ----------
    p : numpy.ndarray, shape (d,)
        Column weights.
    spectrum : Spectrum
        At these and some query weights.

    Raises
    ------
    SolveFailedError
        If the factors do not give the workload.
    """
    columns, roots = np.sqrt(p), np.sqrt(spectrum.singular)
    right = _divided((spectrum.columns * roots).T, columns, problem)
    inverse = columns[:, None] * spectrum.columns / roots
    own = problem.factors.basis
    basis = identity(problem.workload.d) if own is None else Explicit(own)
    return from_right_inverse(mechanism, problem, right, inverse, basis, problem.queries)


def _divided(columns: Array, roots: Array, problem: Problem) -> Array:
    """``columns / roots``; zero for the cells that no query sees, whose profile is zero."""
    seen = seen_cells(problem.workload.operator)
    return np.divide(columns, roots, out=np.zeros_like(columns), where=seen & (roots > 0))
