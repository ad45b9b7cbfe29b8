"""The tight-constraints mechanism, and for which ε there is one (POST 2013, section 5)."""

import numpy as np

from solvers.errors import NotApplicableError
from solvers.graph.existence import existence, least_epsilon
from solvers.graph.noise_matrix import from_noise, given
from solvers.problem import GraphProblem
from solvers.solution import Solution
from workloads.operators import Array
from workloads.parameters import PriorText
from workloads.priors import UNIFORM, weights


def solve(
    problem: GraphProblem,
    *,
    epsilon: float = 1.0,
    prior: PriorText | list[float] = UNIFORM,
    find_least_epsilon: bool = False,
) -> Solution:
    """``X[i, k] = exp(-epsilon * d(i, k)) * z[k]`` with Φz = 1 and z >= 0 (Lemma 3).

    It is optimal for every ε-regular prior (Theorem 3).

    Parameters
    ----------
    prior : str or list of float, shape (n,)
        For the measures; see `workloads.priors`.
    find_least_epsilon : bool
        Whether to report the `least_epsilon` of the graph, too.

    Raises
    ------
    NotApplicableError
        If there is no such z; the message says for which ε, from the least on, there is.
    """
    phi, _ = given(problem, epsilon, prior)
    diagonal = tight_diagonal(phi)
    if diagonal is None:
        raise NotApplicableError(
            f"tight-constraints: no z >= 0 has Φz = 1 on workload {problem.graph.name!r} "
            f"({problem.graph.n} answers) at epsilon {epsilon:g}; one does for epsilon "
            f"{_in_words(existence(problem.graph))}"
        )
    least = {"least_epsilon": least_epsilon(problem.graph)} if find_least_epsilon else {}
    return from_noise("tight-constraints", problem, epsilon, prior, phi * diagonal, measures=least)


def tight_diagonal(phi: Array) -> Array | None:
    """The z >= 0 with Φz = 1, shape (n,), or None: the check that a mechanism exists."""
    z = weights(phi, np.ones(len(phi)))
    return None if z is None or z.min() < 0 else z


def _in_words(ranges: tuple[tuple[float, float], ...]) -> str:
    """From 0.1 to 0.2 and from 0.5 on."""
    return " and ".join(
        f"from {least:.6f}" + (" on" if most == np.inf else f" to {most:.6f}")
        for least, most in ranges
    )
