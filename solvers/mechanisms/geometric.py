"""Two-sided geometric noise calibrated to the 1-norm sensitivity: pure ε-differential privacy.

Ghosh, Roughgarden and Sundararajan (STOC 2009). On a query matrix the noise is not clamped,
so it is unbiased; with α = exp(-ε / sensitivity) its variance is 2 α / (1 - α)². On a query
graph it is clamped to the answers (`solvers.graph.geometric`).
"""

import numpy as np
import scipy.sparse as sp

from solvers.accounting.distributions import Geometric
from solvers.errors import NotApplicableError
from solvers.graph import geometric as graph
from solvers.independent.perturbation import QUERIES, perturbed
from solvers.mechanism import Mechanism
from solvers.problem import Problem
from solvers.reductions.differences import OnDifferences, as_asked
from solvers.solution import Solution


def solve(problem: Problem, *, on: str = QUERIES) -> Solution:
    """Independent geometric noise of one parameter on every query, or on every cell of x.

    On the queries the target of an all-zero one counts too, although its answer 0 needs no noise.

    Parameters
    ----------
    problem : Problem
        The workload and its targets; all entries of W whole numbers.

    Raises
    ------
    NotApplicableError
        If an entry of W is no whole number: its answers are not on the noise's lattice.
    """
    matrix = problem.workload.matrix
    entries = matrix.data if sp.issparse(matrix) else matrix
    broken = entries[entries != np.rint(entries)]
    if broken.size:
        raise NotApplicableError(
            f"geometric: workload {problem.workload.name!r} has an entry of {broken.flat[0]:g}; "
            "expected whole numbers, whose answers are whole too. Use 'laplace' for real "
            "entries, or scale the queries"
        )
    return Solution("geometric", problem, perturbed("geometric", problem, Geometric(), on))


MECHANISMS = (
    Mechanism(
        "geometric",
        "two-sided geometric noise on every query or on every cell of x; pure ε",
        solve,
        forms=(OnDifferences(as_asked(solve)),),
        source="Ghosh et al., STOC 2009; ElSalamouny et al., section 6",
        solve_graph=graph.solve,
    ),
)
