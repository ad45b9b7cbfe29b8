"""Section 5.1 of PVLDB 14(10) and Theorems 6 and 7 of arXiv v1, by their closed forms."""

import numpy as np
import pytest

import solvers
import workloads


def numbers(a, e, d):
    """Variances of a cell and of the total, and Δ², for Σ with eigenvalues a and (once) e."""
    return ((d - 1) * a + e) / d, d * e, ((d - 1) / a + 1 / e) / d


def identity_sum(mechanism, d, k):
    queries = workloads.make("identity-sum", d=d)
    return solvers.solve(mechanism, queries, workloads.targets.make("total", queries, k=k))


@pytest.mark.parametrize(
    ("d", "k"), [(2, 1.0), (7, 1.0), (32, 1.0), (2, 1.9), (7, 1.9), (8, 3.0), (64, 20.0)]
)
def test_fitness_for_use_meets_both_targets_with_equality(d, k):
    cell, total, cost = numbers((d - k / d) / (d - 1), k / d, d)
    assert (cell, total) == (pytest.approx(1.0), pytest.approx(k))
    assert identity_sum("optimal", d, k).squared_privacy_cost == pytest.approx(cost, rel=2e-6)


def test_theorems_6_and_7_of_two_queries():
    pair = np.array([[1.0, 1.0], [1.0, 0.0]])
    ca, optimal = (solvers.solve(name, pair) for name in ("CA", "optimal"))
    assert optimal.squared_privacy_cost == pytest.approx(4 / 3, rel=2e-6)
    first, second = ca.query_variances * ca.squared_privacy_cost  # at β = 1
    assert first == pytest.approx(1 + 1 / np.sqrt(5), rel=1e-4)
    assert second == pytest.approx(0.5 + 0.3 * np.sqrt(5), rel=1e-4)
    low_rank = solvers.solve("LRM", pair, tol=1e-8)
    for least in (first + second, low_rank.total_variance * low_rank.squared_privacy_cost):
        assert least == pytest.approx(1.5 + np.sqrt(5) / 2, rel=1e-6)
    assert first * 3 / 4 == pytest.approx(1.0854, abs=1e-4)  # printed as 1.08
