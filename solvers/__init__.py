"""Choosing the noise of differentially private query releases: every mechanism, one result."""

import time
from collections.abc import Mapping
from typing import Any

import scipy.sparse as sp
from numpy.typing import ArrayLike

from solvers import privacy
from solvers.errors import (
    NotApplicableError,
    OptionError,
    SolveFailedError,
    SolverError,
    UnknownMethodError,
)
from solvers.method import Method, Work, all_methods, find
from solvers.problem import Problem, as_problem
from solvers.solution import Solution
from workloads import Workload

__all__ = [
    "Method",
    "NotApplicableError",
    "OptionError",
    "Problem",
    "Solution",
    "SolveFailedError",
    "SolverError",
    "UnknownMethodError",
    "Work",
    "methods",
    "privacy",
    "solve",
]


def methods() -> Mapping[str, Method]:
    """Every method by name."""
    return all_methods()


def solve(
    method: str,
    workload: Workload | ArrayLike | sp.sparray | sp.spmatrix,
    targets: ArrayLike | None = None,
    *,
    preset: str | None = None,
    **options: Any,
) -> Solution:
    """Choose the noise of a query release by the named method.

    Parameters
    ----------
    method : str
        A name of `methods()`.
    workload : Workload, array_like or scipy.sparse matrix, shape (m, d)
        The queries.
    targets : array_like, shape (m,) or scalar, optional
        The variance bound of each query; 1 for all if not given.
    preset : str, optional
        A named set of the method's options, for instance ``"published"`` for SM-II.
    **options
        The method's options; see ``methods()[method].options``. Every iterative method
        takes ``tol``, the relative gap to reach, and ``time_limit``, in seconds.

    Returns
    -------
    Solution

    Raises
    ------
    UnknownMethodError, OptionError
        If a name or a value is wrong.
    WorkloadError, TargetsError
        If the workload or the targets are.
    NotApplicableError
        If the method does not apply to the workload.
    SolveFailedError
        If the answer fails its own check.
    """
    chosen = find(method)
    resolved = chosen.resolve(preset, options)
    problem = as_problem(workload, targets)
    started = time.perf_counter()
    solution: Solution = chosen.solve(problem, **resolved)
    return solution.timed(time.perf_counter() - started)
