"""A sum query."""

from workloads.families.counting import within
from workloads.family import Family
from workloads.graphs import QueryGraph, on_grid, refuse_many_answers
from workloads.parameters import check_size


def build(u: int, v: int) -> QueryGraph:
    """The sum over u individuals of a value in 0, ..., v: answers at most v apart are adjacent."""
    check_size("workload 'sum': u", u, 1)
    check_size("workload 'sum': v", v, 1)
    answers = u * v + 1
    refuse_many_answers("sum", answers, "lower u or v")
    return on_grid("sum", within(answers, v), (answers,))


FAMILY = Family(
    "sum",
    "query graph of the sum of u values, each from 0 to v",
    build,
    source="POST 2013, section 6, Figure 5(a)",
    kind="graph",
)
