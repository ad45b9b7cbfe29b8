"""A query graph with its variance target."""

from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import ArrayLike

from workloads import QueryGraph, TargetsError
from workloads.given import masked_count
from workloads.operators import Array


@dataclass(frozen=True, eq=False)
class GraphProblem:
    """A query graph with its target: what mechanisms on query graphs solve.

    Attributes
    ----------
    target : float
        The bound on the variance of the reported answer at the worst true answer.
    """

    graph: QueryGraph
    target: float = 1.0

    @property
    def title(self) -> str:
        """The graph's name and size."""
        return f"query graph {self.graph.name!r} ({self.graph.n} answers)"

    @property
    def targets(self) -> Array:
        """The target of every error, shape (1,)."""
        return np.array([self.target])


def as_graph_problem(graph: QueryGraph, targets: ArrayLike | None = None) -> GraphProblem:
    """Check a variance target and join it to its query graph.

    Parameters
    ----------
    targets : array_like, shape (1,) or scalar, optional
        The variance bound; 1 if not given.

    Raises
    ------
    TargetsError
        If it is not one positive finite number.
    """
    try:
        values = np.asarray(1.0 if targets is None else targets, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise TargetsError(f"target of workload {graph.name!r} is not a number: {error}") from None
    if (
        values.size != 1
        or masked_count(targets)
        or not (isfinite(values.item()) and values.item() > 0)
    ):
        raise TargetsError(
            f"targets {values.tolist()} for workload {graph.name!r}; expected one positive finite "
            "bound on the variance at the worst answer"
        )
    return GraphProblem(graph, values.item())
