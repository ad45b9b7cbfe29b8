"""Two-sided geometric noise on query matrices: sensitivity, variances, budgets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvers

PREFIX = np.tril(np.ones((5, 5)))


def variance(epsilon):
    alpha = np.exp(-epsilon)
    return 2 * alpha / (1 - alpha) ** 2


def matrices(seed):
    return np.random.default_rng(seed).integers(-3, 4, (4, 6)) + np.eye(4, 6)


@given(st.integers(0, 10**6), st.floats(0.05, 5))
def test_on_the_queries_the_budget_is_split_by_the_largest_column(seed, epsilon):
    queries, targets = matrices(seed), np.array([1.0, 2.0, 3.0, 4.0])
    solution = solvers.solve("geometric", queries, targets)
    sensitivity = np.abs(queries).sum(axis=0).max()
    ratio = solution.curve.variance_ratio_at_budget(epsilon, 0.0)
    assert ratio == pytest.approx(variance(epsilon / sensitivity))
    np.testing.assert_allclose(solution.query_variances, 1.0)


@given(st.integers(0, 10**6), st.floats(0.05, 5))
def test_on_the_data_variances_grow_with_the_rows(seed, epsilon):
    queries, targets = matrices(seed), np.array([1.0, 2.0, 3.0, 4.0])
    solution = solvers.solve("geometric", queries, targets, on="data")
    norms = np.square(queries).sum(axis=1)
    ratio = solution.curve.variance_ratio_at_budget(epsilon, 0.0)
    assert ratio == pytest.approx(variance(epsilon) * np.max(norms / targets))
    assert np.max(solution.query_variances / targets) == pytest.approx(1.0)
    np.testing.assert_allclose(solution.query_variances, norms * variance(solution.noise.epsilon))


@pytest.mark.parametrize("on", ["queries", "data"])
def test_log_likelihoods_of_neighbours_differ_by_at_most_epsilon(on):
    """P(z) is α^|z|, so one record of cell j costs at most sum of |shift| times -log α."""
    solution = solvers.solve("geometric", PREFIX, on=on)
    shifts = PREFIX if on == "queries" else np.eye(5)
    spent = np.abs(shifts).sum(axis=0) * solution.noise.source.epsilon
    assert spent.max() == pytest.approx(solution.noise.epsilon)


@given(st.floats(0.01, 50))
def test_it_never_needs_more_than_laplace_noise(target):
    geometric = solvers.solve("geometric", PREFIX, target)
    assert geometric.noise.epsilon < solvers.solve("laplace", PREFIX, target).noise.epsilon
