"""Simulated noise against closed forms, and the interval against its own promise."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import solvers
import workloads
from solvers.noise.draws import simulate
from solvers.noise.factorisation import multiplied
from solvers.noise.independent import AtEpsilon
from solvers.noise.information import CosineSquared
from solvers.privacy.distributions import Geometric, Laplace, TruncatedGeometric

PREFIX = np.tril(np.ones((6, 6)))
TARGETS = np.arange(1.0, 7.0)
RATIO = "empirical_variance_ratio"


def holds(found, truth):
    return found[f"{RATIO}_low"] <= truth <= found[f"{RATIO}_high"]


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [
        ("HM", {}),
        ("optimal", {}),
        ("geometric", {}),
        ("geometric", {"on": "data"}),
        ("laplace", {}),
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
    assert holds(simulate(solution, 5000, seed=2), solution.noise.variance_ratio_at_budget)


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


@pytest.mark.parametrize("n", [10, 50])
@pytest.mark.parametrize(
    ("mechanism", "target", "options"),
    [
        ("GM", 1.0, {}),
        ("laplace", 1.0, {}),
        ("geometric", 0.3, {}),
        ("tight-constraints", 2.0, {"n": 7, "measure": "expected-squared-error"}),
        ("fisher-bounded", 1.0, {}),
    ],
)
def test_the_interval_keeps_its_promise(mechanism, target, options, n):
    """It misses in at most 1 % of tries: no more than the 99.9 % quantile of a binomial number."""
    solution = solvers.solve(mechanism, np.eye(1), target, **options)
    missed = sum(not holds(simulate(solution, n, seed), 1.0) for seed in range(300))
    assert missed <= stats.binom.isf(1e-3, 300, 0.01)


@pytest.mark.parametrize(
    "source",
    [
        AtEpsilon(Laplace(), 0.5),
        AtEpsilon(Geometric(), 0.02),
        AtEpsilon(TruncatedGeometric(9), 0.7),
        AtEpsilon(TruncatedGeometric(7, "expected-squared-error"), 1.0),
        AtEpsilon(TruncatedGeometric(10**6, "expected-squared-error"), 1e-5),
        CosineSquared(-1.0, 1.0, tilt=-4.0),
        CosineSquared(0.0, 1.0, tilt=1e4),
    ],
)
def test_moments_are_those_of_the_draws(source):
    drawn = source.sample((200_000,), np.random.default_rng(1))
    if isinstance(source, CosineSquared):
        drawn = drawn - source.mean
    drawn = drawn / source.variance**0.5
    for power, moment in zip((3, 4, 6), source.moments, strict=True):
        spread = np.std(drawn**power) / len(drawn) ** 0.5
        assert moment == pytest.approx(np.mean(drawn**power), abs=6 * spread + 1e-9)


@pytest.mark.parametrize("mechanism", ["geometric", "tight-constraints"])
@pytest.mark.parametrize("target", [1e-12, 1e-4])
def test_noise_that_is_hardly_ever_drawn_has_no_interval_that_excludes_the_truth(mechanism, target):
    solution = solvers.solve(mechanism, np.eye(40), target)
    assert all(holds(simulate(solution, 500, seed), 1.0) for seed in range(20))


def test_rows_are_drawn_with_their_own_frequencies():
    solution = solvers.solve("geometric", workloads.make("counting", n=2), epsilon=0.5)
    drawn = solution.draw(30_000, np.random.default_rng(0))
    means = solution.noise.matrix @ np.arange(3)
    for answer in range(3):
        for output in range(3):
            share = np.mean(np.isclose(drawn[:, answer], output - means[answer]))
            assert share == pytest.approx(solution.noise.matrix[answer, output], abs=0.015)
