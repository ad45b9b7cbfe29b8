"""The adaptive mechanism: eq. (5) of KDD'16 by a conic solver, closed forms, orderings."""

import cvxpy as cp
import numpy as np
import pytest
from baselines import least_total_error, random_queries
from hypothesis import given
from hypothesis import strategies as st
from oracles import total_error
from scipy.linalg import hadamard

import solvers


def least_over_eigen_query_weights(queries):
    """Eq. (5): the best squared weights of the right singular vectors."""
    _, singular, rows = np.linalg.svd(queries, full_matrices=False)
    rank = np.sum(singular > 1e-10 * singular[0])
    singular, rows = singular[:rank], rows[:rank]
    u = cp.Variable(rank, pos=True)
    objective = cp.sum(cp.multiply(singular**2, cp.inv_pos(u)))
    problem = cp.Problem(cp.Minimize(objective), [np.square(rows).T @ u <= 1])
    return problem.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rank", [3, 7])
def test_weights_agree_with_a_conic_solver(seed, rank):
    rng = np.random.default_rng(seed)
    queries = rng.normal(size=(7, rank)) @ rng.normal(size=(rank, 5 + seed % 3))
    solution = solvers.solve("AM", queries, complete=False, tol=1e-9)
    assert solution.converged
    expected = least_over_eigen_query_weights(queries)
    assert total_error(solution) == pytest.approx(expected, rel=1e-6)


def test_flat_eigen_queries_reach_the_bound_of_the_matrix_mechanism():
    """If all |P_ij| are equal, the optimum of (5) is the squared nuclear norm over d."""
    singular = np.array([1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0])
    queries = singular[:, None] * hadamard(8) / np.sqrt(8)
    solution = solvers.solve("AM", queries)
    assert total_error(solution) == pytest.approx(singular.sum() ** 2 / 8, rel=1e-6)


@given(st.integers(0, 10_000))
def test_completed_columns_never_cost_anything(seed):
    queries = random_queries(seed)
    plain = solvers.solve("AM", queries, complete=False)
    complete = solvers.solve("AM", queries)
    assert plain.converged
    assert least_total_error(queries) <= total_error(complete) * (1 + 1e-7)
    assert total_error(complete) <= total_error(plain) * (1 + 1e-9)
    np.testing.assert_allclose(complete.privacy_profile, complete.squared_privacy_cost, rtol=1e-6)
