"""Randomised response on the answers of a query graph."""

from solvers.graph.randomised_response import solve
from solvers.mechanism import Mechanism

MECHANISMS = (
    Mechanism(
        "randomised-response",
        "the true answer of a query graph or any other, whatever the graph",
        source="Warner, JASA 60 (1965), for n answers",
        solve_graph=solve,
    ),
)
