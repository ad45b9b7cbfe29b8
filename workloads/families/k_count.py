"""A bundle of counting queries."""

from functools import reduce

import numpy as np

from workloads.families.counting import within
from workloads.family import Family
from workloads.graphs import QueryGraph, on_grid, power, refuse_many_answers
from workloads.parameters import check_size


def build(u: int, k: int = 2) -> QueryGraph:
    """How many of u individuals have each of k properties: the grid {0, ..., u}^k.

    One individual changes every count by at most 1, so answers are adjacent where they are
    neighbours as a chess king moves (distance: Chebyshev's).
    """
    check_size("workload 'k-count': u", u, 1)
    check_size("workload 'k-count': k", k, 1)
    refuse_many_answers("k-count", power(u + 1, k), "lower u or k")
    return on_grid("k-count", reduce(np.kron, [within(u + 1, 1)] * k), (u + 1,) * k)


FAMILY = Family(
    "k-count",
    "query graph of k counts of the same u individuals",
    build,
    source="POST 2013, section 6, Figure 5(b)",
    kind="graph",
)
