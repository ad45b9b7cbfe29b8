"""The exponential smoothing mechanism: its gradient, its certificate, never below CA."""

import numpy as np
import pytest
from baselines import least_total_error, random_queries
from hypothesis import given
from hypothesis import strategies as st
from oracles import check_written_out, total_error

import solvers


@given(st.integers(0, 10_000), st.integers(0, 60))
def test_its_certificate_holds_wherever_it_stops(seed, steps):
    queries = random_queries(seed)
    targets = np.random.default_rng(seed).uniform(0.1, 10, len(queries))
    solution = solvers.solve("ESM", queries, targets, max_iterations=steps)
    least = least_total_error(queries)
    claimed = solution.notes["total_error_gap"]
    assert least * (1 - 1e-7) <= total_error(solution) <= least * (1 + claimed) * (1 + 1e-9)
    assert solution.converged == (claimed <= 1e-2)
    assert np.max(solution.query_variances / targets) == pytest.approx(1.0)
    check_written_out(solution)
