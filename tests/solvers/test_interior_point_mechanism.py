"""`interior-point`: Table 2, agreement with `optimal`, its certificate and its limits."""

import numpy as np
import pytest
from baselines import random_queries
from hypothesis import given
from hypothesis import strategies as st

import solvers
import workloads

PUBLISHED = {2: 1.33, 4: 1.76, 8: 2.28, 16: 2.91}
"""Table 2 of arXiv v1, squared privacy costs of prefix queries."""


@pytest.mark.parametrize("d", [2, 4, 8, 16])
def test_table_2(d):
    workload = workloads.make("prefix", d=d)
    solution = solvers.solve("interior-point", workload)
    assert solution.converged
    assert round(solution.squared_privacy_cost, 2) == PUBLISHED[d]
    certified = solvers.solve("optimal", workload, tol=1e-9)
    assert solution.squared_privacy_cost == pytest.approx(certified.squared_privacy_cost, rel=1e-6)


def test_identity_and_total_in_closed_form():
    """With unit targets the optimum is 2d/(d + 1)."""
    solution = solvers.solve("interior-point", workloads.make("identity-sum", d=7))
    assert solution.squared_privacy_cost == pytest.approx(14 / 8, rel=2e-7)


@given(st.integers(0, 10_000), st.sampled_from([0.0, 1.0, 3.0]))
def test_agrees_with_optimal_whatever_the_rank_and_the_spread(seed, decades):
    queries = random_queries(seed)
    targets = 10 ** np.random.default_rng(seed).uniform(-decades, decades, len(queries))
    solution = solvers.solve("interior-point", queries, targets)
    certified = solvers.solve("optimal", queries, targets, tol=1e-8)
    assert solution.converged
    assert solution.squared_privacy_cost == pytest.approx(certified.squared_privacy_cost, rel=1e-6)


@given(st.integers(0, 10_000), st.integers(0, 40))
def test_bounds_enclose_the_optimum_wherever_it_stops(seed, iterations):
    queries = random_queries(seed)
    stopped = solvers.solve("interior-point", queries, max_iterations=iterations)
    optimum = solvers.solve("optimal", queries, tol=1e-9)
    assert stopped.lower_bound <= optimum.squared_privacy_cost * (1 + 1e-9)
    assert stopped.squared_privacy_cost >= optimum.lower_bound * (1 - 1e-9)
    assert stopped.iterations <= iterations
