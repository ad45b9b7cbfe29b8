"""Geometric and Laplace noise on query matrices: sensitivity, variances, budgets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvers

PREFIX = np.tril(np.ones((5, 5)))


VARIANCES = {
    "geometric": lambda epsilon: 2 * np.exp(-epsilon) / (1 - np.exp(-epsilon)) ** 2,
    "laplace": lambda epsilon: 2 / epsilon**2,
}


@pytest.mark.parametrize("mechanism", VARIANCES)
@given(st.integers(0, 10**6), st.floats(0.05, 5))
def test_variances_and_sensitivities(mechanism, seed, epsilon):
    """The largest column divides the budget of the queries; rows multiply the noise on the data."""
    variance, targets = VARIANCES[mechanism], np.array([1.0, 2.0, 3.0, 4.0])
    queries = np.random.default_rng(seed).integers(-3, 4, (4, 6)) + np.eye(4, 6)
    on_queries = solvers.solve(mechanism, queries, targets)
    ratio = on_queries.curve.variance_ratio_at_budget(epsilon, 0.0)
    assert ratio == pytest.approx(variance(epsilon / np.abs(queries).sum(axis=0).max()))
    np.testing.assert_allclose(on_queries.query_variances, 1.0)
    on_data, norms = solvers.solve(mechanism, queries, targets, on="data"), (queries**2).sum(axis=1)
    ratio = on_data.curve.variance_ratio_at_budget(epsilon, 0.0)
    assert ratio == pytest.approx(variance(epsilon) * np.max(norms / targets))
    assert np.max(on_data.query_variances / targets) == pytest.approx(1.0)
    np.testing.assert_allclose(on_data.query_variances, norms * variance(on_data.noise.epsilon))


@given(st.floats(0.01, 50))
def test_it_never_needs_more_than_laplace_noise(target):
    geometric = solvers.solve("geometric", PREFIX, target)
    assert geometric.noise.epsilon < solvers.solve("laplace", PREFIX, target).noise.epsilon
