"""Mechanisms from a strategy against the pseudo-inverse of KDD'16, eq. (2)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import check_written_out

from solvers import NotApplicableError
from solvers.problem import as_problem
from solvers.strategy import from_strategy


def by_pseudo_inverse(queries, targets, strategy):
    """Δ² that just meets the targets: ||S||_{2,inf}² times the largest variance ratio."""
    noise = np.square(queries @ np.linalg.pinv(strategy)).sum(axis=1)
    return np.square(strategy).sum(axis=0).max() * (noise / targets).max()


@given(st.integers(0, 10**6), st.integers(1, 7), st.integers(1, 6), st.integers(1, 9))
def test_equals_the_pseudo_inverse_whatever_the_ranks(seed, d, rank, rows):
    rng = np.random.default_rng(seed)
    strategy = rng.normal(size=(rows, min(rank, rows, d))) @ rng.normal(
        size=(min(rank, rows, d), d)
    )
    queries = rng.normal(size=(4, rows)) @ strategy
    targets = rng.uniform(0.5, 2.0, 4)
    solution = from_strategy("S", as_problem(queries, targets), strategy)
    expected = by_pseudo_inverse(queries, targets, strategy)
    assert solution.squared_privacy_cost == pytest.approx(expected, rel=1e-6)
    check_written_out(solution, 1e-6)


def test_a_query_outside_the_row_space_is_refused_with_its_number():
    problem = as_problem(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]))
    with pytest.raises(NotApplicableError, match=r"query 1 .* rank is 1 over 3 cells"):
        from_strategy("S", problem, np.array([[1.0, 1.0, 0.0]]))


@pytest.mark.parametrize("decades", [4, 7])
def test_an_ill_conditioned_strategy_keeps_its_accuracy(decades):
    """Gram matrices of condition 1e8 and 1e14: the second takes the way over the SVD."""
    rng = np.random.default_rng(5)
    left, right = (np.linalg.qr(rng.normal(size=(6, 6)))[0] for _ in range(2))
    strategy = left @ np.diag(np.logspace(0, -decades, 6)) @ right
    queries = rng.normal(size=(4, 6))
    solution = from_strategy("S", as_problem(queries), strategy)
    expected = by_pseudo_inverse(queries, np.ones(4), strategy)
    assert solution.squared_privacy_cost == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_the_scale_of_a_strategy_is_irrelevant(scale):
    found = from_strategy("mine", as_problem(np.tri(4)), scale * np.eye(4))
    assert found.squared_privacy_cost == pytest.approx(4.0)
