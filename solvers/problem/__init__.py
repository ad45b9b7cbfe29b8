"""What is solved: a workload or a query graph with its targets, in a basis of its row space.

In: queries, targets, neighbours. Out: a `Problem` or a `GraphProblem`, checked.
"""

from solvers.problem.problem import (
    GraphProblem,
    Problem,
    as_float,
    as_graph_problem,
    as_problem,
    check_targets,
)

__all__ = [
    "GraphProblem",
    "Problem",
    "as_float",
    "as_graph_problem",
    "as_problem",
    "check_targets",
]
