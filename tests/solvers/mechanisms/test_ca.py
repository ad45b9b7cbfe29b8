"""CA and its weightings, COA as a second computation, and AM by a conic solver."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import least_total_error, random_problem, total_error
from scipy.linalg import hadamard

import solvers
import workloads
from benchmarks.adversary.problems import draw


def weighted_error(solution, omega):
    """Weighted total error at Δ² = 1."""
    return solution.squared_privacy_cost * float(omega @ solution.query_variances)


@pytest.mark.parametrize(("d", "least"), [(256, 1631.4), (512, 3842.2)])
def test_prefix_total_error(d, least):
    solution = solvers.solve("CA", workloads.make("prefix", d=d))
    assert weighted_error(solution, np.ones(d)) == pytest.approx(least, abs=0.1)
    assert solution.notes["total_error_gap"] <= 1e-8


@given(st.integers(0, 10_000))
def test_dual_and_coa_agree(seed):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(9, 6))
    targets = rng.uniform(1, 10, 9)
    for name in ("CA", "wCA-I", "wCA-II"):
        dual = solvers.solve(name, matrix, targets)
        omega = targets ** -{"CA": 0.0, "wCA-I": 2.0, "wCA-II": 1.0}[name]
        weighted = np.sqrt(omega)[:, None] * matrix
        coa = solvers.solve("COA", weighted)
        assert coa.converged
        np.testing.assert_allclose(coa.privacy_profile, coa.squared_privacy_cost, rtol=1e-12)
        least = coa.squared_privacy_cost * coa.total_variance
        assert weighted_error(dual, omega) == pytest.approx(least, rel=2e-6)


@pytest.mark.parametrize("factor", [1.0, 7.3, 0.01])
def test_the_gap_is_that_of_the_noise_handed_out(factor):
    """Rows over twenty decades: the factors round by more than the dual's own gap."""
    case = draw(44000239)
    plain = solvers.solve("CA", case.workload, case.targets)
    scaled = solvers.solve("CA", workloads.from_matrix(case.matrix * factor), case.targets)
    ones = np.ones(case.workload.m)
    apart = weighted_error(scaled, ones) / (weighted_error(plain, ones) * factor**2) - 1
    stated = plain.notes["total_error_gap"] + scaled.notes["total_error_gap"]
    assert abs(apart) <= stated + 1e-9


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
    queries, _ = random_problem(seed)
    plain = solvers.solve("AM", queries, complete=False)
    complete = solvers.solve("AM", queries)
    assert plain.converged
    assert least_total_error(queries) <= total_error(complete) * (1 + 1e-7)
    assert total_error(complete) <= total_error(plain) * (1 + 1e-9)
    np.testing.assert_allclose(complete.privacy_profile, complete.squared_privacy_cost, rtol=1e-6)
