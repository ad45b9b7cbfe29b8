"""`optimal`: closed forms, an independent SDP solver, invariances, and hard inputs."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvers
import workloads
from workloads import TargetsError

PREFIX = {2: 4 / 3, 4: 1.758601, 8: 2.281561, 16: 2.905253, 64: 4.457869}
MARGINALS = {2: 2.182453, 4: 3.471896, 6: 4.119431}


def random_problem(seed, m=None, d=None, decades=1.0):
    rng = np.random.default_rng(seed)
    m, d = m or int(rng.integers(1, 12)), d or int(rng.integers(1, 9))
    matrix = rng.integers(-2, 3, size=(m, d)).astype(float)
    matrix[0, 0] = 1.0
    return matrix, 10 ** rng.uniform(-decades, decades, m)


def sdp_optimum(matrix, targets):
    """γ₂(A)² by Clarabel: the least t with [[X, A], [Aᵀ, Y]] >= 0, diag(X), diag(Y) <= t."""
    scaled = matrix / np.sqrt(targets)[:, None]
    m, d = scaled.shape
    block = cp.Variable((m + d, m + d), PSD=True)
    problem = cp.Problem(cp.Minimize(cp.max(cp.diag(block))), [block[:m, m:] == scaled])
    problem.solve(solver=cp.CLARABEL)
    return problem.value**2


@pytest.mark.parametrize("d", PREFIX)
def test_prefix_check_values(d):
    solution = solvers.solve("optimal", workloads.make("prefix", d=d), tol=1e-7)
    assert solution.squared_privacy_cost == pytest.approx(PREFIX[d], abs=1e-6)
    assert solution.converged
    assert 0 <= solution.gap <= 1e-7


@pytest.mark.parametrize("values", MARGINALS)
def test_marginals_check_values(values):
    dense = workloads.make("marginals", attributes=3, values=values, orders=[1, 2]).dense
    solution = solvers.solve("optimal", dense)
    assert solution.squared_privacy_cost == pytest.approx(MARGINALS[values], rel=2e-6)


@pytest.mark.parametrize(("d", "total_target"), [(8, 1.0), (8, 3.0), (64, 1.0), (64, 20.0)])
def test_identity_sum_closed_form(d, total_target):
    b = (total_target - d) / (d * d - d)
    a = 1 - b
    targets = np.append(np.ones(d), total_target)
    solution = solvers.solve("optimal", workloads.make("identity-sum", d=d), targets, tol=1e-8)
    assert solution.squared_privacy_cost == pytest.approx((1 - b / (a + b * d)) / a, rel=1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_agrees_with_a_semidefinite_solver(seed):
    matrix, targets = random_problem(seed)
    solution = solvers.solve("optimal", matrix, targets, tol=1e-8)
    assert solution.squared_privacy_cost == pytest.approx(sdp_optimum(matrix, targets), rel=1e-5)


@given(st.integers(0, 10_000))
def test_no_mechanism_beats_the_lower_bound(seed):
    matrix, targets = random_problem(seed)
    bound = solvers.solve("optimal", matrix, targets).lower_bound
    for name in ("IP", "GM", "CA", "fisher"):
        assert solvers.solve(name, matrix, targets).squared_privacy_cost >= bound * (1 - 1e-9)


def test_zero_queries_and_untouched_cells():
    matrix = np.zeros((5, 6))
    matrix[1:4, :3] = np.tril(np.ones((3, 3)))
    padded = solvers.solve("optimal", matrix)
    plain = solvers.solve("optimal", np.tril(np.ones((3, 3))))
    assert padded.squared_privacy_cost == pytest.approx(plain.squared_privacy_cost, rel=2e-6)
    assert np.all(padded.privacy_profile[3:] == 0)


def test_too_few_iterations_are_confessed():
    solution = solvers.solve("optimal", workloads.make("prefix", d=32), max_iterations=1)
    assert not solution.converged
    assert not solution.timed_out


def test_a_neighbours_weights_change_nothing_beyond_the_gap():
    workload = workloads.make("range", d=48, seed=3)
    neighbour = solvers.solve("optimal", workload, 1.1)
    targets = np.random.default_rng(0).uniform(1, 1.2, workload.m)
    cold = solvers.solve("optimal", workload, targets)
    warm = solvers.solve("optimal", workload, targets, start=neighbour.weights)
    assert warm.squared_privacy_cost == pytest.approx(cold.squared_privacy_cost, rel=2e-6)
    assert warm.gap <= 1e-6


@pytest.mark.parametrize("mechanism", ["optimal", "SM-II", "CA", "IP", "GM", "fisher"])
@pytest.mark.parametrize(
    ("matrix", "target"),
    [(np.tri(8), 1e-80), (np.tri(8), 1e70), (5e-324 * np.eye(2), 1.0), (1e160 * np.eye(2), 1.0)],
)
def test_scales_beyond_all_precision_are_refused(mechanism, matrix, target):
    with pytest.raises(TargetsError, match="scale the queries or the targets"):
        solvers.solve(mechanism, matrix, target)


def recomputed_cost(solution, matrix, targets):
    """Δ² at just-met targets from basis, representation and covariance alone."""
    basis, left, sigma = solution.basis, solution.representation, solution.covariance
    np.testing.assert_allclose(left @ basis, matrix, atol=1e-9 * np.abs(matrix).max())
    profile = np.diag(basis.T @ np.linalg.solve(sigma, basis))
    ratios = np.diag(left @ sigma @ left.T) / targets
    return profile.max() * ratios.max()


@given(st.integers(0, 10_000))
def test_the_covariance_alone_gives_the_reported_numbers(seed):
    matrix, targets = random_problem(seed)
    solution = solvers.solve("optimal", matrix, targets)
    assert solution.converged
    assert recomputed_cost(solution, matrix, targets) == pytest.approx(
        solution.squared_privacy_cost, rel=1e-9
    )
    assert solution.lower_bound <= solution.squared_privacy_cost * (1 + 1e-12)
    assert np.max(solution.query_variances / targets) == pytest.approx(1.0, rel=1e-12)


@given(st.integers(0, 10_000), st.floats(0.01, 100))
def test_scaling_targets_divides_the_squared_cost(seed, factor):
    matrix, targets = random_problem(seed)
    base = solvers.solve("optimal", matrix, targets).squared_privacy_cost
    scaled = solvers.solve("optimal", matrix, factor * targets).squared_privacy_cost
    assert scaled == pytest.approx(base / factor, rel=3e-6)


@given(st.integers(0, 10_000))
def test_dropping_a_query_or_loosening_a_target_never_costs_more(seed):
    matrix, targets = random_problem(seed, m=6)
    base = solvers.solve("optimal", matrix, targets).squared_privacy_cost
    fewer = solvers.solve("optimal", matrix[:-1], targets[:-1]).lower_bound
    loose = targets.copy()
    loose[-1] *= 10
    looser = solvers.solve("optimal", matrix, loose).lower_bound
    assert fewer <= base * (1 + 1e-9)
    assert looser <= base * (1 + 1e-9)


def proven_by(weights, matrix, targets):
    """The dual's value at the weights, by one singular value decomposition."""
    scaled = np.sqrt(weights.q / targets)[:, None] * matrix * np.sqrt(weights.p)
    norm = np.linalg.svd(scaled, compute_uv=False).sum()
    return norm**2 / (weights.p.sum() * weights.q.sum())


@pytest.mark.parametrize("mechanism", ["optimal", "SM-II"])
@given(seed=st.integers(0, 10_000), max_iterations=st.sampled_from([3, 8, 100]))
def test_the_weights_prove_the_lower_bound(mechanism, seed, max_iterations):
    matrix, targets = random_problem(seed)
    found = solvers.solve(mechanism, matrix, targets, max_iterations=max_iterations)
    assert proven_by(found.weights, matrix, targets) == pytest.approx(found.lower_bound, rel=1e-9)


@pytest.mark.parametrize("refined", [False, True])
def test_the_weights_prove_the_lower_bound_of_queries_that_are_multiples_of_one(refined):
    """Of the largest entry alone: (3 * 4)²."""
    matrix = np.outer((1.0, 2.0, 3.0), (1.0, 2.0, 3.0, 4.0))
    found = solvers.solve("optimal", matrix, refined=refined)
    proven = proven_by(found.weights, matrix, np.ones(3))
    assert proven == pytest.approx(found.lower_bound, rel=1e-9)
    assert proven == pytest.approx(144, rel=1e-6)
