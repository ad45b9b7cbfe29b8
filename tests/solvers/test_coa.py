"""COA against closed forms, its certificate, and an independent solver."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.algorithms.coa import certified_lower_bound, coa


def total_error(X, gram):
    return np.trace(np.linalg.solve(X, gram)) * np.diag(X).max()


def by_semidefinite_program(gram):
    d = len(gram)
    X, Y = cp.Variable((d, d), symmetric=True), cp.Variable((d, d), symmetric=True)
    root = np.linalg.cholesky(gram)
    block = cp.bmat([[X, root], [root.T, Y]])
    program = cp.Problem(cp.Minimize(cp.trace(Y)), [block >> 0, cp.diag(X) <= 1])
    return program.solve(solver=cp.CLARABEL)


def test_identity_is_its_own_strategy():
    result = coa(np.eye(5))
    assert result.objective == pytest.approx(5.0, rel=1e-12)
    np.testing.assert_allclose(result.X, np.eye(5), atol=1e-9)


def test_the_total_alone_costs_one_in_spite_of_rank_one():
    result = coa(np.ones((4, 4)), tol=1e-4, cg_steps=20)
    assert result.converged
    assert 1.0 <= result.objective <= 1.0001


@pytest.mark.parametrize("d", [4, 9])
def test_prefix_against_the_semidefinite_program(d):
    queries = np.tril(np.ones((d, d)))
    expected = by_semidefinite_program(queries.T @ queries)
    result = coa(queries.T @ queries, tol=1e-8, cg_steps=20)
    assert result.converged
    assert result.objective == pytest.approx(expected, rel=1e-6)


@given(st.integers(0, 10**6), st.integers(2, 8), st.floats(1e-3, 1e3))
def test_certificate_holds_and_units_do_not_matter(seed, d, scale):
    rng = np.random.default_rng(seed)
    queries = rng.normal(size=(d + 2, d))
    gram = queries.T @ queries
    result = coa(gram, tol=1e-6, cg_steps=30)
    assert result.converged
    assert result.objective == pytest.approx(total_error(result.X, gram), rel=1e-8)
    np.testing.assert_allclose(np.diag(result.X), 1.0, atol=1e-12)
    rounding = 1 + 1e-12
    assert result.lower_bound <= result.objective * rounding
    assert result.objective <= (1 + 1e-6) * result.lower_bound * rounding
    scaled = coa(scale * gram, tol=1e-6, cg_steps=30)
    assert scaled.objective == pytest.approx(scale * result.objective, rel=3e-6)
    anyone = rng.normal(size=(d, d))
    assert certified_lower_bound(gram, rng.uniform(size=d)) <= total_error(anyone.T @ anyone, gram)


def test_published_stopping_rule_runs_its_iterations_and_says_so():
    queries = np.tril(np.ones((32, 32)))
    gram = queries.T @ queries
    published = coa(gram, homotopy=False, theta=1e-3, tol=0.0, max_iterations=30)
    assert published.iterations == 30
    assert not published.converged
    assert published.lower_bound <= coa(gram).objective < published.objective


def test_out_of_time_is_reported_with_a_feasible_answer():
    queries = np.tril(np.ones((16, 16)))
    result = coa(queries.T @ queries, time_limit=0.0)
    assert result.timed_out
    assert not result.converged
    assert result.objective == pytest.approx(total_error(result.X, queries.T @ queries))
