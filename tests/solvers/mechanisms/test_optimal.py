"""`optimal`: closed forms, an independent SDP solver, invariances, and hard inputs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from marginal_problems import four_groups
from oracles import check_factors, proven_by, random_problem

import solvers
import workloads
from benchmarks.adversary.checks import clarabel
from workloads import TargetsError

MARGINALS = workloads.make("marginals", attributes=2, values=3, orders=[1])
PREFIX = {2: 4 / 3, 4: 1.758601, 8: 2.281561, 16: 2.905253, 64: 4.457869}
TOLERANCES = {"optimal": 1e-7, "SM-II": 1e-3, "interior-point": 1e-7, "GD": 1e-3}


@pytest.mark.parametrize(
    ("mechanism", "d"),
    [(m, d) for m in TOLERANCES for d in PREFIX if d < 64 or m in ("optimal", "SM-II")],
)
def test_prefix_check_values(mechanism, d):
    """Tables 2 and 3 of arXiv v1 print them with two decimals."""
    tol = TOLERANCES[mechanism]
    solution = solvers.solve(mechanism, workloads.make("prefix", d=d), tol=tol)
    assert round(solution.squared_privacy_cost, 2) == round(PREFIX[d], 2)
    assert -1e-6 <= solution.squared_privacy_cost - PREFIX[d] <= tol * PREFIX[d] + 1e-6
    assert solution.lower_bound <= PREFIX[d] + 1e-6
    assert solution.converged
    assert 0 <= solution.gap <= tol


@pytest.mark.parametrize("seed", range(6))
def test_agrees_with_a_semidefinite_solver(seed):
    matrix, targets = random_problem(seed)
    solution = solvers.solve("optimal", matrix, targets, tol=1e-8)
    assert solution.squared_privacy_cost == pytest.approx(
        clarabel(matrix / np.sqrt(targets)[:, None]), rel=1e-5
    )


@pytest.mark.parametrize(
    ("neighbour", "problem"),
    [
        ((workloads.make("prefix", d=64),), (workloads.make("prefix", d=128),)),
        (four_groups(), four_groups()),
    ],
)
def test_a_neighbours_weights_change_nothing_beyond_the_gap(neighbour, problem):
    cold = solvers.solve("optimal", *problem)
    warm = solvers.solve("optimal", *problem, start=solvers.solve("optimal", *neighbour).weights)
    assert warm.iterations < cold.iterations
    assert warm.squared_privacy_cost == pytest.approx(cold.squared_privacy_cost, rel=2e-6)
    assert warm.gap <= 1e-6


@pytest.mark.parametrize("mechanism", ["optimal", "SM-II", "CA", "IP", "GM", "fisher"])
@pytest.mark.parametrize(
    ("matrix", "target"),
    [
        *((queries, far) for queries in (np.tri(8), MARGINALS) for far in (1e-80, 1e70)),
        *((scale * np.eye(2), 1.0) for scale in (5e-324, 1e160)),
    ],
)
def test_scales_beyond_all_precision_are_refused(mechanism, matrix, target):
    between = r"expected between 1e-60 and 1e\+60: scale the queries or the targets"
    with pytest.raises(TargetsError, match=between):
        solvers.solve(mechanism, matrix, target)


@given(st.integers(0, 10_000), st.sampled_from([0.0, 1.0, 3.0]))
def test_interior_point_agrees_whatever_the_rank_and_the_spread(seed, decades):
    matrix, targets = random_problem(seed, decades=decades)
    found = solvers.solve("interior-point", matrix, targets)
    certified = solvers.solve("optimal", matrix, targets, tol=1e-8)
    assert found.converged
    assert found.squared_privacy_cost == pytest.approx(certified.squared_privacy_cost, rel=1e-6)


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


@pytest.mark.parametrize("mechanism", ["optimal", "SM-II"])
@given(seed=st.integers(0, 10_000), max_iterations=st.sampled_from([3, 8, 100]))
def test_the_weights_prove_the_lower_bound(mechanism, seed, max_iterations):
    matrix, targets = random_problem(seed)
    found = solvers.solve(mechanism, matrix, targets, max_iterations=max_iterations)
    assert proven_by(found.weights, matrix, targets) == pytest.approx(found.lower_bound, rel=1e-9)


@pytest.mark.parametrize("refined", [False, True])
def test_the_weights_prove_the_lower_bound_of_queries_that_are_multiples_of_one(refined):
    """From the largest entry alone: (3 * 4)²."""
    matrix = np.outer((1.0, 2.0, 3.0), (1.0, 2.0, 3.0, 4.0))
    found = solvers.solve("optimal", matrix, refined=refined)
    proven = proven_by(found.weights, matrix, np.ones(3))
    assert proven == pytest.approx(found.lower_bound, rel=1e-9)
    assert proven == pytest.approx(144, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "params", "tol", "decades"),
    [
        ("range", {"d": 512, "seed": 0}, 1e-6, 0),
        ("range", {"d": 256, "seed": 4}, 1e-6, 6),
        ("prefix", {"d": 1024}, 1e-6, 0),
        ("pl94", {}, 1e-6, 0),
        ("wrelated", {"d": 256, "seed": 1}, 1e-6, 0),
        ("all-range", {"d": 160}, 1e-5, 0),
    ],
)
def test_reaches_its_tolerance(family, params, tol, decades):
    workload = workloads.make(family, **params)
    targets = 10 ** (decades * np.random.default_rng(4).uniform(-0.5, 0.5, workload.m))
    solution = solvers.solve("optimal", workload, targets, tol=tol)
    assert solution.converged
    assert solution.gap <= tol
    assert np.max(solution.query_variances / targets) == pytest.approx(1.0)


def numbers(a, e, d):
    """Variances of a cell and of the total, and Δ², for Σ with eigenvalues a and (once) e."""
    return ((d - 1) * a + e) / d, d * e, ((d - 1) / a + 1 / e) / d


def identity_sum(mechanism, d, k):
    queries = workloads.make("identity-sum", d=d)
    return solvers.solve(mechanism, queries, workloads.targets.make("total", queries, k=k))


@pytest.mark.parametrize(
    ("d", "k"), [(2, 1.0), (7, 1.0), (32, 1.0), (2, 1.9), (7, 1.9), (8, 3.0), (64, 20.0)]
)
def test_fitness_for_use_meets_both_targets_with_equality(d, k):
    cell, total, cost = numbers((d - k / d) / (d - 1), k / d, d)
    assert (cell, total) == (pytest.approx(1.0), pytest.approx(k))
    assert identity_sum("optimal", d, k).squared_privacy_cost == pytest.approx(cost, rel=2e-6)


def test_theorems_6_and_7_of_two_queries():
    pair = np.array([[1.0, 1.0], [1.0, 0.0]])
    ca, optimal = (solvers.solve(name, pair) for name in ("CA", "optimal"))
    assert optimal.squared_privacy_cost == pytest.approx(4 / 3, rel=2e-6)
    first, second = ca.query_variances * ca.squared_privacy_cost  # at β = 1
    assert first == pytest.approx(1 + 1 / np.sqrt(5), rel=1e-4)
    assert second == pytest.approx(0.5 + 0.3 * np.sqrt(5), rel=1e-4)
    low_rank = solvers.solve("LRM", pair, tol=1e-8)
    for least in (first + second, low_rank.total_variance * low_rank.squared_privacy_cost):
        assert least == pytest.approx(1.5 + np.sqrt(5) / 2, rel=1e-6)
    assert first * 3 / 4 == pytest.approx(1.0854, abs=1e-4)  # printed as 1.08


FAR_APART = np.array(
    [
        [120, 13, 2.1e6, 0, 0],
        [0, 5e-9, 8.4e-4, 0, 0],
        [0, 0, 4.2e6, 86, 0],
        [0, 0, 0, 190, 1.3e9],
        [0, 0, 0, 0, 3e7],
    ]
)


@pytest.mark.parametrize("started", [False, True])
def test_queries_over_sixteen_decades_are_solved_from_any_start(started):
    start = solvers.solve("SM-II", FAR_APART).weights if started else None
    found = solvers.solve("optimal", FAR_APART, start=start)
    assert found.converged
    # query 3 alone costs the square of its largest entry, and the others cost next to nothing
    assert found.squared_privacy_cost == pytest.approx(1.3e9**2, rel=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_any_entries_over_eighteen_decades_are_solved(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(3, 8))
    shape = int(rng.integers(d, d + 4)), d
    matrix = rng.standard_normal(shape) * 10.0 ** rng.uniform(-9, 9, shape)
    matrix[rng.random(shape) < 0.5] = 0.0
    found = solvers.solve("optimal", matrix)
    assert found.gap <= 1e-6
    check_factors(matrix, found.noise)


@pytest.mark.parametrize("mechanism", ["optimal", "CA"])
def test_an_entry_whose_square_underflows_is_answered_with_the_others(mechanism):
    matrix = np.array([[1e-200, 1.0], [0.0, 1.0]])
    found = solvers.solve(mechanism, matrix)
    assert found.squared_privacy_cost == pytest.approx(1.0, rel=1e-6)  # that of the second cell
    check_factors(matrix, found.noise)


def test_few_queries_over_many_decades_have_no_cell_without_noise():
    """A tiny column of B would be zero if it were not corrected."""
    matrix = np.array([[0, 0, 0.052, -5e8, 0, 1.5e8], [-295, 2.8e-8, -8e5, 0, 66, -3.7e-7]])
    for mechanism in ("optimal", "CA"):
        found = solvers.solve(mechanism, matrix, [0.15, 9.4])
        check_factors(matrix, found.noise)
        assert np.all(found.privacy_profile > 0)
