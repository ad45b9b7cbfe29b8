"""The (ε, δ) curve of independent noise: closed forms, direct sums, and its own bracket."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

import solvers
from solvers.privacy.privacy_loss import GEOMETRIC, LAPLACE, find_moves, one_column

DELTAS = (1e-1, 1e-3, 1e-6, 1e-10)


def delta_of_binary(epsilon, step, queries):
    """δ(ε) of randomised response on this many bits, each with a step's ε: a binomial sum."""
    with mp.workdps(60):
        p = 1 / (1 + mp.exp(-step))
        terms = (
            mp.binomial(queries, k)
            * p ** (queries - k)
            * (1 - p) ** k
            * max(0, 1 - mp.exp(epsilon - (queries - 2 * k) * mp.mpf(step)))
            for k in range(queries + 1)
        )
        return mp.fsum(terms)


def epsilon_by_sums(shifts, step, delta):
    """δ(ε) of geometric noise on a few queries, with every output written out."""
    span = np.arange(-60, 61)
    alpha = np.exp(-step)
    first = second = np.ones(1)
    for shift in shifts:
        here = alpha ** np.abs(span) * (1 - alpha) / (1 + alpha)
        there = alpha ** np.abs(span - shift) * (1 - alpha) / (1 + alpha)
        first = np.multiply.outer(first, here).ravel()
        second = np.multiply.outer(second, there).ravel()

    def excess(epsilon):
        return np.maximum(first - np.exp(epsilon) * second, 0).sum() - delta

    return optimize.brentq(excess, 0, sum(shifts) * step) if excess(0) > 0 else 0.0


def delta_of_two_laplaces(epsilon, first, second):
    """By quadrature over the loss of one query; the other one by its closed form."""

    def alone(budget, shift):
        if budget >= shift:
            return 0.0
        if budget <= -shift:
            return -np.expm1(budget)
        return -np.expm1((budget - shift) / 2)

    inner = integrate.quad(
        lambda loss: np.exp((loss - first) / 2) / 4 * alone(epsilon - loss, second),
        -first,
        first,
        points=sorted({np.clip(epsilon - s, -first, first) for s in (second, -second)}),
        epsabs=1e-14,
        epsrel=1e-12,
    )[0]
    atoms = alone(epsilon - first, second) + np.exp(-first) * alone(epsilon + first, second)
    return inner + atoms / 2


@given(st.floats(0.01, 30), st.sampled_from(DELTAS))
@example(0.25, 0.1)  # at 0.2, its first digit, ε is 0
@example(0.2107, 0.1)
def test_one_laplace_number_has_a_closed_form(step, delta):
    """δ = 1 - exp((ε - shift) / 2)."""
    found = one_column(LAPLACE, 1).epsilon(step, delta)
    exact = max(0.0, step + 2 * np.log1p(-delta))
    assert found.lower <= exact * (1 + 1e-9) + 1e-12
    assert found.upper >= exact * (1 - 1e-12)
    assert found.upper - found.lower <= 1e-3 * step


@pytest.mark.parametrize("queries", [1, 2, 7, 64])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9, 1e-14])
def test_one_step_on_every_query_is_randomised_response(queries, delta):
    step = 2.0 / queries
    found = one_column(GEOMETRIC, queries).epsilon(step, delta)
    assert found.upper - found.lower <= 1e-8 * found.upper
    assert delta_of_binary(found.upper, step, queries) <= delta * (1 + 1e-9)
    if found.lower > 0:
        assert delta_of_binary(found.lower, step, queries) >= delta * (1 - 1e-6)


@pytest.mark.parametrize("shifts", [(1,), (3,), (1, 2), (2, 2), (1, 5)])
@pytest.mark.parametrize("delta", [0.1, 1e-3, 1e-5])
def test_geometric_noise_by_summation_over_all_outputs(shifts, delta):
    matrix = np.array(shifts, dtype=float)[:, None]
    found = find_moves(GEOMETRIC, matrix).epsilon(0.7, delta)
    exact = epsilon_by_sums(shifts, 0.7, delta)
    assert found.lower - 1e-7 <= exact <= found.upper + 1e-7
    assert found.upper - found.lower <= 1e-7


@pytest.mark.parametrize("shifts", [(1.0, 1.0), (1.0, 0.25), (2.0, 3.0), (0.3, np.sqrt(2))])
def test_two_laplace_numbers_by_quadrature(shifts):
    found = find_moves(LAPLACE, np.array(shifts)[:, None])
    for delta in DELTAS:
        bracket = found.epsilon(0.8, delta)
        scaled = 0.8 * np.array(shifts)
        assert delta_of_two_laplaces(bracket.upper, *scaled) <= delta * (1 + 1e-8)
        if bracket.lower > 0:
            assert delta_of_two_laplaces(bracket.lower, *scaled) >= delta * (1 - 1e-8)
        assert bracket.upper - bracket.lower <= 1e-3 * bracket.upper


@given(
    st.integers(0, 10**6),
    st.sampled_from([GEOMETRIC, LAPLACE]),
    st.floats(0.02, 4),
    st.sampled_from(DELTAS),
)
def test_the_bracket_is_tight_and_below_the_composition(seed, noise, pure, delta):
    matrix = np.random.default_rng(seed).integers(-3, 4, size=(12, 9))
    matrix[0, 0] = 3
    found = find_moves(noise, matrix)
    assert found.largest_sum == np.abs(matrix).sum(axis=0).max()
    bracket = found.epsilon(pure / found.largest_sum, delta)
    assert 0 <= bracket.lower <= bracket.upper <= pure * (1 + 1e-12)
    assert bracket.upper - bracket.lower <= 1e-3 * bracket.upper + 1e-9


@pytest.mark.parametrize("noise", [GEOMETRIC, LAPLACE])
def test_the_step_of_a_budget_inverts_epsilon(noise):
    found = find_moves(noise, np.array([[1, 2, 0], [1, 0, 2], [1, 1, 1]]))
    for epsilon in (0.05, 1.0, 8.0):
        for delta in (1e-2, 1e-6):
            step = found.step(epsilon, delta)
            assert found.epsilon(step, delta).upper <= epsilon * (1 + 2e-4)
            assert found.epsilon(step * 1.001, delta).upper > epsilon * (1 - 2e-4)
            assert step >= epsilon / found.largest_sum * (1 - 1e-12)
    for epsilon in (1e-50, 1e-100, 1e-300):
        step = found.step(epsilon, 0.5)
        assert epsilon / found.largest_sum * (1 - 1e-12) <= step
        assert step <= found.step(1e-10, 0.5) * (1 + 2e-4), "a smaller budget, a smaller step"


@pytest.mark.parametrize("noise", [GEOMETRIC, LAPLACE])
def test_many_columns_are_bounded_by_moments(noise):
    """Above the value for each of them by convolution; more so for small ε."""
    matrix = np.random.default_rng(1).integers(0, 30, size=(30, 60))
    many = find_moves(noise, matrix)
    assert many.crowded
    for step, delta, loose in ((3e-3, 1e-5, 1.1), (6e-4, 1e-3, 1.25), (0.02, 1e-9, 1.05)):
        bracket = many.epsilon(step, delta)
        alone = max(find_moves(noise, matrix[:, [j]]).epsilon(step, delta).lower for j in range(60))
        assert bracket.lower <= alone * (1 + 1e-9)
        assert alone <= bracket.upper
        assert bracket.upper <= loose * bracket.lower
        assert many.epsilon(many.step(bracket.upper, delta), delta).upper <= bracket.upper * (
            1 + 1e-9
        )


def test_a_lattice_that_is_too_large_leaves_the_composition():
    assert find_moves(GEOMETRIC, np.array([[10.0**9, 1.0]])) is None
    solution = solvers.solve("geometric", np.array([[10.0**9, 1.0]]), 1e18)
    assert solution.curve.epsilon_at_targets(1e-5) == solution.noise.epsilon


def test_samples_lose_no_more_than_the_curve_says():
    """Log-likelihood ratios of drawn geometric noise: their mean excess is δ."""
    rng, step, shifts = np.random.default_rng(4), 0.3, (1, 2, 2)
    noise = rng.geometric(-np.expm1(-step), (2, 3, 200_000))
    z = noise[0] - noise[1]
    loss = sum(step * (np.abs(z[i] - s) - np.abs(z[i])) for i, s in enumerate(shifts))
    epsilon = find_moves(GEOMETRIC, np.array(shifts)[:, None]).epsilon(step, 0.05).upper
    excess = np.maximum(0, 1 - np.exp(epsilon - loss))
    error = stats.norm.ppf(0.999) * excess.std() / np.sqrt(excess.size)
    assert abs(excess.mean() - 0.05) <= error
