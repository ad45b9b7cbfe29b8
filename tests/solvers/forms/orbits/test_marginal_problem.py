"""Marginals: subset variables against the dense solvers, closed forms, far targets, sizes."""

from itertools import combinations
from math import comb, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from marginal_problems import MECHANISMS, problems
from oracles import check_written_out, hybrid

import solvers
import workloads
from solvers.forms.orbits import ProductOrbits, SingleOrbit

CLOSED = [name for name in MECHANISMS if name not in ("optimal", "SM-II")]


def dense(name, problem, **options):
    return solvers.all_mechanisms()[name](**options).on_matrix(problem)


def structured(name, problem, **options):
    solution = solvers.solve(name, problem.workload, problem.targets, **options)
    assert isinstance(solution.noise.orbits, SingleOrbit)
    return solution


@given(problems(), st.sampled_from(CLOSED))
def test_same_numbers_as_the_dense_form(problem, name):
    ours, theirs = structured(name, problem), dense(name, problem)
    assert ours.squared_privacy_cost == pytest.approx(theirs.squared_privacy_cost, rel=2e-6)
    np.testing.assert_allclose(ours.query_variances, theirs.query_variances, rtol=2e-5)
    np.testing.assert_allclose(ours.privacy_profile, theirs.privacy_profile, rtol=2e-5)
    assert ours.total_variance == pytest.approx(theirs.total_variance, rel=2e-5)
    assert set(ours.record()) == set(theirs.record())
    for measure, value in (theirs.measures or {}).items():
        assert ours.measures[measure] == pytest.approx(value, rel=2e-5)


@given(problems())
def test_the_optimum_is_the_dense_one(problem):
    ours, theirs = structured("optimal", problem, tol=1e-7), dense("optimal", problem, tol=1e-7)
    assert ours.converged
    assert ours.gap <= 1e-7
    assert ours.squared_privacy_cost == pytest.approx(theirs.squared_privacy_cost, rel=3e-7)
    assert ours.lower_bound <= theirs.squared_privacy_cost * (1 + 1e-12)
    assert theirs.lower_bound <= ours.squared_privacy_cost * (1 + 1e-12)


@given(problems(), st.sampled_from([0.0, 0.01, 1.0]))
def test_the_hybrid_is_the_dense_one(problem, weight):
    options = {"tol": 1e-6, "total_error_weight": weight}
    theirs = dense("optimal", problem, **options)
    for name in ("optimal", "SM-II"):
        ours = structured(name, problem, **options)
        assert ours.converged
        assert hybrid(ours, weight) == pytest.approx(hybrid(theirs, weight), rel=3e-6)
        if weight > 0:
            stated = 2 * hybrid(ours, weight) ** 0.5
            assert ours.notes["objective"] == pytest.approx(stated, rel=1e-9)


@given(problems(), st.sampled_from(list(MECHANISMS)))
def test_the_mechanism_written_out_has_the_reported_numbers(problem, name):
    solution = structured(name, problem)
    check_written_out(solution)
    assert np.max(solution.query_variances / problem.targets) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("unit", [1e-55, 1e55])
@pytest.mark.parametrize(
    ("mechanism", "options", "apart"),
    [
        ("optimal", {"total_error_weight": 0.1}, False),
        ("ResidualPlanner", {"objective": "max-variance"}, False),
        ("optimal", {"refined": True}, True),
        ("optimal", {"total_error_weight": 0.1}, True),
        ("wCA-I", {}, True),
    ],
)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_targets_far_from_one_scale_the_answer(mechanism, options, apart, unit, capfd):
    """One orbit of cells, or several if one value of a marginal has its own target."""
    workload = workloads.make("marginals", attributes=2, values=3, orders=[1])
    targets = np.repeat([1.0, 2.0], workload.group_sizes)
    targets[0] = 0.5 if apart else 1.0
    plain = solvers.solve(mechanism, workload, targets, **options)
    scaled = {name: v / unit if name == "total_error_weight" else v for name, v in options.items()}
    moved = solvers.solve(mechanism, workload, unit * targets, **scaled)
    assert isinstance(moved.noise.orbits, ProductOrbits if apart else SingleOrbit)
    assert moved.converged
    assert moved.squared_privacy_cost * unit == pytest.approx(plain.squared_privacy_cost, rel=3e-6)
    assert moved.lower_bound * unit == pytest.approx(plain.lower_bound, rel=3e-6)
    np.testing.assert_allclose(moved.query_variances / unit, plain.query_variances, rtol=1e-3)
    assert capfd.readouterr().out == ""


def huge(**params):
    return workloads.make("marginals", **{"attributes": 30, "values": 10, "orders": [2], **params})


def test_what_is_too_large_is_not_written_out():
    with pytest.raises(solvers.NotApplicableError, match=r"43,500 queries over about 10\^30 cells"):
        _ = solvers.solve("GM", huge()).covariance


def test_input_perturbation_beyond_floats_fails_in_a_sentence():
    with pytest.raises(solvers.SolveFailedError, match=r"about 10\^399, beyond floats"):
        solvers.solve("IP", huge(attributes=400, orders=[1]))


@pytest.mark.slow
def test_a_hundred_attributes_with_a_target_for_each_marginal():
    workload = workloads.make("marginals", attributes=100, values=10, orders=[3])
    targets = np.random.default_rng(0).integers(1, 11, workload.target_count).astype(float)
    bound = solvers.solve("optimal", workload, targets, tol=1e-6)
    assert bound.gap <= 1e-6
    found = solvers.solve("SM-II", workload, targets)
    assert bound.lower_bound * (1 - 1e-12) <= found.squared_privacy_cost
    assert found.squared_privacy_cost <= bound.squared_privacy_cost * (1 + 1e-3)


@pytest.mark.parametrize(("attributes", "values"), [(1, 7), (3, 5), (40, 10)])
def test_one_way_marginals_in_closed_form(attributes, values):
    """Least 1/s_0 + k(n-1)/s_1 with (s_0 + (n-1) s_1)/n² = 1: Cauchy-Schwarz."""
    workload = workloads.make("marginals", attributes=attributes, values=values, orders=[1])
    solution = solvers.solve("optimal", workload, tol=1e-10)
    expected = ((1 + np.sqrt(attributes) * (values - 1)) / values) ** 2
    assert solution.squared_privacy_cost == pytest.approx(expected, rel=1e-9)


def test_all_three_way_marginals_of_equal_attributes_in_closed_form():
    """All marginals are equivalent, so their common bound is the only constraint."""
    attributes, values, order = 100, 10, 3
    workload = workloads.make("marginals", attributes=attributes, values=values, orders=[order])
    solution = solvers.solve("optimal", workload)
    terms = (
        (values - 1) ** size * np.sqrt(comb(attributes, size) * comb(order, size))
        for size in range(order + 1)
    )
    assert solution.squared_privacy_cost == pytest.approx((sum(terms) / values**order) ** 2)
    assert workload.d == 10**100
    np.testing.assert_allclose(solution.query_variances, np.ones(comb(attributes, order)))


def closure(subsets):
    return {
        part
        for subset in subsets
        for n in range(len(subset) + 1)
        for part in combinations(subset, n)
    }


def residual_planner(problem):
    """Privacy cost and variance of each residual by ResidualPlanner's own formulas.

    Xiao, He, Zhang and Kifer, NeurIPS 2023: p_S = prod of (n_i - 1)/n_i, and a cell of
    marginal T has variance sum over S within T of sigma_S² p_S prod over T less S of n_j^-2.
    """
    operator = problem.workload.operator
    sizes, parts = operator.sizes, sorted(closure(operator.subsets))
    p = np.array([prod((sizes[i] - 1) / sizes[i] for i in part) for part in parts])
    cells = np.array(
        [
            [
                set(part) <= set(subset) and prod(sizes[j] ** -2.0 for j in set(subset) - set(part))
                for part in parts
            ]
            for subset in operator.subsets
        ],
        dtype=float,
    )
    return p, cells * p


@given(problems(least_size=2), st.sampled_from([("CA", 0), ("wCA-II", 1), ("wCA-I", 2)]))
def test_total_error_is_residual_planners(problem, mechanism):
    """Its closed form: (sum_S sqrt(v_S p_S))² at unit privacy cost."""
    name, power = mechanism
    p, variances = residual_planner(problem)
    first = np.unique(problem.workload.groups, return_index=True)[1]
    weights = np.array(problem.workload.group_sizes) * problem.targets[first] ** -float(power)
    expected = np.sqrt((weights @ variances) * p).sum() ** 2
    solution = structured(name, problem)
    found = solution.squared_privacy_cost * float(weights @ solution.noise.orbit_variances)
    assert found == pytest.approx(expected, rel=1e-9)


def test_a_start_saves_steps_and_changes_no_result_beyond_the_gap():
    workload = workloads.make(
        "marginals", attributes=8, values=[2, 3, 4, 5, 6, 7, 8, 9], orders=[1, 2]
    )
    rng, tol = np.random.default_rng(0), 1e-8
    targets = rng.uniform(1, 10, len(workload.group_sizes))
    near = targets * (1 + 0.02 * rng.uniform(-1, 1, targets.size))

    def solve(of_groups, **start):
        each = np.repeat(of_groups, workload.group_sizes)
        return solvers.solve("optimal", workload, each, tol=tol, **start)

    cold, warm = solve(near), solve(near, start=solve(targets).weights)
    assert warm.iterations < cold.iterations
    assert warm.squared_privacy_cost == pytest.approx(cold.squared_privacy_cost, rel=2 * tol)
    assert warm.converged
