"""Reductions, and the choice of the first one that can carry out a solve.

A reduction replaces one kind of problem by an equivalent problem that is solved instead: for
example, a Kronecker product by its factors, or marginals by their orbits. The reductions are tried
in a fixed order. The last one solves every problem that fits in memory on the query matrix itself.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from solvers.dual.iteration import Deadline, Stopping
from solvers.errors import NotApplicableError
from solvers.mechanism import Mechanism, Work, find
from solvers.problem import Problem
from solvers.solution import Solution

Obstacle = str
"""The reason why a reduction cannot carry out a solve; empty if it can.

The reason is worded to follow the colon in the error message of `taken`.
"""


@dataclass(frozen=True)
class Reduction:
    """A way to solve one kind of problem by first transforming it.

    Attributes
    ----------
    name : str
        A phrase that describes what is solved in place of the problem.
    order : int
        Reductions with smaller numbers are tried first; the query matrix has the number 100.
    accepts : callable
        ``accepts(problem)`` returns the transformed problem, of any type; None if the problem is of
        another kind; an `Obstacle` if it is of this kind but cannot be transformed.
    solve : callable
        ``solve(mechanism, transformed) -> Solution``, a solution of the original problem.
    lower_bound : callable
        ``lower_bound(transformed, stopping)``: a certified lower bound on Δ² for the original
        problem.
    work : callable
        ``work(mechanism, transformed) -> Work``: the expected work of a solve.
    obstacle : callable
        ``obstacle(mechanism, transformed) -> Obstacle``: why a mechanism, with its options, cannot
        solve the problem this way, for instance for lack of memory; empty if it can.
    """

    name: str
    order: int
    accepts: Callable[[Problem], Any]
    solve: Callable[[Mechanism, Any], Solution]
    lower_bound: Callable[[Any, Stopping], float]
    work: Callable[[Mechanism, Any], Work]
    obstacle: Callable[[Mechanism, Any], Obstacle] = lambda *_: ""


def needs_matrix(mechanism: Mechanism, names: Iterable[str]) -> Obstacle:
    """Return an obstacle if one of the named options is not at its default; otherwise empty."""
    changed = mechanism.first_changed(names)
    return f"option {changed!r} needs the query matrix; leave it at its default" if changed else ""


@cache
def all_reductions() -> tuple[Reduction, ...]:
    """The reductions of all modules of `solvers.forms`, in the order in which they are tried."""
    modules = (
        importlib.import_module(f"solvers.forms.{module.name}")
        for module in pkgutil.iter_modules([str(Path(__file__).parent)])
    )
    found = (module.REDUCTION for module in modules if hasattr(module, "REDUCTION"))
    return tuple(sorted(found, key=lambda reduction: (reduction.order, reduction.name)))


def lower_bound(
    problem: Problem,
    tol: float = 1e-4,
    max_iterations: int = 100,
    time_limit: float | None = None,
) -> float:
    """Compute a certified lower bound on Δ² by the first reduction that can solve the problem.

    Parameters
    ----------
    tol : float
        Relative gap at which to stop, if it is reached within the limits on steps and time.

    Returns
    -------
    float
        The bound, which is valid whether or not ``tol`` was reached.

    Raises
    ------
    NotApplicableError
        If no reduction can solve the problem.
    """
    stopping = Stopping(tol, max_iterations, Deadline.after(time_limit))
    reduction, transformed = taken("a certified lower bound", find("optimal")(), problem)
    return reduction.lower_bound(transformed, stopping)


def taken(what: str, mechanism: Mechanism, problem: Problem) -> tuple[Reduction, Any]:
    """Find the first reduction that can carry out a solve, and transform the problem by it.

    Parameters
    ----------
    what : str
        A name for what is to be computed; the error message starts with it.

    Raises
    ------
    NotApplicableError
        If no reduction can carry out the solve; the message lists all obstacles.
    """
    reasons: list[str] = []
    for reduction, transformed, obstacle in tried(mechanism, problem):
        if not obstacle:
            return reduction, transformed
        reasons.insert(0, obstacle)
    distinct = dict.fromkeys(reasons)
    raise NotApplicableError(f"{what} on {problem.size}: {', and '.join(distinct)}")


def tried(mechanism: Mechanism, problem: Problem) -> Iterator[tuple[Reduction, Any, Obstacle]]:
    """Yield each reduction for this kind of problem, the transformed problem and the obstacle.

    The transformed problem is None if the reduction cannot transform the problem.
    """
    for reduction in all_reductions():
        transformed = reduction.accepts(problem)
        if isinstance(transformed, Obstacle):
            yield reduction, None, transformed
        elif transformed is not None:
            yield reduction, transformed, reduction.obstacle(mechanism, transformed)
