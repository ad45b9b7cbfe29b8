"""Problems: a workload or a query graph with its variance targets.

Input: queries, targets and the relation of neighbouring databases. Output: a checked `Problem` or
`GraphProblem`.
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
