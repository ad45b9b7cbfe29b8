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

_ACCURACY = 1e-7


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


def tight_diagonal(phi: Array) -> Array | None:
    """The z >= 0 with Φz = 1, shape (n,), or None: the check that a mechanism exists."""
    sums = phi.sum(axis=1)
    if np.ptp(sums) <= 4 * np.finfo(float).eps * len(phi) * sums[0]:
        return np.full(len(phi), 1.0 / float(sums.mean()))
    z = weights(phi, np.ones(len(phi)))
    return None if z is None or z.min() < 0 else z


@lru_cache(maxsize=16)
def least_epsilon(graph: QueryGraph) -> float:
    """The least ε for which a tight-constraints mechanism exists, to 1e-6.

    By bisection on the check Φz = 1, z >= 0, as if it held for every ε above the least one
    (POST 2013, sections 5.1 and 6, say it does). Where every row of Φ has an off-diagonal sum
    of at most 1/2 it holds for certain, since then ``z = 1 - E1 + E²1 - ... >= 0`` with E = Φ - I.

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
    lowest, highest = 1e-3, _surely(graph)
    if tight_diagonal(constraints(graph, lowest)) is not None:
        return 0.0
    while highest - lowest > _ACCURACY:
        middle = (lowest + highest) / 2
        if tight_diagonal(constraints(graph, middle)) is None:
            lowest = middle
        else:
            highest = middle
    return highest


def _surely(graph: QueryGraph) -> float:
    """An ε for which Φz = 1 has a solution z >= 0 for certain."""
    return math.log(2 * graph.n)
