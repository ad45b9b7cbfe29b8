"""Bases of the query space: W = L B, their ranks, and their purposes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import random_problem

import workloads
from solvers.problem import as_problem
from solvers.soft_max import basis
from workloads.operators import dense


@pytest.mark.parametrize("kind", basis.KINDS)
@given(seed=st.integers(0, 10_000))
def test_w_is_l_b_with_independent_rows(kind, seed):
    matrix, targets = random_problem(seed, decades=0.3)
    found = basis.factor(as_problem(matrix, targets), kind)
    np.testing.assert_allclose(dense(found.representation) @ found.basis, matrix, atol=1e-8)
    assert np.linalg.matrix_rank(found.basis) == len(found.basis)
    assert len(found.basis) == np.linalg.matrix_rank(matrix)


@pytest.mark.parametrize(
    ("matrix", "kind"),
    [
        (np.tril(np.ones((5, 5))), "lower-triangular"),
        (np.triu(np.ones((5, 5))), "upper-triangular"),
        (np.eye(5), "identity"),
        (workloads.make("age").dense, "lower-triangular"),
        (workloads.make("random", d=32).dense, "identity"),
        (workloads.make("identity-sum", d=8).dense, "identity"),
        (workloads.make("pl94"), "identity"),
        (workloads.make("pl94").dense, "identity"),
    ],
)
def test_the_choice_of_the_papers(matrix, kind):
    assert basis.factor(as_problem(matrix), "paper").kind == kind


@pytest.mark.parametrize("rank", [4, 2])
def test_factor_basis_makes_the_geometric_mean_the_identity(rank):
    """There mean_i b_i b_iᵀ, the H of equal weights, is mean_j v_jᵀ v_j / c_j, the G."""
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(6, rank)) @ rng.normal(size=(rank, 4))
    targets = rng.uniform(1, 2, 6)
    found = basis.factor(as_problem(matrix, targets), "factor")
    rows = dense(found.representation) / np.sqrt(targets)[:, None]
    np.testing.assert_allclose(found.basis @ found.basis.T / 4, rows.T @ rows / 6, atol=1e-10)
