"""The graph of databases."""

import numpy as np

from workloads.family import Family
from workloads.graphs import QueryGraph, from_relation, power, refuse_many_answers
from workloads.parameters import check_size


def build(u: int, values: int) -> QueryGraph:
    """All databases of u individuals with one of ``values`` values each.

    Two are adjacent where one individual differs. The query is the database itself, so the
    leakage of a mechanism is about the database (POST 2013, section 4.3).
    """
    check_size("workload 'hamming': u", u, 1)
    check_size("workload 'hamming': values", values, 2)
    refuse_many_answers("hamming", power(values, u), "lower u or values")
    same = np.eye(values, dtype=bool)
    relation = ~same
    for _ in range(u - 1):
        others_same = np.eye(len(relation), dtype=bool)
        relation = np.kron(~same, others_same) | np.kron(same, relation)
    return from_relation("hamming", relation, np.ndindex(*(values,) * u))


FAMILY = Family(
    "hamming",
    "query graph of all databases of u individuals, adjacent where one differs",
    build,
    source="POST 2013, section 4.3",
    kind="graph",
)
