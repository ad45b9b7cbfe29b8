"""Simulated noise against the closed forms, and the interval against its own promise."""

from dataclasses import replace

import numpy as np
import pytest

import solvers
import workloads
from solvers import simulate as module
from solvers.gaussian.factorisation import multiplied
from solvers.simulate import simulate

PREFIX = np.tril(np.ones((6, 6)))
TARGETS = np.arange(1.0, 7.0)
RATIO = "empirical_variance_ratio"


def holds(found, truth):
    return found[f"{RATIO}_low"] <= truth <= found[f"{RATIO}_high"]


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [
        ("GM", {}),
        ("IP", {}),
        ("HM", {}),
        ("optimal", {}),
        ("fisher", {}),
        ("geometric", {}),
        ("geometric", {"on": "data"}),
        ("laplace", {}),
        ("laplace", {"on": "data"}),
        ("tight-constraints", {"n": 7}),
        ("tight-constraints", {"n": 7, "measure": "expected-squared-error"}),
        ("fisher-bounded", {"on": "data", "slope": 3.0}),
    ],
)
def test_the_interval_holds_the_targets(mechanism, options):
    found = simulate(solvers.solve(mechanism, PREFIX, TARGETS, **options), 20_000, seed=4)
    assert holds(found, 1.0)
    assert found[RATIO] == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize(
    ("family", "params"),
    [("counting", {"n": 6}), ("k-count", {"k": 2, "u": 2}), ("cycle", {"n": 5})],
)
def test_a_query_graph_has_the_variance_of_its_rows(family, params):
    graph = workloads.make(family, **params)
    solution = solvers.solve("tight-constraints", graph, 3.0, epsilon=1.5)
    assert holds(simulate(solution, 5000, seed=2), solution.noise.variance_ratio)


def test_rows_are_drawn_with_their_own_frequencies():
    solution = solvers.solve("geometric", workloads.make("counting", n=2), epsilon=0.5)
    drawn = solution.draw(30_000, np.random.default_rng(0))
    means = solution.noise.matrix @ np.arange(3)
    for answer in range(3):
        for output in range(3):
            share = np.mean(np.isclose(drawn[:, answer], output - means[answer]))
            assert share == pytest.approx(solution.noise.matrix[answer, output], abs=0.015)


def test_marginals_are_drawn_in_subset_variables_or_refused():
    small = workloads.make("marginals", attributes=3, values=3, orders=[1, 2])
    assert holds(simulate(solvers.solve("optimal", small), 5000, seed=0), 1.0)
    large = workloads.make("marginals", attributes=12, values=3, orders=[1, 2])
    assert holds(simulate(solvers.solve("optimal", large), 2000, seed=0), 1.0)
    unlisted = workloads.make("marginals", attributes=100, values=10, orders=[3])
    with pytest.raises(solvers.NotApplicableError, match="too many to draw"):
        simulate(solvers.solve("CA", unlisted), 10, seed=0)


def louder(noise, factor):
    """The same noise at another variance, answers unchanged."""
    return replace(noise, decoder=multiplied(noise.decoder, factor**0.5))


def test_a_wrong_variance_is_found_out():
    solution = solvers.solve("optimal", PREFIX, TARGETS)
    inflated = replace(solution, noise=louder(solution.noise, 1.3))
    assert simulate(inflated, 20_000, seed=1)[f"{RATIO}_low"] > 1.0
    shrunk = replace(solution, noise=louder(solution.noise, 0.7))
    assert simulate(shrunk, 20_000, seed=1)[f"{RATIO}_high"] < 1.0


def test_the_seed_decides():
    solution = solvers.solve("laplace", PREFIX)
    assert simulate(solution, 100, seed=3) == simulate(solution, 100, seed=3)
    assert simulate(solution, 100, seed=3) != simulate(solution, 100, seed=4)
    assert simulate(solution, 100, seed=2**79) == simulate(solution, 100, seed=2**79)


def test_chunks_change_nothing(monkeypatch):
    solution = solvers.solve("optimal", PREFIX)
    whole = simulate(solution, 50, seed=3)
    monkeypatch.setattr(module, "_CHUNK_ENTRIES", 42)
    pieces = simulate(solution, 50, seed=3)
    assert pieces == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("mechanism", ["GM", "laplace"])
def test_the_interval_keeps_its_promise(mechanism):
    """A level of 0.99 for the larger of two equal ratios, in 400 independent tries."""
    solution = solvers.solve(mechanism, np.eye(2))
    missed = sum(not holds(simulate(solution, 200, seed), 1.0) for seed in range(400))
    assert missed <= 12


def test_a_great_many_queries_take_no_square_memory():
    queries = np.random.default_rng(0).integers(0, 2, (40_000, 3)).astype(float)
    assert holds(simulate(solvers.solve("GM", queries), 40, seed=0), 1.0)


def test_two_vectors_at_least():
    with pytest.raises(solvers.OptionError, match="at least 2"):
        simulate(solvers.solve("GM", PREFIX), 1, seed=0)
