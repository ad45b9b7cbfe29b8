"""The Gaussian mechanism against its formula: noise of one variance on every query."""

import numpy as np
import pytest
import scipy.sparse as sp

import solvers


def test_prefix_costs_the_first_column_over_the_least_target():
    solution = solvers.solve("GM", np.tril(np.ones((5, 5))), [2.0, 3.0, 4.0, 5.0, 6.0])
    assert solution.squared_privacy_cost == pytest.approx(5 / 2)
    np.testing.assert_allclose(solution.query_variances, 2.0)


def test_a_great_many_queries_take_no_square_memory():
    queries = sp.random_array((60_000, 3), density=0.5, rng=np.random.default_rng(0), format="csr")
    solution = solvers.solve("GM", queries)
    assert solution.covariance.shape == (60_000, 60_000)
    first, last = np.lib.array_utils.byte_bounds(solution.covariance)
    assert last - first < 10**6
    assert solution.squared_privacy_cost == pytest.approx(queries.power(2).sum(axis=0).max())
