"""Gradient descent: it descends, it stays feasible, it ends near the optimum on Table 3."""

import numpy as np
import pytest
from baselines import random_queries
from hypothesis import given
from hypothesis import strategies as st

import solvers
import workloads


@pytest.mark.parametrize("d", [2, 4, 8, 16])
def test_prefix_queries_of_table_3(d):
    workload = workloads.make("prefix", d=d)
    solution = solvers.solve("GD", workload)
    optimum = solvers.solve("optimal", workload).squared_privacy_cost
    assert solution.converged
    assert optimum * (1 - 1e-6) <= solution.squared_privacy_cost <= optimum * (1 + 1e-3)


@given(st.integers(0, 10_000), st.integers(1, 200))
def test_wherever_it_stops_the_answer_is_feasible_and_no_better_than_the_optimum(seed, count):
    queries = random_queries(seed)
    targets = np.random.default_rng(seed).uniform(1, 10, len(queries))
    stopped = solvers.solve("GD", queries, targets, max_iterations=count)
    assert np.max(stopped.query_variances / targets) == pytest.approx(1.0)
    optimum = solvers.solve("optimal", queries, targets).lower_bound
    assert stopped.squared_privacy_cost >= optimum * (1 - 1e-9)
    assert stopped.iterations <= count
    assert stopped.converged == (stopped.gap <= 1e-3)
