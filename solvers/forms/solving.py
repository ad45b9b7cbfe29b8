"""The public entry point: solve a workload with its targets by a named mechanism.

Each problem is solved by the first of all reductions that can carry out the solve.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import scipy
from numpy.typing import ArrayLike

from solvers.dual.iteration import Stopping
from solvers.errors import NotApplicableError, OptionError, SolveFailedError
from solvers.forms.dense import QueryMatrix
from solvers.forms.differences import Differences
from solvers.forms.kronecker import Product
from solvers.forms.orbits import ProductOrbits, SingleOrbit
from solvers.forms.reduction import ObstacleError, Reduction
from solvers.mechanism import (
    Mechanism,
    OnGraph,
    ProblemSize,
    Work,
    adopt,
    all_mechanisms,
    check_kind,
    find,
)
from solvers.problem import Problem, as_graph_problem, as_problem
from solvers.problem.neighbours import Written, as_neighbours
from solvers.solution import Solution
from workloads import QueryGraph, Workload
from workloads.family import Kind

REDUCTIONS: tuple[type[Reduction], ...] = (
    Differences,
    Product,
    SingleOrbit,
    ProductOrbits,
    QueryMatrix,
)
"""The reductions in the order in which they are tried.

`Differences` is first, because only it obeys neighbours other than add-remove. Products and orbits
are smaller than the query matrix, which solves every problem that fits in memory.
"""

_QUICK_STEPS = 3
"""Number of Newton steps spent on a lower bound if the mechanism does not compute one."""


def lower_bound(problem: Problem, stopping: Stopping) -> float:
    """Compute a certified lower bound on Δ² by the first reduction that can solve the problem.

    Parameters
    ----------
    stopping : Stopping
        When to return the bound, which is valid whether or not the tolerance was reached.

    Raises
    ------
    NotApplicableError
        If no reduction can solve the problem.
    """
    what, optimal = "a certified lower bound", find("optimal")()
    return choose_reduction(what, optimal, problem).lower_bound(stopping)


def choose_reduction(what: str, mechanism: Mechanism, problem: Problem) -> Reduction:
    """Transform the problem by the first reduction that can carry out a solve.

    Parameters
    ----------
    what : str
        A name for what is to be computed; the error message starts with it.

    Raises
    ------
    NotApplicableError
        If no reduction can carry out the solve; the message lists all obstacles.
    """
    obstacles: list[str] = []
    for kind in REDUCTIONS:
        try:
            reduced = kind.of(problem)
            if reduced is not None:
                reduced.check(mechanism)
                return reduced
        except ObstacleError as error:
            obstacles.insert(0, str(error))
    distinct = dict.fromkeys(obstacles)
    raise NotApplicableError(f"{what} on {problem.size}: {', and '.join(distinct)}")


def expected_work(
    mechanism: str | Mechanism,
    workload: Workload | QueryGraph,
    options: Mapping[str, object] | None = None,
    neighbours: Written = "add-remove",
) -> Work:
    """Estimate the work of one solve whose targets are equal within each group of queries.

    Parameters
    ----------
    mechanism : str or Mechanism
        A name in `all_mechanisms()`, or a mechanism with its options.
    options : Mapping[str, object], optional
        Options of the named mechanism; missing options have their defaults.
    neighbours : str, Mapping or Neighbours
        As in `solve`.

    Raises
    ------
    UnknownMechanismError
        If there is no mechanism of that name.
    OverflowError
        If the work is too large for a float.
    """
    kind = _kind_of(workload)
    chosen = _resolve(mechanism, kind, None, options or {})
    size = ProblemSize(*map(int, workload.shape))
    if isinstance(workload, QueryGraph):
        return chosen.work(size)
    relation = as_neighbours(neighbours)
    problem = Problem(workload, np.ones(workload.target_count), relation)
    try:
        return choose_reduction(chosen.name, chosen, problem).work(chosen)
    except NotApplicableError:
        return chosen.work(size)


def _kind_of(workload: object) -> Kind:
    return "graph" if isinstance(workload, QueryGraph) else "matrix"


def _resolve(
    mechanism: str | Mechanism, kind: Kind, preset: str | None, options: Mapping[str, object]
) -> Mechanism:
    """Return the mechanism for a kind of workload; a user's own has its answers verified."""
    if isinstance(mechanism, str):
        return find(mechanism, kind).make(preset, options, kind)
    if preset is not None or options:
        named = preset or next(iter(options))
        raise OptionError(
            f"mechanism {mechanism.name!r} has its options already; give it {named!r} where it is "
            "made, or name the mechanism as a text"
        )
    cls = type(mechanism)
    if all_mechanisms().get(cls.name) is not cls:
        cls = adopt(cls.name, cls)
    check_kind(cls, kind)
    given = mechanism.options
    return cls.make(None, {n: v for n, v in given.items() if mechanism.first_changed([n])}, kind)


def solve(
    mechanism: str | Mechanism,
    workload: "Workload | QueryGraph | ArrayLike | scipy.sparse.sparray | scipy.sparse.spmatrix",
    targets: ArrayLike | None = None,
    *,
    preset: str | None = None,
    neighbours: Written = "add-remove",
    **options: object,
) -> Solution:
    """Compute the noise with which the named mechanism answers a workload.

    Parameters
    ----------
    mechanism : str or Mechanism
        A name in `all_mechanisms()`, or a mechanism with its options, such as ``HM(branching=4)``.
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
        The named mechanism's options; see ``all_mechanisms()[mechanism].params(kind)``. Every
        iterative mechanism takes ``tol``, the relative gap at which to stop, and ``time_limit``,
        the seconds after which it returns the best answer so far.

    Returns
    -------
    Solution
        Its ``noise`` is the distribution of the errors; `solvers.noise.noise` lists all kinds,
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
    chosen = _resolve(mechanism, _kind_of(workload), preset, options)
    certify: Callable[[], float] | None = None
    relation = as_neighbours(neighbours)
    if isinstance(workload, QueryGraph):
        if not relation.add_remove:
            raise OptionError(
                f"neighbours: {relation.title} on a query graph; its own edges say which "
                "answers are adjacent: leave neighbours out, or change the edges"
            )
        graph = as_graph_problem(workload, targets)
    else:
        problem = as_problem(workload, targets, relation)
        certify = partial(lower_bound, problem, Stopping(0.0, _QUICK_STEPS))
    started = time.perf_counter()
    chosen = chosen.until(chosen.deadline)
    try:
        if isinstance(workload, QueryGraph):
            assert isinstance(chosen, OnGraph)
            solution = chosen.on_graph(graph)
        else:
            solution = choose_reduction(chosen.name, chosen, problem).solve(chosen)
    except MemoryError as error:
        raise NotApplicableError(
            f"{chosen.name}: this problem needs more memory than there is ({error}); ask for "
            "fewer queries or cells, or solve it on a larger machine"
        ) from error
    except np.linalg.LinAlgError as error:
        raise SolveFailedError(
            f"{chosen.name}: too ill-conditioned for double precision ({error}); bring the norms "
            "of queries and cells, and the targets, closer together"
        ) from error
    return replace(solution, runtime=time.perf_counter() - started, certify=certify).confirmed()
