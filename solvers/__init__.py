"""Choosing the noise of differentially private query releases: every mechanism, one result."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from solvers import factors, privacy
from solvers.errors import (
    NotApplicableError,
    OptionError,
    SolveFailedError,
    SolverError,
    UnknownMechanismError,
)
from solvers.graph import GraphProblem, as_graph_problem
from solvers.marginals import dispatch as marginals
from solvers.marginals import work as marginals_work
from solvers.mechanism import Mechanism, Work, all_mechanisms, find
from solvers.problem import Problem, as_problem
from solvers.products import dispatch as products
from solvers.solution import Solution
from workloads import QueryGraph, Workload
from workloads.family import Kind

__all__ = [
    "GraphProblem",
    "Mechanism",
    "NotApplicableError",
    "OptionError",
    "Problem",
    "Solution",
    "SolveFailedError",
    "SolverError",
    "UnknownMechanismError",
    "Work",
    "all_mechanisms",
    "expected_work",
    "privacy",
    "solve",
]


def expected_work(
    mechanism: str, workload: Workload | QueryGraph, options: Mapping[str, Any] | None = None
) -> Work:
    """What one solve is expected to take, with equal targets in each group of queries.

    Parameters
    ----------
    mechanism : str
        A name of `all_mechanisms()`.
    workload : Workload or QueryGraph
        What is asked.
    options : Mapping[str, object], optional
        Options of the solve; those that are left out have their defaults.

    Returns
    -------
    Work

    Raises
    ------
    UnknownMechanismError
        If there is no mechanism of that name.
    OverflowError
        If it is beyond floats.
    """
    chosen = find(mechanism)
    given = options or {}
    known = marginals_work.expected_work(chosen, workload, given) or products.expected_work(
        chosen, workload, given
    )
    if known is not None:
        return known
    structured = factors.form_work(workload) if chosen.uses_structure else None
    return chosen.expected_work(int(workload.m), int(workload.d), given, structured)


def solve(
    mechanism: str,
    workload: Workload | QueryGraph | ArrayLike | sp.sparray | sp.spmatrix,
    targets: ArrayLike | None = None,
    *,
    preset: str | None = None,
    **options: Any,
) -> Solution:
    """Choose the noise of a query release by the named mechanism.

    Parameters
    ----------
    mechanism : str
        A name of `all_mechanisms()`.
    workload : Workload, QueryGraph, array_like or scipy.sparse matrix, shape (m, d)
        The queries.
    targets : array_like, shape (m,) or scalar, optional
        The variance bound of each query; 1 for all if not given. Of a query graph, one bound
        on the variance at the worst answer.
    preset : str, optional
        A named set of the mechanism's options, for instance ``"published"`` for SM-II.
    **options
        The mechanism's options; see ``all_mechanisms()[mechanism].options_on(kind)``. Every
        iterative mechanism takes ``tol``, the relative gap to reach, and ``time_limit``, in
        seconds.

    Returns
    -------
    Solution
        Its ``noise`` says how the errors are made: a factorisation of W, noise on marginals that
        are solved in subset variables (`solvers.marginals`), a product of factorisations of a
        Kronecker product (`solvers.products`), independent numbers, or the noise matrix of a
        query graph.

    Raises
    ------
    UnknownMechanismError, OptionError
        If a name or a value is wrong.
    WorkloadError, TargetsError
        If the workload or the targets are.
    NotApplicableError
        If the mechanism does not apply to the workload.
    SolveFailedError
        If the answer fails its own check, or contradicts its certificate.
    """
    chosen = find(mechanism)
    problem: GraphProblem | Problem
    if isinstance(workload, QueryGraph):
        kind: Kind = "graph"
        problem = as_graph_problem(workload, targets)
    else:
        kind = "matrix"
        problem = as_problem(workload, targets)
    resolved = chosen.resolve(preset, options, kind)
    run: Callable[[], Solution] = partial(chosen.solver(kind), problem, **resolved)
    started = time.perf_counter()
    if isinstance(problem, Problem):
        run = (
            marginals.solver(chosen, problem, resolved)
            or products.solver(chosen, problem, resolved)
            or run
        )
    try:
        solution = run()
    except np.linalg.LinAlgError as error:
        raise SolveFailedError(
            f"{chosen.name}: too ill-conditioned for double precision ({error}); bring the norms "
            "of queries and cells, and the targets, closer together"
        ) from error
    return replace(solution, runtime=time.perf_counter() - started).confirmed()
