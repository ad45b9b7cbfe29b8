"""All reductions, and the choice of the first one that can carry out a solve."""

from solvers.dual.iteration import Stopping
from solvers.errors import NotApplicableError
from solvers.forms.dense import QueryMatrix
from solvers.forms.differences import Differences
from solvers.forms.kronecker import Product
from solvers.forms.orbits import ProductOrbits, SingleOrbit
from solvers.forms.reduction import ObstacleError, Reduction
from solvers.mechanism import Mechanism, find
from solvers.problem import Problem

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
