"""Query graphs and priors, against Definition 3, closed forms and POST 2013's propositions."""

import itertools
import math
from ast import literal_eval

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workloads
from workloads import WorkloadError, priors
from workloads.graphs import from_edges, from_relation

GRAPHS = {
    "counting": {"n": 5},
    "sum": {"u": 3, "v": 2},
    "k-count": {"u": 2, "k": 2},
    "cycle": {"n": 6},
    "hamming": {"u": 2, "values": 3},
    "edge-list": {"edges": [[0, 1], [1, 2], [1, 3]]},
}


@pytest.fixture(params=GRAPHS)
def graph(request):
    return workloads.make(request.param, **GRAPHS[request.param])


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


def test_named_priors(graph, tmp_path):
    values = np.arange(1, graph.n + 1) / np.arange(1, graph.n + 1).sum()
    np.save(tmp_path / "prior.npy", values)
    assert priors.make("uniform", graph, 1.0) == pytest.approx(np.full(graph.n, 1 / graph.n))
    text = ",".join(map(repr, values.tolist()))
    for prior in (f"file:{tmp_path / 'prior.npy'}", f"given:{text}", values, values.tolist()):
        assert priors.make(prior, graph, 1.0) == pytest.approx(values)


@pytest.mark.parametrize(
    ("prior", "sentence"),
    [
        ("unifrom", "did you mean 'uniform'"),
        ("corner:9", "has answers 0 to 5"),
        ("corner:x", "'corner:3': the corner prior"),
        ("random:-1", "expected non-negative integer"),
        ("given:1,1,0,0,0,0", "sum 2"),
        ([2, -1, 0, 0, 0, 0], "non-negative probabilities"),
        ("product:0.5,0.5", "has shape"),
        ("file:/nowhere.npy", "cannot be read"),
    ],
)
def test_wrong_priors_are_refused(prior, sentence):
    with pytest.raises(WorkloadError, match=sentence):
        priors.make(prior, workloads.make("counting", n=5), 1.0)


@given(st.sampled_from(sorted(GRAPHS)), st.floats(0.05, 4.0), st.integers(0, 2**32))
def test_random_regular_priors_have_the_papers_properties(name, epsilon, seed):
    graph = workloads.make(name, **GRAPHS[name])
    prior = priors.make(f"random:{seed}", graph, epsilon)
    distances = graph.distances
    assert prior.sum() == pytest.approx(1)
    assert priors.is_regular(prior, graph, epsilon)
    assert not priors.is_regular(np.eye(graph.n)[0], graph, epsilon)
    assert (prior[:, None] <= np.exp(epsilon * distances) * prior * (1 + 1e-9)).all()  # Prop. 2
    assert (prior * np.exp(epsilon * distances).sum(axis=1) >= 1 - 1e-9).all()  # Prop. 3
    assert (prior * np.exp(-epsilon * distances).sum(axis=1) <= 1 + 1e-9).all()
    assert (prior == priors.make(f"random:{seed}", graph, epsilon)).all()


@pytest.mark.parametrize("a", [0.5, 0.2, 1e-6])
def test_the_share_of_the_regular_priors_on_small_graphs(a):
    epsilon = -math.log(a)
    line, circle = workloads.make("counting", n=2), workloads.make("cycle", n=3)
    four = workloads.make("k-count", u=1, k=2)
    by_hand = (1 - a**2) ** 2 / ((1 + a + a**2) ** 2 * (1 + 2 * a))
    assert priors.regular_share(line, epsilon) == pytest.approx(by_hand)
    assert priors.regular_share(circle, epsilon) == pytest.approx(((1 - a) / (1 + 2 * a)) ** 2)
    assert priors.regular_share(four, epsilon) == pytest.approx(((1 - a) / (1 + 3 * a)) ** 3)


def test_corner_priors_are_rows_of_phi(graph):
    phi = np.exp(-0.7 * graph.distances)
    made = priors.make("corner:2", graph, 0.7)
    assert made == pytest.approx(phi[2] / phi[2].sum())
    y = priors.weights(phi, made)
    assert y == pytest.approx(np.eye(graph.n)[2] / phi[2].sum(), abs=1e-12)


def test_the_product_prior_is_that_of_independent_individuals():
    graph = workloads.make("hamming", u=3, values=2)
    databases = map(literal_eval, graph.labels)
    expected = [math.prod((0.3, 0.7)[value] for value in database) for database in databases]
    assert priors.make("product:0.3,0.7", graph, 1.0) == pytest.approx(expected)
