"""Priors on the answers of a query graph, against their definitions."""

import math
from ast import literal_eval

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workloads
from workloads import WorkloadError, priors

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
