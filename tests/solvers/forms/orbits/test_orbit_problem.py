"""Census workloads on orbits: the query matrix confirms every number on small domains."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from marginal_problems import four_groups, make
from oracles import check_drawn, check_written_out, hybrid

import solvers
import workloads
from solvers.forms.orbits.orbit_noise import OrbitsNoise
from solvers.mechanisms import hm
from solvers.mechanisms.wm import build_haar
from solvers.noise.factorisation import Factorisation
from solvers.problem import as_problem
from solvers.strategy import from_strategy
from workloads import Workload
from workloads.operators import Kronecker, dense

MECHANISMS = ("optimal", "CA", "wCA-I", "wCA-II", "fisher", "IP", "GM")


def prefixes(cells, sizes, kept):
    """Prefixes over the first attribute, some of the others kept, the rest summed out."""
    terms = [
        [f"prefix:{cells}"]
        + [f"{'identity' if j in own else 'total'}:{size}" for j, size in enumerate(sizes)]
        for own in kept
    ]
    return workloads.make("kronecker", terms=terms)


def targets_of_four_groups():
    """Equal in each group; different from row to row of the ordered attribute; one different."""
    by_group = four_groups()[1]
    rng = np.random.default_rng(1)
    age, sex = rng.uniform(1, 5, size=5), np.array([1.0, 3.0])
    by_row = np.concatenate([age, np.repeat(age, 3), np.repeat(age, 6) + 1, sex])
    one_differs = by_group.copy()
    one_differs[6] = 0.3
    return {"by group": by_group, "by row": by_row, "one differs": one_differs}


TARGETS = targets_of_four_groups()


def errors_covariance(solution):
    left = dense(solution.representation)
    return left @ solution.covariance @ left.T


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("of", TARGETS)
def test_the_query_matrix_gives_the_same(mechanism, of):
    workload, targets = four_groups()[0], TARGETS[of]
    options = {"tol": 1e-9} if mechanism in ("optimal", "CA", "wCA-I", "wCA-II") else {}
    found = solvers.solve(mechanism, workload, targets, **options)
    whole = solvers.solve(mechanism, workload.dense, targets, **options)
    assert isinstance(found.noise, OrbitsNoise)
    assert isinstance(whole.noise, Factorisation)
    assert found.converged
    assert whole.converged
    assert found.squared_privacy_cost == pytest.approx(whole.squared_privacy_cost, rel=3e-9)
    assert found.noise.fisher_information == pytest.approx(whole.noise.fisher_information, rel=1e-5)
    exact = {"rtol": 1e-3 if mechanism == "optimal" else 1e-6, "atol": 1e-12}
    np.testing.assert_allclose(found.query_variances, whole.query_variances, **exact)
    np.testing.assert_allclose(found.privacy_profile, whole.privacy_profile, **exact)
    assert found.total_variance == pytest.approx(found.query_variances.sum())
    check_written_out(found)
    ours, theirs = errors_covariance(found), errors_covariance(whole)
    np.testing.assert_allclose(ours, theirs, atol=2e-3 * np.abs(theirs).max())
    assert found.measures == pytest.approx(whole.measures)


ONE_BLOCK = make([2, 3, 1, 2], [[0], [1, 2, 3], [0, 1, 3], []], [1, 2, 3, 4])
"""Attributes 1 and 3 are in the same marginals only."""


@pytest.mark.parametrize("mechanism", ["optimal", "IP", "GM"])
@pytest.mark.parametrize(
    ("workload", "targets"),
    [
        (four_groups()[0], TARGETS["by group"]),
        (four_groups()[0], TARGETS["one differs"]),
        (ONE_BLOCK.workload, ONE_BLOCK.targets),
    ],
)
def test_errors_have_the_covariance(mechanism, workload, targets):
    check_drawn(solvers.solve(mechanism, workload, targets), 40_000)


def test_a_domain_that_no_matrix_holds():
    workload = prefixes(20, [2, 50, 1000, 1000], [(), (0,), (1,)])
    found = solvers.solve("optimal", workload)
    assert workload.d == 2 * 10**9
    assert found.gap <= 1e-6
    assert found.query_variances.shape == (workload.m,)
    assert found.privacy_profile.shape == (20,)
    errors = found.draw(3000, np.random.default_rng(1))
    ratios = np.square(errors).mean(axis=0) / found.query_variances
    assert np.all(np.abs(ratios - 1) < 6 * np.sqrt(2 / 3000))


@pytest.mark.parametrize("mechanism", ["optimal", "CA", "GM"])
def test_a_target_for_each_row_of_unlisted_queries(mechanism, monkeypatch):
    rows = np.concatenate([np.linspace(1, 2, 8), np.linspace(20, 5, 8)])
    listed = prefixes(8, [2, 5], [(), (1,)])
    per_query = np.concatenate([rows[:8], np.repeat(rows[8:], 5)])
    expected = solvers.solve(mechanism, listed, per_query)
    of_rows = np.concatenate([expected.query_variances[:8], expected.query_variances[8::5]])
    monkeypatch.setattr("workloads.workload.LARGEST_LISTED", 10)
    unlisted = prefixes(8, [2, 5], [(), (1,)])
    assert not unlisted.listed
    found = solvers.solve(mechanism, unlisted, rows)
    assert found.squared_privacy_cost == pytest.approx(expected.squared_privacy_cost, rel=1e-12)
    np.testing.assert_allclose(found.query_variances, of_rows, rtol=1e-10)
    assert np.all(found.query_variances <= rows * (1 + 1e-12))
    assert found.at_budget(1.0, 1e-6).half_widths(0.95).shape == (16,)


def some_union(seed):
    """Two or three products over three small attributes, and targets by group, row or query."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 4, size=3)
    ordered = int(rng.integers(3))
    terms = []
    for _ in range(int(rng.integers(2, 4))):
        factors = []
        for axis, size in enumerate(sizes):
            if axis == ordered and rng.random() < 0.8:
                factor = rng.integers(-1, 3, size=(int(rng.integers(1, 4)), size)).astype(float)
                factor[0, 0] = 1.0
            else:
                factor = np.eye(size) if rng.random() < 0.5 else np.ones((1, size))
            factors.append(factor)
        terms.append(tuple(factors))
    operator = Kronecker(tuple(terms))
    groups = np.repeat(np.arange(len(terms)), operator.term_sizes)
    targets = rng.uniform(1, 4, len(terms))[groups]
    if rng.random() < 0.5:
        targets[rng.integers(len(targets))] = 0.5
    names = tuple(f"group {at}" for at in range(len(terms)))
    workload = Workload("union", operator, groups=groups, group_names=names,
                        group_sizes=operator.term_sizes)  # fmt: skip
    return workload, targets


@given(st.integers(0, 100_000))
def test_any_union_is_feasible_certified_and_as_its_matrix(seed):
    workload, targets = some_union(seed)
    found = solvers.solve("optimal", workload, targets)
    whole = solvers.solve("optimal", workload.dense, targets)
    assert found.gap <= 1e-6
    assert found.squared_privacy_cost == pytest.approx(whole.squared_privacy_cost, rel=3e-6)
    assert np.all(found.query_variances <= targets * (1 + 1e-9))
    assert found.lower_bound <= whole.squared_privacy_cost * (1 + 1e-8)


def test_options_of_the_optimum():
    workload, targets = four_groups()
    ours, theirs = (
        solvers.solve("optimal", one, targets, total_error_weight=0.1, tol=1e-8)
        for one in (workload, workload.dense)
    )
    assert isinstance(ours.noise, OrbitsNoise)
    assert ours.notes["objective"] == pytest.approx(theirs.notes["objective"], rel=1e-7)
    of_age = np.linspace(1, 2, 5)
    per_cell = np.repeat(of_age, 6)
    by_orbit, by_cell, whole = (
        solvers.solve("optimal", one, targets, profile_bounds=bounds, tol=1e-8)
        for one, bounds in ((workload, of_age), (workload, per_cell), (workload.dense, per_cell))
    )
    assert isinstance(by_orbit.noise, OrbitsNoise)
    for found in (by_orbit, by_cell):
        assert found.notes["objective"] == pytest.approx(whole.notes["objective"], rel=3e-8)
        assert np.max(found.privacy_profile / per_cell) == pytest.approx(
            np.max(whole.privacy_profile / per_cell), rel=3e-8
        )
    uneven = np.linspace(1, 2, 30)
    one_by_one = solvers.solve("optimal", workload, targets, profile_bounds=uneven)
    assert not isinstance(one_by_one.noise, OrbitsNoise)
    assert np.ptp(one_by_one.privacy_profile / uneven) < 1.0


@pytest.mark.parametrize("of", TARGETS)
def test_soft_maxima_on_orbits(of):
    workload, targets = four_groups()[0], TARGETS[of]
    found = solvers.solve("SM-II", workload, targets, tol=1e-5)
    optimum = solvers.solve("optimal", workload.dense, targets, tol=1e-8).squared_privacy_cost
    assert isinstance(found.noise, OrbitsNoise)
    assert found.converged
    assert found.lower_bound <= optimum * (1 + 1e-8)
    assert optimum * (1 - 1e-8) <= found.squared_privacy_cost <= optimum * (1 + 1e-5)
    ours, theirs = (
        solvers.solve("SM-II", one, targets, total_error_weight=0.1, tol=1e-5)
        for one in (workload, workload.dense)
    )
    assert hybrid(ours, 0.1) == pytest.approx(hybrid(theirs, 0.1), rel=2e-5)


@pytest.mark.parametrize(
    ("mechanism", "strategy"),
    [("HM", hm.build_regular(8, 2).matrix), ("WM", build_haar(8))],
)
@pytest.mark.parametrize("one_race_differs", [False, True])
def test_trees_over_the_ordered_cells_are_asked_in_every_copy(
    mechanism, strategy, one_race_differs
):
    terms = [
        ["total:2", "prefix:8", "total:3"],
        ["identity:2", "prefix:8", "identity:3"],
        ["identity:2", "total:8", "total:3"],
    ]
    workload = workloads.make("kronecker", terms=terms)
    targets = np.ones(workload.m)
    targets[20] = 0.5 if one_race_differs else 1.0
    options = {"branching": 2} if mechanism == "HM" else {}
    found = solvers.solve(mechanism, workload, targets, **options)
    everywhere = np.kron(np.kron(np.eye(2), strategy.toarray()), np.eye(3))
    whole = from_strategy(mechanism, as_problem(workload, targets), everywhere)
    assert found.squared_privacy_cost == pytest.approx(whole.squared_privacy_cost)
    np.testing.assert_allclose(found.query_variances, whole.query_variances, rtol=1e-9)
    np.testing.assert_allclose(found.privacy_profile, whole.privacy_profile, rtol=1e-9)
    theirs = whole.representation @ whole.covariance @ whole.representation.T
    np.testing.assert_allclose(errors_covariance(found), theirs, atol=1e-9)


@pytest.mark.parametrize("base", [(1, 30, 2, 60), (1, 100, 100, 100), (4, 4, 4, 4)])
def test_the_refined_optimum_is_that_of_the_matrix(base):
    """The profile is far from flat, and several levels are left below the first."""
    ages = np.array([[1.0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 3, 0], [0, 0, 0, 1]])
    terms = ((ages, np.ones((1, 3))), (np.eye(4), np.eye(3)))
    workload = Workload("ages and regions", Kronecker(terms))
    targets = np.concatenate([base, np.repeat([300.0, 20, 500, 400], 3)])
    found, whole = (
        solvers.solve("optimal", one, targets, refined=True) for one in (workload, workload.dense)
    )
    assert isinstance(found.noise, OrbitsNoise)
    assert found.converged
    assert found.notes["levels"] == whole.notes["levels"] > 2
    np.testing.assert_allclose(found.privacy_profile, whole.privacy_profile, rtol=1e-8)
    np.testing.assert_allclose(found.query_variances, whole.query_variances, rtol=1e-6)


@pytest.mark.parametrize("mechanism", ["HM", "WM", "IP", "GM", "CA", "optimal"])
@pytest.mark.parametrize("kept", [[()], [(), (0,)]])
def test_what_is_written_out_has_the_stated_cost_and_variances(mechanism, kept):
    """Also if the mechanism needs more than the queries: the total over the others."""
    workload = prefixes(4, [2, 3], kept)
    found = solvers.solve(mechanism, workload)
    check_written_out(found)
    copy = pickle.loads(pickle.dumps(found))  # solutions travel between processes
    assert copy.squared_privacy_cost == found.squared_privacy_cost
    np.testing.assert_array_equal(copy.covariance, found.covariance)
