"""The tight-constraints mechanism, and for which ε there is one (POST 2013, section 5)."""

import math
from functools import lru_cache

import numpy as np

from solvers.errors import NotApplicableError
from solvers.graph.problem import GraphProblem
from solvers.graph.solution import GraphSolution, from_noise, given
from workloads import QueryGraph
from workloads.operators import Array
from workloads.priors import constraints, weights
from workloads.symmetry import Classes, classes

_ACCURACY = 1e-7
_LEAST = 1e-3
_GENERIC = math.sqrt(0.7)
"""An ε at which answers have equal sums only if they have at every ε."""


def solve(
    problem: GraphProblem,
    *,
    epsilon: float = 1.0,
    prior: str | list[float] = "uniform",
    find_least_epsilon: bool = False,
) -> GraphSolution:
    """``X[i, k] = exp(-epsilon * d(i, k)) * z[k]`` with Φz = 1 and z >= 0 (Lemma 3).

    It is optimal for every ε-regular prior (Theorem 3).

    Parameters
    ----------
    problem : GraphProblem
        Any query graph.
    epsilon : float
        ε.
    prior : str or list of float, shape (n,)
        For the measures; see `workloads.priors`.
    find_least_epsilon : bool
        Whether to report the `least_epsilon` of the graph, too.

    Returns
    -------
    GraphSolution

    Raises
    ------
    NotApplicableError
        If there is no such z; the message gives the least ε for which there is.
    """
    phi, _ = given(problem, epsilon, prior)
    diagonal = tight_diagonal(phi)
    if diagonal is None:
        raise NotApplicableError(
            f"tight-constraints: no z >= 0 has Φz = 1 on workload {problem.graph.name!r} "
            f"({problem.graph.n} answers) at epsilon {epsilon:g}; the least epsilon for which "
            f"one does is {least_epsilon(problem.graph):.6f}"
        )
    least = {"least_epsilon": least_epsilon(problem.graph)} if find_least_epsilon else {}
    return from_noise(
        "tight-constraints", problem, epsilon, prior, phi * diagonal, own_numbers=least
    )


def tight_diagonal(phi: Array, alike: Classes | None = None) -> Array | None:
    """The z >= 0 with Φz = 1, shape (n,), or None: the check that a mechanism exists."""
    z = weights(phi, np.ones(len(phi)), alike)
    return None if z is None or z.min() < 0 else z


@lru_cache(maxsize=16)
def least_epsilon(graph: QueryGraph) -> float:
    """The least ε for which a tight-constraints mechanism exists, to 1e-6.

    By bisection on the check Φz = 1, z >= 0, as if it held for every ε above the least one
    (POST 2013, sections 5.1 and 6, say it does). At ln(2n) it does for certain: with E = Φ - I
    every row of E then sums to at most 1/2, and ``z = 1 - E1 + E²1 - ... >= 0``.

    POST 2013, section 6, states 0.8 for the sum query with u=150, v=5 and 0.9 for the 2-count
    query with u=30; the check that it names gives 0.968 and 1.136.

    Parameters
    ----------
    graph : QueryGraph
        Any query graph.

    Returns
    -------
    float
        0 where one exists for every ε down to 1e-3.
    """
    alike = classes(constraints(graph, _GENERIC), np.ones(graph.n))
    lowest, highest = _LEAST, math.log(2 * graph.n)
    if _exists(graph, lowest, alike):
        return 0.0
    while highest - lowest > _ACCURACY:
        middle = (lowest + highest) / 2
        lowest, highest = (lowest, middle) if _exists(graph, middle, alike) else (middle, highest)
    return highest


def _exists(graph: QueryGraph, epsilon: float, alike: Classes) -> bool:
    return tight_diagonal(constraints(graph, epsilon), alike) is not None
