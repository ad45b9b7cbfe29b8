"""Mechanisms on query graphs: noise matrices of finite queries (POST 2013)."""

from solvers.graph.problem import GraphProblem, as_graph_problem
from solvers.graph.solution import GraphSolution

__all__ = ["GraphProblem", "GraphSolution", "as_graph_problem"]
