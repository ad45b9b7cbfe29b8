"""`interior-point`: agreement with a closed form and with `optimal`."""

import numpy as np
import pytest
from baselines import random_queries
from hypothesis import given
from hypothesis import strategies as st

import solvers
import workloads


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
