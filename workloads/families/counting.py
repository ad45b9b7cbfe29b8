"""A counting query."""

import numpy as np

from workloads.family import Family
from workloads.graphs import QueryGraph, Relation, on_grid, refuse_many_answers
from workloads.parameters import check_size


def build(n: int) -> QueryGraph:
    """How many of n individuals have a property: the line 0, 1, ..., n."""
    check_size("workload 'counting': n", n, 1)
    refuse_many_answers("counting", n + 1, "lower n")
    return on_grid("counting", within(n + 1, 1), (n + 1,))


def within(answers: int, distance: int) -> Relation:
    """Which of the whole numbers below ``answers`` differ by at most ``distance``."""
    number = np.arange(answers)
    near: Relation = np.abs(number[:, None] - number) <= distance
    return near


FAMILY = Family(
    "counting",
    "query graph of a count of n individuals: the line 0 to n",
    build,
    source="POST 2013, section 2.1, Figure 1",
    kind="graph",
)
