"""Noise on one number: variances by summation, privacy entry by entry, samples by frequency."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from solvers.errors import OptionError
from solvers.privacy.distributions import (
    Geometric,
    Laplace,
    Measure,
    TruncatedGeometric,
)


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


def test_impossible_lines_are_refused():
    for n in (0, 2.5):
        with pytest.raises(OptionError, match=f"n is {n}; .* whole number"):
            TruncatedGeometric(n)
