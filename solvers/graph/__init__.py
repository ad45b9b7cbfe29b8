"""Mechanisms on query graphs: noise matrices of finite queries (POST 2013)."""

from solvers.graph.problem import GraphProblem, as_graph_problem

__all__ = ["GraphProblem", "as_graph_problem"]
