"""The exponential smoothing mechanism: its gradient, its certificate, never below CA."""

import numpy as np
import pytest
from baselines import least_total_error, random_queries
from hypothesis import given
from hypothesis import strategies as st
from oracles import check_written_out, total_error
from scipy.special import logsumexp

import solvers
from solvers.mechanisms.esm import descend, start
from solvers.problem.row_space import singular_rows


def smoothed_error(queries, gram, mu):
    """Eq. (6) with its soft maximum, over all cells."""
    columns = np.diag(gram)
    return mu * logsumexp(columns / mu) * np.trace(queries @ np.linalg.inv(gram) @ queries.T)


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


def test_objective_and_gradient_are_those_of_the_definition():
    queries = np.random.default_rng(1).normal(size=(6, 4))
    program, first = start(*singular_rows(queries), 0.1)
    point = next(descend(program, first))
    rows, small = program.rows, 1e-6
    gram = rows.T @ point.Y @ rows
    assert point.smoothed == pytest.approx(smoothed_error(queries, gram, program.mu), rel=1e-9)
    assert point.exact == pytest.approx(
        gram.diagonal().max() * np.trace(queries @ np.linalg.inv(gram) @ queries.T), rel=1e-9
    )
    for i, j in np.ndindex(4, 4):
        bump = np.zeros((4, 4))
        bump[i, j] += small / 2
        bump[j, i] += small / 2
        up, down = (
            smoothed_error(queries, rows.T @ (point.Y + side * bump) @ rows, program.mu)
            for side in (1, -1)
        )
        scale = np.abs(point.gradient).max()
        slope = (up - down) / (2 * small)
        assert point.gradient[i, j] == pytest.approx(slope, abs=1e-6 * scale)
