"""Laplace noise, and Farokhi and Sandberg's comparison with it (Propositions 3 and 4)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import gaussian_deviation
from scipy import integrate

import solvers
from solvers import privacy

PREFIX = np.tril(np.ones((5, 5)))


def test_fisher_information_by_quadrature():
    solution = solvers.solve("laplace", PREFIX, 2.0)
    scale = np.sqrt(solution.noise.source.variance / 2)
    score = integrate.quad(lambda z: np.exp(-z / scale) / scale**3, 0, 60 * scale)[0]
    assert solution.measures["fisher_information"] == pytest.approx(score * PREFIX.sum())
    data = solvers.solve("laplace", PREFIX, 2.0, on="data")
    assert data.measures["fisher_information"] * data.measures["cramer_rao_bound"] == (
        pytest.approx(25.0)
    )


@given(st.integers(0, 10**6), st.floats(0.1, 10))
def test_for_one_query_it_tells_twice_as_much_as_the_gaussian(seed, target):
    """Section 5 of Farokhi and Sandberg: 2 CCᵀ/ϑ against CCᵀ/ϑ."""
    query = np.random.default_rng(seed).normal(size=(1, 5))
    laplace = solvers.solve("laplace", query, target).record()
    gaussian = solvers.solve("fisher", query, target).record()
    expected = float(np.sum(query**2)) / target
    assert gaussian["fisher_information"] == pytest.approx(expected)
    assert laplace["fisher_information"] == pytest.approx(2 * expected)


@given(st.floats(0.01, 20), st.floats(1e-12, 0.5), st.floats(0.1, 10))
def test_proposition_4_suffices_as_a_standard_deviation_but_not_as_a_variance(
    epsilon, delta, sensitivity
):
    deviation = gaussian_deviation(sensitivity, epsilon, delta)
    assert privacy.delta(sensitivity / deviation, epsilon) <= delta * (1 + 1e-9)
    variance = gaussian_deviation(1.0, 0.5, 1e-5)
    assert privacy.delta(1.0 / np.sqrt(variance), 0.5) > 1e-5
