"""From a dual result to a solution: the factors that the dual has at hand."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from solvers.certificate import ROUNDING
from solvers.dual.interior_point import Progress
from solvers.dual.matrix_blocks import BlocksPoint
from solvers.dual.programs import Weights
from solvers.dual.scalar_blocks import ScalarPoint
from solvers.dual.spectrum import Spectrum
from solvers.errors import SolveFailedError
from solvers.gaussian.factorisation import Factorisation, identity
from solvers.gaussian.verification import from_right_inverse
from solvers.problem import Problem
from solvers.problem.factors import seen_cells
from solvers.release import Release
from solvers.solution import Solution
from workloads.operators import Array, Explicit


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
    """The solution of a dual result, its profile and variances those of its noise.

    Parameters
    ----------
    value : callable
        The objective of a solution.
    tol : float
        The gap that the objective must keep to be converged.
    notes : Mapping, optional
        What to report beside the factorisations and products.

    Raises
    ------
    SolveFailedError
        If the objective is below its lower bound.
    """
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
    spectrum : Spectrum
        At these and some query weights.

    Raises
    ------
    SolveFailedError
        If the factors do not give the workload.
    """
    columns, roots = np.sqrt(p), np.sqrt(spectrum.singular)
    scaled = (spectrum.columns * roots).T
    seen = seen_cells(problem.workload.operator)  # the profile of the other cells is zero
    right = np.divide(scaled, columns, out=np.zeros_like(scaled), where=seen & (columns > 0))
    inverse = columns[:, None] * spectrum.columns / roots
    own = problem.factors.basis
    basis = identity(problem.workload.d) if own is None else Explicit(own)
    return from_right_inverse(mechanism, problem, right, inverse, basis, problem.queries)
