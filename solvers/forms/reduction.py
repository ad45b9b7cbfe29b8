"""Reductions, and the choice of the first one that takes a problem.

A reduction handles one kind of problem by solving something smaller than its query matrix:
a Kronecker product factor by factor, marginals and unions of products on orbits. The reductions are
tried in order; the last one, the query matrix itself, takes everything that fits in memory.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from solvers.dual.iteration import Deadline, Stopping
from solvers.errors import NotApplicableError
from solvers.mechanism import Mechanism, Work, find
from solvers.problem import Problem
from solvers.solution import Solution

Options = Mapping[str, Any]
"""Options of a solve by name."""


Obstacle = str
"""Why a reduction for this kind of problem does not take the solve; empty if it does take it.

It is worded as the end of the sentence "It cannot be solved: ...".
"""


@dataclass(frozen=True)
class Reduction:
    """A way to solve one kind of problem: as something smaller than its query matrix.

    Attributes
    ----------
    name : str
        What is solved in place of the problem, in words.
    order : int
        Reductions with smaller numbers are tried first; the query matrix is number 100.
    accepts : callable
        ``accepts(problem)`` returns the transformed problem, of any type; None if the problem is of
        another kind; an `Obstacle` if it is of this kind but cannot be made smaller.
    solve : callable
        ``solve(mechanism, transformed, options) -> Solution`` of the whole problem.
    lower_bound : callable
        ``lower_bound(transformed, stopping)``: a certified lower bound on the Δ² of the whole
        problem.
    work : callable
        ``work(mechanism, transformed, options) -> Work``: the expected work of a solve.
    obstacle : callable
        ``obstacle(mechanism, transformed, options) -> Obstacle``: why a mechanism with these
        options cannot solve the problem this way, for instance for lack of memory; empty if it
        can. Options that are left out have their defaults.
    """

    name: str
    order: int
    accepts: Callable[[Problem], Any]
    solve: Callable[[Mechanism, Any, Options], Solution]
    lower_bound: Callable[[Any, Stopping], float]
    work: Callable[[Mechanism, Any, Options], Work]
    obstacle: Callable[[Mechanism, Any, Options], Obstacle] = lambda *_: ""


def needs_matrix(mechanism: Mechanism, options: Options, names: Iterable[str]) -> Obstacle:
    """The obstacle if one of the named options is not at its default; otherwise empty."""
    changed = mechanism.first_changed(options, names)
    return f"option {changed!r} needs the query matrix; leave it at its default" if changed else ""


@cache
def all_reductions() -> tuple[Reduction, ...]:
    """``REDUCTION`` of each module of `solvers.forms` that has one, ordered as they are tried."""
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
    """A certified lower bound on Δ², by the first reduction that accepts the problem.

    Parameters
    ----------
    tol : float
        Largest relative distance of the bound from the optimum, if steps and time suffice.

    Returns
    -------
    float
        The bound, which is valid whether or not ``tol`` was reached.

    Raises
    ------
    NotApplicableError
        If no reduction accepts the problem.
    """
    stopping = Stopping(tol, max_iterations, Deadline.after(time_limit))
    reduction, transformed = taken("a certified lower bound", find("optimal"), problem, {})
    return reduction.lower_bound(transformed, stopping)


def taken(
    what: str, mechanism: Mechanism, problem: Problem, options: Options
) -> tuple[Reduction, Any]:
    """The first reduction that takes a solve, and the transformed problem.

    Parameters
    ----------
    what : str
        A name, for the error message, of what is to be computed.

    Raises
    ------
    NotApplicableError
        If no reduction takes the solve; the message names the obstacle of each.
    """
    reasons: list[str] = []
    for reduction, transformed, obstacle in tried(mechanism, problem, options):
        if not obstacle:
            return reduction, transformed
        reasons.insert(0, obstacle)
    raise NotApplicableError(f"{what} on {problem.size}: {', and '.join(reasons)}")


def tried(
    mechanism: Mechanism, problem: Problem, options: Options
) -> Iterator[tuple[Reduction, Any, Obstacle]]:
    """Yield each reduction for this kind of problem, the transformed problem and the obstacle."""
    for reduction in all_reductions():
        transformed = reduction.accepts(problem)
        if isinstance(transformed, Obstacle):
            yield reduction, None, transformed
        elif transformed is not None:
            yield reduction, transformed, reduction.obstacle(mechanism, transformed, options)
