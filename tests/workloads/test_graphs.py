"""Query graphs against their definitions."""

import itertools

import numpy as np
import pytest

import workloads
from workloads import WorkloadError
from workloads.graphs import from_edges, from_relation


def induced(query, databases):
    """The answers in order, and Definition 3's adjacency between them."""
    answers = sorted({query(database) for database in databases})
    number = {answer: at for at, answer in enumerate(answers)}
    relation = np.zeros((len(answers),) * 2, dtype=bool)
    for one, other in itertools.product(databases, repeat=2):
        differing = sum(a != b for a, b in zip(one, other, strict=True))
        if differing == 1 and query(one) != query(other):
            relation[number[query(one)], number[query(other)]] = True
    return [str(answer) for answer in answers], relation


@pytest.mark.parametrize(
    ("name", "params", "values", "u", "query"),
    [
        ("counting", {"n": 4}, range(2), 4, sum),
        ("sum", {"u": 3, "v": 3}, range(4), 3, sum),
        (
            "k-count",
            {"u": 3, "k": 2},
            list(itertools.product(range(2), repeat=2)),
            3,
            lambda rows: tuple(sum(column) for column in zip(*rows, strict=True)),
        ),
        ("cycle", {"n": 5}, range(2), 5, lambda rows: sum(rows) % 5),
        ("hamming", {"u": 2, "values": 3}, range(3), 2, lambda rows: rows),
    ],
)
def test_adjacency_is_that_of_the_databases(name, params, values, u, query):
    labels, relation = induced(query, list(itertools.product(values, repeat=u)))
    made = workloads.make(name, **params)
    assert list(made.labels) == labels
    assert (made.adjacency.toarray() == relation).all()
    assert ((made.distances == 1) == relation).all()


def test_an_edge_list_is_read_from_a_file(tmp_path):
    file = tmp_path / "edges.txt"
    file.write_text("# a path\n10 9\n9, 2   # and back\n2 9\n\n2 b\n")
    made = workloads.make("edge-list", path=str(file))
    assert made.labels == ("10", "9", "2", "b")
    assert made.distances[0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: workloads.make("cycle", n=2), r"n is 2; expected a whole number \(at least 3"),
        (lambda: workloads.make("k-count", u=10**6), "lower u or k"),
        (lambda: workloads.make("hamming", u=40, values=4), "lower u or values"),
        (lambda: workloads.make("edge-list"), "either a path or the edges"),
        (lambda: workloads.make("edge-list", path="/nowhere"), "cannot be read"),
        (lambda: from_edges([(1, 2), (3, 3)]), "edge 1 .* expected two different answers"),
        (lambda: from_edges([(1, 2), (3, 4)]), "no path leads from answer '1' to '3'"),
        (lambda: from_edges([]), "0 answers"),
        (lambda: from_relation("x", np.triu(np.ones((3, 3), bool)), "abc"), "a symmetric matrix"),
    ],
)
def test_wrong_graphs_are_refused(make, sentence):
    with pytest.raises(WorkloadError, match=sentence):
        make()
