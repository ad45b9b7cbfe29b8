"""COA against closed forms, its certificate, and an independent solver."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import total_error

import solvers


def bound(solution):
    return total_error(solution) / (1 + solution.notes["total_error_gap"])


def by_semidefinite_program(queries):
    gram = queries.T @ queries
    d = len(gram)
    X, Y = cp.Variable((d, d), symmetric=True), cp.Variable((d, d), symmetric=True)
    root = np.linalg.cholesky(gram)
    block = cp.bmat([[X, root], [root.T, Y]])
    program = cp.Problem(cp.Minimize(cp.trace(Y)), [block >> 0, cp.diag(X) <= 1])
    return program.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("d", [4, 9])
def test_prefix_against_the_semidefinite_program(d):
    queries = np.tri(d)
    result = solvers.solve("COA", queries, tol=1e-8, cg_steps=20)
    assert result.converged
    assert total_error(result) == pytest.approx(by_semidefinite_program(queries), rel=1e-6)


@given(st.integers(0, 10**6), st.integers(2, 8), st.floats(1e-3, 1e3))
def test_certificate_holds_and_units_do_not_matter(seed, d, scale):
    queries = np.random.default_rng(seed).normal(size=(d + 2, d))
    result = solvers.solve("COA", queries, tol=1e-6, cg_steps=30)
    assert result.converged
    assert 0 <= result.notes["total_error_gap"] + 1e-12 <= 1e-6
    np.testing.assert_allclose(result.privacy_profile, result.squared_privacy_cost, rtol=1e-12)
    best = solvers.solve("CA", queries, tol=1e-9)
    assert bound(result) <= total_error(best) * (1 + 1e-12)
    assert total_error(result) == pytest.approx(total_error(best), rel=2e-6)
    scaled = solvers.solve("COA", np.sqrt(scale) * queries, tol=1e-6, cg_steps=30)
    assert total_error(scaled) == pytest.approx(scale * total_error(result), rel=3e-6)
