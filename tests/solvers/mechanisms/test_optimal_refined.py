"""The unique answer of Problem 1, personal profile bounds and the hybrid with total error."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.linalg as sla
from hypothesis import given
from hypothesis import strategies as st
from oracles import check_written_out, hybrid, random_problem, refined_order

import solvers
import workloads


def least_next_entry(basis, rows, fixed, level, targets):
    """The least largest profile entry outside ``fixed``, those at most ``level``: an SDP."""
    k = basis.shape[0]
    sigma = cp.Variable((k, k), PSD=True)
    entry = cp.Variable()
    limits = [level if i in fixed else entry for i in range(basis.shape[1])]
    blocks = [
        cp.bmat([[sigma, b[:, None]], [b[None, :], cp.reshape(limit, (1, 1), order="C")]]) >> 0
        for b, limit in zip(basis.T, limits, strict=True)
    ]
    accurate = [row @ sigma @ row <= c for row, c in zip(rows, targets, strict=True)]
    problem = cp.Problem(cp.Minimize(entry), blocks + accurate)
    problem.solve(solver=cp.CLARABEL)
    return problem.value


def test_every_block_of_a_direct_sum_gets_its_own_optimum():
    sizes = (2, 8, 4)
    matrix = sla.block_diag(*(np.tri(d) for d in sizes))
    solution = solvers.solve("optimal", matrix, refined=True)
    own = [solvers.solve("optimal", np.tri(d), tol=1e-9).squared_privacy_cost for d in sizes]
    np.testing.assert_allclose(solution.privacy_profile, np.repeat(own, sizes), rtol=1e-7)
    assert solution.notes["levels"] == 3
    assert solution.gap <= 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_no_later_entry_can_be_lowered(seed):
    rng = np.random.default_rng(seed)
    hard, easy = np.tri(3), rng.integers(-1, 2, size=(3, 3)) + 2.0 * np.eye(3)
    matrix = sla.block_diag(hard, easy)
    matrix[1, 4] = 0.5
    targets = np.concatenate([np.ones(3), rng.uniform(8, 12, 3)])
    solution = solvers.solve("optimal", matrix, targets, refined=True)
    profile = solution.privacy_profile
    level = profile.max()
    fixed = set(np.flatnonzero(profile > level * (1 - 1e-5)))
    rest = [profile[i] for i in range(6) if i not in fixed]
    least = least_next_entry(
        solution.basis, solution.representation, fixed, level * (1 + 1e-7), targets
    )
    assert rest
    assert max(rest) == pytest.approx(least, rel=1e-3)


@given(st.integers(0, 10_000))
def test_refined_meets_the_targets_at_the_same_cost(seed):
    matrix, targets = random_problem(seed)
    plain = solvers.solve("optimal", matrix, targets, tol=1e-9)
    refined = solvers.solve("optimal", matrix, targets, refined=True)
    assert refined.converged
    assert refined.squared_privacy_cost == pytest.approx(plain.squared_privacy_cost, rel=3e-6)
    assert np.all(refined.query_variances <= targets * (1 + 1e-9))
    ordering = refined_order(
        refined.privacy_profile,
        plain.privacy_profile,
        tolerance=3e-4,  # a profile is known to the root of the gap
    )
    assert ordering <= 0


def test_a_personal_bound_protects_its_cell_at_the_others_expense():
    workload = workloads.make("prefix", d=8)
    plain = solvers.solve("optimal", workload)
    alpha = np.ones(8)
    alpha[0] = 0.5
    bounded = solvers.solve("optimal", workload, profile_bounds=list(alpha))
    ratio = bounded.privacy_profile / alpha
    assert ratio.max() == pytest.approx(bounded.notes["objective"], rel=1e-9)
    assert bounded.notes["objective_gap"] <= 1e-6
    assert bounded.privacy_profile[0] < 0.7 * plain.privacy_profile[0]
    assert bounded.squared_privacy_cost > plain.squared_privacy_cost
    check_written_out(bounded)


@given(st.integers(0, 10_000), st.floats(1e-3, 10))
def test_no_covariance_beats_the_hybrid_in_its_own_objective(seed, weight):
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-2, 3, size=(6, 4)) + np.eye(6, 4)
    targets = rng.uniform(0.5, 3, 6)

    best = hybrid(solvers.solve("optimal", matrix, targets, total_error_weight=weight), weight)
    for name in ("IP", "GM", "CA", "fisher", "optimal"):
        assert hybrid(solvers.solve(name, matrix, targets), weight) >= best * (1 - 3e-6)


def test_only_the_plain_objective_certifies_the_privacy_cost():
    for name in ("optimal", "SM-II"):
        mechanism = solvers.all_mechanisms()[name]
        assert mechanism().certifies
        assert mechanism(tol=1e-3, total_error_weight=0.0).certifies
        assert not mechanism(total_error_weight=0.5).certifies
        assert not mechanism(tol=0.0).certifies
    assert not solvers.all_mechanisms()["CA"]().certifies


def test_the_second_entry_is_least_before_the_third_whatever_that_costs():
    """By hand; two entries of 1 would cost the second entry 3e-7 of itself.

    With v_j the queries and b_i the cells, b_i' Σ⁻¹ b_i >= (v_j' b_i)² / v_j' Σ v_j. Cell 2 and
    query 1 are equal there: Σ⁻¹ b_2 = 2 v_1. What is left of query 5 beside query 1 has a variance
    of at most 2 - 0.05², and what is left of cells 0 and 1 is seen by it alone, so both bounds are
    met: Σ⁻¹ is settled along that rest, which adds 0.1² / (2 - 0.05²) to cells 3 and 4. Their own
    queries, a circulant of nuclear norm 2, cost 1.
    """
    rows = [
        (-0.50724986, -0.35343089, -0.61683978, 0, 0),
        (1.64467296, 1.14594064, 2, 0, 0),
        (0, 0, 0, 1, 0.91373095),
        (0, 0, 0, 0.91373095, 1),
        (0, 0, 0, 1, 0.91373095),
        (0.1, 0.1, 0.1, 0.1, 0.1),
    ]
    found = solvers.solve("optimal", np.array(rows), [4, 1, 4, 1, 1, 2], refined=True)
    left = 2 - 0.05**2
    first, second = (b**2 + (0.1 - 0.05 * b) ** 2 / left for b in (1.64467296, 1.14594064))
    expected = [first, second, 4, 1 + 0.01 / left, 1 + 0.01 / left]
    np.testing.assert_allclose(found.privacy_profile, expected, rtol=2e-7)
