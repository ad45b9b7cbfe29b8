"""The public entry point: solve a workload with its targets by a named mechanism."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from solvers.dual.iteration import Deadline
from solvers.errors import NotApplicableError, OptionError, SolveFailedError
from solvers.forms import reduction
from solvers.mechanism import Work, find
from solvers.problem import Problem, as_graph_problem, as_problem
from solvers.problem.neighbours import Written, as_neighbours
from solvers.solution import Solution
from workloads import QueryGraph, Workload

_QUICK_STEPS = 3
"""Number of Newton steps spent on a lower bound if the mechanism does not compute one."""


def expected_work(
    mechanism: str,
    workload: Workload | QueryGraph,
    options: Mapping[str, Any] | None = None,
    neighbours: Written = "add-remove",
) -> Work:
    """Estimate the work of one solve whose targets are equal within each group of queries.

    Parameters
    ----------
    mechanism : str
        A name in `all_mechanisms()`.
    options : Mapping[str, object], optional
        Options of the solve; missing options have their defaults.
    neighbours : str, Mapping or Neighbours
        As in `solve`.

    Raises
    ------
    UnknownMechanismError
        If there is no mechanism of that name.
    OverflowError
        If the work is too large for a float.
    """
    chosen = find(mechanism)
    given = options or {}
    if isinstance(workload, QueryGraph):
        rows, columns = workload.shape
        return chosen.expected_work(int(rows), int(columns), given)
    relation = as_neighbours(neighbours)
    problem = Problem(workload, np.ones(workload.target_count), relation)
    for one, transformed, obstacle in reduction.tried(chosen, problem, given):
        if not obstacle:
            return one.work(chosen, transformed, given)
    return chosen.expected_work(*workload.shape, given)


def solve(
    mechanism: str,
    workload: "Workload | QueryGraph | ArrayLike | scipy.sparse.sparray | scipy.sparse.spmatrix",
    targets: ArrayLike | None = None,
    *,
    preset: str | None = None,
    neighbours: Written = "add-remove",
    **options: Any,
) -> Solution:
    """Compute the noise with which the named mechanism answers a workload.

    Parameters
    ----------
    mechanism : str
        A name in `all_mechanisms()`.
    workload : Workload, QueryGraph, array_like or scipy.sparse matrix, shape (m, d)
        The queries.
    targets : array_like, shape (m,) or scalar, optional
        The variance bound of each query; default: the targets that the workload states,
        otherwise 1. For a query graph, one bound on the variance, whatever the true answer is.
    preset : str, optional
        A named set of the mechanism's options, for instance ``"published"`` for SM-II.
    neighbours : str, Mapping or Neighbours
        Which databases must be indistinguishable: ``"add-remove"`` (they differ by one record),
        ``"replace-one"`` (one record has another value), ``{"within": SIZES}`` (one record has
        another value in the same block of consecutive cells) or ``{"pairs": [[i, j], ...]}`` (one
        record moves between the two cells of a listed pair). See docs/neighbours.md.
    **options
        The mechanism's options; see ``all_mechanisms()[mechanism].options_on[kind]``. Every
        iterative mechanism takes ``tol``, the relative gap at which to stop, and ``time_limit``,
        the seconds after which it returns the best answer so far.

    Returns
    -------
    Solution
        Its ``noise`` is the distribution of the errors; `solvers.noise.release` lists all kinds,
        such as a factorisation of W, independent noise, or the noise matrix of a query graph.

    Raises
    ------
    UnknownMechanismError, OptionError
        If a name is unknown, or the value of an option or of ``neighbours`` is invalid.
    WorkloadError, TargetsError
        If the workload or the targets are invalid.
    NotApplicableError
        If the mechanism does not apply to the workload, or the problem is too large.
    SolveFailedError
        If the problem is too ill-conditioned, or the answer fails verification or contradicts its
        certified lower bound.
    """
    chosen = find(mechanism, "graph" if isinstance(workload, QueryGraph) else "matrix")
    certify: Callable[[], float] | None = None
    relation = as_neighbours(neighbours)
    if isinstance(workload, QueryGraph):
        if not relation.add_remove:
            raise OptionError(
                f"neighbours: {relation.title} on a query graph; its own edges say which "
                "answers are adjacent: leave neighbours out, or change the edges"
            )
        graph = as_graph_problem(workload, targets)
        resolved = chosen.resolve(preset, options, "graph")
    else:
        problem = as_problem(workload, targets, relation)
        resolved = chosen.resolve(preset, options, "matrix")
        certify = partial(reduction.lower_bound, problem, tol=0.0, max_iterations=_QUICK_STEPS)
    started = time.perf_counter()
    deadline = Deadline.after(resolved.get("time_limit"))
    solution: Solution
    try:
        if isinstance(workload, QueryGraph):
            assert chosen.solve_graph is not None
            solution = chosen.solve_graph(graph, **resolved)
        else:
            one, transformed = reduction.taken(chosen.name, chosen, problem, resolved)
            if resolved.get("time_limit") is not None:
                resolved["time_limit"] = deadline.remaining
            solution = one.solve(chosen, transformed, resolved)
    except MemoryError as error:
        raise NotApplicableError(
            f"{chosen.name}: there is not enough memory to solve it ({error}); ask for fewer "
            "queries or cells, or run it where there is more"
        ) from error
    except np.linalg.LinAlgError as error:
        raise SolveFailedError(
            f"{chosen.name}: too ill-conditioned for double precision ({error}); bring the norms "
            "of queries and cells, and the targets, closer together"
        ) from error
    return replace(solution, runtime=time.perf_counter() - started, certify=certify).confirmed()
