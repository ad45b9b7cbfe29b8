"""A cycle of answers."""

import numpy as np

from workloads.family import Family
from workloads.graphs import QueryGraph, from_relation, refuse_many_answers
from workloads.parameters import check_size


def build(n: int) -> QueryGraph:
    """Answers 0, ..., n - 1 in a circle: a count modulo n."""
    check_size("workload 'cycle': n", n, 3)
    refuse_many_answers("cycle", n, "lower n")
    number = np.arange(n)
    return from_relation("cycle", np.isin((number[:, None] - number) % n, [1, n - 1]), number)


FAMILY = Family(
    "cycle",
    "query graph of a count modulo n: a cycle of n answers",
    build,
    source="POST 2013, section 2.1, Figure 1",
    kind="graph",
)
