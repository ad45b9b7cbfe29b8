"""The mechanism of greatest utility for a prior, by linear programming."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from solvers.errors import NotApplicableError, SolveFailedError
from solvers.graph.noise_matrix import from_noise, given
from solvers.graph.problem import GraphProblem
from solvers.graph.randomised_response import randomised_response
from solvers.solution import Solution
from workloads import QueryGraph
from workloads.operators import Array
from workloads.parameters import PriorText
from workloads.priors import UNIFORM

LARGEST = 100
"""Answers; the linear programme has n² variables and 2 n constraints for each edge."""

_TIME_LIMIT_REACHED = 1
_TOLERANCE = 1e-10
"""The least that HiGHS takes."""


def solve(
    problem: GraphProblem,
    *,
    epsilon: float = 1.0,
    prior: PriorText | list[float] = UNIFORM,
    time_limit: float | None = None,
) -> Solution:
    """Maximise ``sum_i prior[i] X[i, i]`` over all ε-differentially private X, with HiGHS.

    Outputs are answers and no remap is needed, since any remap of an ε-private mechanism is one
    (POST 2013, section 4.1). What HiGHS leaves of constraint violations is removed by mixing
    with the uniform distribution, so X is ε-differentially private to rounding.

    Parameters
    ----------
    problem : GraphProblem
        At most `LARGEST` answers.
    epsilon : float
        ε.
    prior : str or list of float, shape (n,)
        What to be optimal for, too; see `workloads.priors`.
    time_limit : float, optional
        Seconds; when they are over the answer is randomised response, not converged.

    Returns
    -------
    Solution
        ``notes["mixed_in"]``: the weight of the uniform distribution.

    Raises
    ------
    NotApplicableError
        If there are more answers.
    SolveFailedError
        If HiGHS fails.
    """
    graph = problem.graph
    if graph.n > LARGEST:
        raise NotApplicableError(
            f"lp-optimal: workload {graph.name!r} has {graph.n} answers and its linear programme "
            f"{graph.n**2} variables; it applies up to {LARGEST} answers"
        )
    _, probabilities = given(problem, epsilon, prior)
    found = linprog(
        -np.diag(probabilities).ravel(),
        options={
            "time_limit": np.inf if time_limit is None else float(time_limit),
            "primal_feasibility_tolerance": _TOLERANCE,
            "dual_feasibility_tolerance": _TOLERANCE,
        },
        **_constraints(graph, epsilon),
    )
    if found.status == _TIME_LIMIT_REACHED:
        noise = randomised_response(graph.n, epsilon)
        return from_noise(
            "lp-optimal", problem, epsilon, prior, noise, converged=False, timed_out=True
        )
    if found.x is None or found.status != 0:
        raise SolveFailedError(f"lp-optimal: HiGHS says: {found.message}")
    noise, mixed_in = _repaired(found.x.reshape(graph.shape), graph, epsilon)
    return from_noise(
        "lp-optimal",
        problem,
        epsilon,
        prior,
        noise,
        iterations=int(found.nit),
        notes={"mixed_in": mixed_in},
    )


def _constraints(graph: QueryGraph, epsilon: float) -> dict[str, Any]:
    """Rows that sum to 1, and X[h, o] <= exp(ε) X[i, o] along every edge, both ways."""
    n, outputs = graph.n, sp.eye_array(graph.n)
    first, second = np.hstack([graph.edges, graph.edges[::-1]])
    edge = np.arange(len(first))
    factor = np.repeat([1.0, -np.exp(epsilon)], len(edge))
    ends = (np.concatenate([edge, edge]), np.concatenate([first, second]))
    differences = sp.coo_array((factor, ends), shape=(len(edge), n))
    return {
        "A_ub": sp.csr_array(sp.kron(differences, outputs)),
        "b_ub": np.zeros(len(edge) * n),
        "A_eq": sp.csr_array(sp.kron(outputs, np.ones((1, n)))),
        "b_eq": np.ones(n),
    }


def _repaired(approximate: Array, graph: QueryGraph, epsilon: float) -> tuple[Array, float]:
    """The nearest mixture with the uniform distribution that breaks no constraint."""
    noise = np.maximum(approximate, 0)
    noise /= noise.sum(axis=1, keepdims=True)
    first, second = graph.edges
    factor = np.exp(epsilon)
    excess = np.maximum(
        noise[first] - factor * noise[second], noise[second] - factor * noise[first]
    )
    needed = max(float(excess.max()), 0.0) * graph.n / (factor - 1)
    weight = float(needed / (1 + needed))
    return (1 - weight) * noise + weight / graph.n, weight
