"""The problems: a workload or query graph with its targets, in a basis of its row space.

Input: queries, targets, neighbours. Output: a checked `Problem` or `GraphProblem`.
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
