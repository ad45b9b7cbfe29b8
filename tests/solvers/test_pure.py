"""Noise on one number: variances by summation, privacy entry by entry, samples by frequency."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import gaussian_deviation
from scipy import integrate, stats

import solvers
import workloads
from solvers import privacy
from solvers.privacy.distributions import Geometric, Laplace, Measure, TruncatedGeometric


def clamped(n, epsilon):
    """The noise matrix of clamp(i + G, 0, n), by summing the tails of G."""
    alpha = np.exp(-epsilon)
    answers = np.arange(n + 1)
    matrix = alpha ** np.abs(answers[:, None] - answers) * -np.expm1(-epsilon) / (1 + alpha)
    matrix[:, 0] = alpha**answers / (1 + alpha)
    matrix[:, -1] = alpha ** (n - answers) / (1 + alpha)
    return matrix


def worst(n, epsilon, measure):
    answers = np.arange(n + 1)
    matrix = clamped(n, epsilon)
    squares = (matrix * np.square(answers[:, None] - answers)).sum(axis=1)
    bias = (matrix * (answers - answers[:, None])).sum(axis=1)
    return np.max(squares if measure == "expected-squared-error" else squares - bias**2)


@pytest.mark.parametrize("measure", get_args(Measure))
@given(n=st.integers(1, 60), log_epsilon=st.floats(-6, 0.7))
def test_truncated_variance_is_that_of_the_worst_answer(measure, n, log_epsilon):
    epsilon = 10**log_epsilon
    found = TruncatedGeometric(n, measure).variance(epsilon)
    assert found == pytest.approx(worst(n, epsilon, measure), rel=1e-9)


@pytest.mark.parametrize(
    "noise",
    [
        Geometric(),
        Laplace(),
        TruncatedGeometric(9),
        TruncatedGeometric(10, "expected-squared-error"),
    ],
)
@given(epsilon=st.floats(0.02, 8))
def test_epsilon_inverts_the_variance(noise, epsilon):
    assert noise.epsilon(float(noise.variance(epsilon))) == pytest.approx(epsilon, rel=1e-9)


def test_truncated_samples_have_the_frequencies_of_the_worst_row():
    noise = TruncatedGeometric(6, "expected-squared-error")
    for epsilon in (0.1, 1.0):
        answer = noise.worst_answer(epsilon)
        drawn = noise.sample(epsilon, (20_000,), np.random.default_rng(6)) + answer
        observed = np.bincount(drawn.astype(int), minlength=7)
        test = stats.chisquare(observed, clamped(6, epsilon)[answer] * drawn.size)
        assert test.pvalue > 1e-3


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


def test_fisher_information_by_quadrature():
    solution = solvers.solve("laplace", PREFIX, 2.0)
    scale = np.sqrt(solution.noise.source.variance / 2)
    score = integrate.quad(lambda z: np.exp(-z / scale) / scale**3, 0, 60 * scale)[0]
    assert solution.measures["fisher_information"] == pytest.approx(score * PREFIX.sum())
    data = solvers.solve("laplace", PREFIX, 2.0, on="data")
    assert data.measures["fisher_information"] * data.measures["cramer_rao_bound"] == (
        pytest.approx(25.0)
    )


@given(st.floats(0.01, 20), st.floats(1e-12, 0.5), st.floats(0.1, 10))
def test_proposition_4_suffices_as_a_standard_deviation_but_not_as_a_variance(
    epsilon, delta, sensitivity
):
    deviation = gaussian_deviation(sensitivity, epsilon, delta)
    assert privacy.delta(sensitivity / deviation, epsilon) <= delta * (1 + 1e-9)
    variance = gaussian_deviation(1.0, 0.5, 1e-5)
    assert privacy.delta(1.0 / np.sqrt(variance), 0.5) > 1e-5


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("n", [1, 4, 7])
def test_one_count_is_the_counting_query_graph(n, epsilon):
    """The mechanism of the line graph, from its diagonal system Φz = 1, has this variance."""
    graph = solvers.solve("tight-constraints", workloads.make("counting", n=n), epsilon=epsilon)
    count = solvers.solve("tight-constraints", [[1.0, 0.0, 1.0]], n=n)
    ratio = count.curve.variance_ratio_at_budget(epsilon, 0.0)
    assert ratio == pytest.approx(graph.noise.max_variance, rel=1e-9)


@given(st.floats(0.05, 6), st.integers(1, 50))
def test_clamping_never_adds_variance(epsilon, n):
    clamped = solvers.solve("tight-constraints", PREFIX, n=n).curve
    free = solvers.solve("geometric", PREFIX).curve
    assert clamped.variance_ratio_at_budget(epsilon, 0.1) <= free.variance_ratio_at_budget(
        epsilon, 0.1
    ) * (1 + 1e-12)


def test_scaled_counts_scale_their_errors():
    targets = np.array([1.0, 9.0])
    solution = solvers.solve("tight-constraints", [[1.0, 1.0], [3.0, 0.0]], targets, n=20)
    np.testing.assert_allclose(solution.query_variances, targets)


def test_a_long_line_is_the_geometric_mechanism():
    clamped = solvers.solve("tight-constraints", PREFIX, n=10_000)
    assert clamped.noise.epsilon == pytest.approx(solvers.solve("geometric", PREFIX).noise.epsilon)
