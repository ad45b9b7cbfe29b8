"""Bases of the query space: W = L B, their ranks, and what each is for."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import workloads
from solvers import OptionError
from solvers.problem import as_problem
from solvers.soft_max import basis


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else matrix


@pytest.mark.parametrize("kind", basis.KINDS)
@given(seed=st.integers(0, 10_000))
def test_w_is_l_b_with_independent_rows(kind, seed):
    rng = np.random.default_rng(seed)
    shape = int(rng.integers(1, 9)), int(rng.integers(1, 9))
    matrix = rng.integers(-2, 3, size=shape).astype(float)
    matrix[0, 0] = 1.0
    found = basis.factor(as_problem(matrix, rng.uniform(0.5, 2.0, len(matrix))), kind)
    np.testing.assert_allclose(dense(found.representation) @ found.basis, matrix, atol=1e-8)
    assert np.linalg.matrix_rank(found.basis) == len(found.basis)
    assert len(found.basis) == np.linalg.matrix_rank(matrix)


def test_two_entries_of_a_range_in_the_triangular_bases():
    ranges = as_problem(workloads.make("all-range", d=6))
    for kind in ("upper-triangular", "lower-triangular"):
        found = basis.factor(ranges, kind)
        assert np.all(np.count_nonzero(dense(found.representation), axis=1) <= 2)
    np.testing.assert_array_equal(
        basis.factor(ranges, "upper-triangular").basis, np.triu(np.ones((6, 6)))
    )


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


def test_ranges_keep_two_entries_where_their_rank_is_low():
    ranges = workloads.make("range", d=64, seed=0).dense
    rank = np.linalg.matrix_rank(ranges)
    found = basis.factor(as_problem(ranges), "upper-triangular")
    assert found.basis.shape == (rank, 64)
    assert rank < 64
    assert np.all(np.count_nonzero(dense(found.representation), axis=1) <= 2)


def test_workload_basis_is_made_of_queries():
    matrix = np.array([[1.0, 1, 0], [2, 2, 0], [0, 0, 3], [1, 1, 3]])
    found = basis.factor(as_problem(matrix), "workload")
    assert len(found.basis) == 2
    assert all(any(np.array_equal(row, query) for query in matrix) for row in found.basis)


def test_row_space_basis_is_orthonormal():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(7, 3)) @ rng.normal(size=(3, 5))
    rows = basis.factor(as_problem(matrix), "row-space").basis
    np.testing.assert_allclose(rows @ rows.T, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("rank", [4, 2])
def test_factor_basis_makes_the_geometric_mean_the_identity(rank):
    """There mean_i b_i b_iᵀ, the H of equal weights, is mean_j v_jᵀ v_j / c_j, the G."""
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(6, rank)) @ rng.normal(size=(rank, 4))
    targets = rng.uniform(1, 2, 6)
    found = basis.factor(as_problem(matrix, targets), "factor")
    rows = dense(found.representation) / np.sqrt(targets)[:, None]
    np.testing.assert_allclose(found.basis @ found.basis.T / 4, rows.T @ rows / 6, atol=1e-10)


def test_an_unknown_basis_is_refused():
    with pytest.raises(OptionError, match="there is no basis 'fourier'"):
        basis.factor(as_problem(np.eye(2)), "fourier")


@pytest.mark.parametrize("kind", basis.KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_queries_far_smaller_than_others_are_kept_too(kind, seed):
    rng = np.random.default_rng(seed)
    m, d = (4, 7) if seed % 2 else (8, 5)
    matrix = rng.standard_normal((m, d)) * 10.0 ** rng.uniform(-6, 6, m)[:, None]
    found = basis.factor(as_problem(matrix), kind)
    off = np.linalg.norm(dense(found.representation) @ found.basis - matrix, axis=1)
    assert np.all(off <= 1e-10 * np.linalg.norm(matrix, axis=1))


def test_a_cell_that_no_query_sees_is_in_no_row_of_a_basis():
    """A singular value decomposition leaves rounding errors there."""
    for seed in range(50):
        rng = np.random.default_rng(seed)
        counts = (rng.random((4, 14)) < 0.3).astype(float)
        matrix = counts[rng.integers(0, 4, 7)]
        unseen = ~matrix.any(axis=0)
        if matrix.any() and unseen.any():
            assert np.all(as_problem(matrix).basis[:, unseen] == 0)
