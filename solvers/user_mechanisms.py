"""Answers of the user's mechanisms, verified before anybody believes them.

What such a mechanism returns counts as two factors and nothing else: L B is compared with W,
privacy cost and variances are read off the factors, and a bound that it claims is dropped; the
problem is certified without it.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from solvers.errors import SolveFailedError
from solvers.noise.factorisation import Factorisation, InBasis, scale_of
from solvers.noise.verification import LARGEST_RESIDUAL, residual
from solvers.problem import Problem
from solvers.solution import Solution
from solvers.strategy import from_strategy
from workloads.operators import Explicit, Matrix


def verified_solution(name: str, problem: Problem, answer: object) -> Solution:
    """An answer of the user's code, as far as its factors bear it out.

    Raises
    ------
    SolveFailedError
        If it is none, or its factors do not give the workload.
    """
    if isinstance(answer, np.ndarray) or sp.issparse(answer):
        answer = from_strategy(name, problem, _fitting(name, problem, answer))
    if not isinstance(answer, Solution) or not isinstance(answer.noise, Factorisation):
        kind = type(answer.noise if isinstance(answer, Solution) else answer).__name__
        raise SolveFailedError(
            f"{name}: the answer is of type {kind}, which cannot be verified; return a strategy "
            "matrix, or a Solution of from_strategy, from_root or from_covariance of "
            "solvers.strategy"
        )
    left, right = (Explicit(_matrix(factor)) for factor in (answer.noise.left, answer.noise.right))
    if (left.shape[0], right.shape[1]) != problem.workload.shape or left.shape[1] != right.shape[0]:
        raise SolveFailedError(
            f"{name}: factors of shapes {left.shape} and {right.shape}; expected two whose product "
            f"has that of the workload, {problem.workload.shape}"
        )
    missing = residual(problem.workload.matrix, left.array, right.array)
    if not missing <= LARGEST_RESIDUAL:
        raise SolveFailedError(
            f"{name}: its factors miss {missing:.1e} of the workload, in units of the noise; "
            f"expected at most {LARGEST_RESIDUAL:.0e}: they do not answer the queries"
        )
    scale = scale_of(name, left.squared_row_norms(), problem.targets)
    decoder, strategy_ = Explicit(_matrix(left.array / scale)), Explicit(right.array * scale)
    noise = Factorisation(decoder, strategy_, InBasis(strategy_, decoder, 1.0))
    return replace(
        answer, mechanism=name, problem=problem, noise=noise, known_lower_bound=None, weights=None
    )


def _fitting(name: str, problem: Problem, strategy: Any) -> Matrix:
    if strategy.ndim != 2 or strategy.shape[1] != problem.workload.d:
        raise SolveFailedError(
            f"{name}: a strategy of shape {strategy.shape}; expected one column for each of the "
            f"{problem.workload.d} cells"
        )
    matrix = _matrix(strategy)
    values = matrix.data if isinstance(matrix, sp.csr_array) else matrix
    if not np.all(np.isfinite(values)) or not np.any(values):
        raise SolveFailedError(f"{name}: its strategy has entries that are not finite, or is 0")
    return matrix


def _matrix(given: Any) -> Matrix:
    if hasattr(given, "tocsr"):
        return sp.csr_array(given.astype(np.float64))
    return np.asarray(given, dtype=np.float64)
