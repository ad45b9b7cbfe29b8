"""The mechanism of ElSalamouny et al. (POST 2013); on query matrices, truncated geometric noise.

On a query matrix it applies where the answers of each query form a line: entries 0 and one
other value a, so that n records give answers 0, a, ..., n a and one record moves an answer
by one step. On a line the tight-constraints mechanism is the truncated geometric one
(section 5.1). The queries are composed: one record of cell j moves every query that has it,
each by one step, and of one step clamped geometric noise loses what unclamped noise does: the
loss is ε or -ε of a step, by the side of the output.
"""

import numpy as np
import scipy.sparse as sp

from solvers.accounting.convolution import GEOMETRIC
from solvers.accounting.distributions import TruncatedGeometric
from solvers.accounting.moves import one_column
from solvers.errors import NotApplicableError, OptionError
from solvers.graph import tight_constraints as graph
from solvers.independent.noise import calibrated
from solvers.mechanism import Mechanism
from solvers.problem import Problem
from solvers.reductions.differences import OnDifferences, as_asked
from solvers.solution import Solution
from workloads.operators import Array, Matrix

COMPOSITIONS = ("sensitivity", "equal")


def solve(
    problem: Problem,
    *,
    n: int = 1000,
    composition: str = "sensitivity",
    measure: str = "variance",
) -> Solution:
    """Truncated geometric noise of one parameter on every query.

    Parameters
    ----------
    problem : Problem
        The workload and its targets; every query's entries are 0 and one other value.
    n : int
        The largest number of records: answers are steps 0..n.
    composition : {"sensitivity", "equal"}
        What each query spends: ε over the largest number of queries that one record is in,
        or ε/m (sequential composition, without a look at W).
    measure : {"variance", "expected-squared-error"}
        What the targets bound at the worst answer. Clamping biases the answers near the
        ends, and only the expected squared error counts that. They differ where ε is small:
        at ε = 0 they are n²/4 and n²/2.

    Returns
    -------
    Solution
        Its variances are those of the worst answer of each query.

    Raises
    ------
    NotApplicableError
        If the answers of a query form no line.
    OptionError
        If an option is none of the above.
    """
    if composition not in COMPOSITIONS:
        raise OptionError(
            f"tight-constraints: option 'composition' is {composition!r}; expected one of "
            f"{', '.join(COMPOSITIONS)}"
        )
    matrix = problem.workload.matrix
    steps = _steps(problem, matrix)
    queries = _queries_per_record(problem) if composition == "sensitivity" else problem.workload.m
    decoder = sp.csr_array(sp.diags_array(steps))
    truncated = TruncatedGeometric(n, measure)
    moved = one_column(GEOMETRIC, queries)
    noise = calibrated(problem, truncated, float(queries), decoder, moved)
    return Solution("tight-constraints", problem, noise, notes={"queries_composed": queries})


def _steps(problem: Problem, matrix: Matrix) -> Array:
    """The one value other than 0 of each query."""
    entries = sp.coo_array(matrix)
    entries.eliminate_zeros()
    rows = entries.coords[0]
    steps = np.zeros(problem.workload.m)
    steps[rows] = entries.data
    uneven = np.flatnonzero(entries.data != steps[rows])
    if uneven.size:
        row = rows[uneven[0]]
        raise NotApplicableError(
            f"tight-constraints: query {row} (counted from 0) of workload "
            f"{problem.workload.name!r} has entries {entries.data[uneven[0]]:g} and "
            f"{steps[row]:g}; expected 0 and one other value, so that its answers form a line "
            "0..n. Use 'geometric', or ask the query as a query graph"
        )
    return steps


def _queries_per_record(problem: Problem) -> int:
    """The largest number of queries that one record is in, or that one moves by moving."""
    if problem.neighbours.add_remove:
        return int(np.bincount(sp.coo_array(problem.workload.matrix).nonzero()[1]).max())
    moved = problem.neighbours.differences(problem.workload.dense)
    return max(int(np.count_nonzero(part, axis=0).max()) for part in moved)


MECHANISMS = (
    Mechanism(
        "tight-constraints",
        "noise with every privacy constraint tight; counts by truncated geometric noise",
        solve,
        forms=(OnDifferences(as_asked(solve)),),
        source="ElSalamouny et al., section 5",
        solve_graph=graph.solve,
    ),
)
