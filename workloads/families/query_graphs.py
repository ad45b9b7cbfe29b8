"""Families of query graphs: counts, sums, cycles, databases, and lists of edges."""

from functools import reduce
from typing import Annotated

import numpy as np

from workloads.errors import WorkloadError
from workloads.family import Family
from workloads.graphs import (
    QueryGraph,
    Relation,
    from_edges,
    from_relation,
    power,
    refuse_many_answers,
)
from workloads.parameters import LARGEST_SIZE, Bounds, FilePath, Size, read_text


@Family.of("counting", source="POST 2013, section 2.1, Figure 1", kind="graph")
def counting(n: Size) -> QueryGraph:
    """Query graph of a count of n individuals: the path 0, 1, ..., n."""
    refuse_many_answers("counting", n + 1, "lower n")
    return from_relation("counting", within(n + 1, 1), range(n + 1), (n + 1,))


def within(answers: int, distance: int) -> Relation:
    """Adjacency matrix of the answers 0, 1, ..., ``answers`` - 1.

    Two answers are adjacent if they differ by at most ``distance``.
    """
    number = np.arange(answers)
    return np.asarray(np.abs(number[:, None] - number) <= distance)


@Family.of("sum", source="POST 2013, section 6, Figure 5(a)", kind="graph")
def sum_query(u: Size, v: Size) -> QueryGraph:
    """Query graph of the sum of u numbers from 0 to v; sums at most v apart are adjacent."""
    answers = u * v + 1
    refuse_many_answers("sum", answers, "lower u or v")
    return from_relation("sum", within(answers, v), range(answers), (answers,))


@Family.of("k-count", source="POST 2013, section 6, Figure 5(b)", kind="graph")
def k_count(u: Size, k: Size = 2) -> QueryGraph:
    """Query graph of k counts of the same u individuals: the grid {0, ..., u}^k.

    One individual changes every count by at most 1, so two answers are adjacent if their Chebyshev
    distance is 1.
    """
    refuse_many_answers("k-count", power(u + 1, k), "lower u or k")
    relation, grid = reduce(np.kron, [within(u + 1, 1)] * k), (u + 1,) * k
    return from_relation("k-count", relation, np.ndindex(*grid), grid)


@Family.of("cycle", source="POST 2013, section 2.1, Figure 1", kind="graph")
def cycle(n: Annotated[int, Bounds(ge=3, le=LARGEST_SIZE)]) -> QueryGraph:
    """Query graph of a count modulo n: a cycle of n answers."""
    refuse_many_answers("cycle", n, "lower n")
    number = np.arange(n)
    return from_relation("cycle", np.isin((number[:, None] - number) % n, [1, n - 1]), number)


@Family.of("hamming", source="POST 2013, section 4.3", kind="graph")
def hamming(u: Size, values: Annotated[int, Bounds(ge=2, le=LARGEST_SIZE)]) -> QueryGraph:
    """Query graph of all databases of u individuals; two are adjacent if one individual differs.

    Every individual has one of ``values`` values. The answer is the whole database, so leakage
    about the answer is leakage about the database (POST 2013, section 4.3).
    """
    refuse_many_answers("hamming", power(values, u), "lower u or values")
    same = np.eye(values, dtype=bool)
    relation = ~same
    for _ in range(u - 1):
        others_same = np.eye(len(relation), dtype=bool)
        relation = np.kron(~same, others_same) | np.kron(same, relation)
    return from_relation("hamming", relation, np.ndindex(*(values,) * u))


@Family.of("edge-list", source="POST 2013, Definition 3", kind="graph")
def edge_list(path: FilePath | None = None, edges: list[list[int]] | None = None) -> QueryGraph:
    """Query graph with the edges that a text file or a list contains.

    Each line of the file is an edge: two answers separated by blanks or a comma. The character #
    starts a comment.
    """
    if (path is None) is (edges is None):
        said = "workload 'edge-list': give either a path or the edges, not both"
        raise WorkloadError(said, "edges")
    if edges is not None:
        return from_edges(edges)
    advice = "expected a text file with two answers on each line"
    text = read_text("workload 'edge-list':", str(path), advice)
    lines = (line.partition("#")[0].replace(",", " ").split() for line in text.splitlines())
    return from_edges(filter(None, lines))
