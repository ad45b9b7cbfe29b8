"""Subset variables against the dense solvers, on every workload that both can take."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from marginal_problems import MECHANISMS, make, problems
from oracles import check_drawn, check_written_out, hybrid

import solvers
from solvers.forms.orbits.marginal_problem import SingleOrbit

CLOSED = [name for name in MECHANISMS if name not in ("optimal", "SM-II")]


def dense(name, problem, **options):
    return solvers.all_mechanisms()[name].solve(problem, **options)


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


@given(problems(), st.sampled_from([0.01, 1.0]))
def test_the_hybrid_is_the_dense_one(problem, weight):
    options = {"tol": 1e-6, "total_error_weight": weight}
    theirs = dense("optimal", problem, **options)
    for name in ("optimal", "SM-II"):
        ours = structured(name, problem, **options)
        assert ours.converged
        assert hybrid(ours, weight) == pytest.approx(hybrid(theirs, weight), rel=3e-6)
        assert ours.notes["objective"] == pytest.approx(2 * hybrid(ours, weight) ** 0.5, rel=1e-9)


@given(problems())
def test_soft_maxima_reach_the_optimum(problem):
    best = structured("optimal", problem, tol=1e-8)
    found = structured("SM-II", problem, tol=1e-6)
    assert found.converged
    assert best.lower_bound * (1 - 1e-12) <= found.squared_privacy_cost
    assert found.squared_privacy_cost <= best.squared_privacy_cost * (1 + 1e-6)


@given(problems(), st.sampled_from(list(MECHANISMS)))
def test_the_mechanism_written_out_has_the_reported_numbers(problem, name):
    solution = structured(name, problem)
    check_written_out(solution)
    assert np.max(solution.query_variances / problem.targets) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("name", ["optimal", "IP", "GM"])
def test_drawn_errors_have_the_covariance_of_the_queries(name):
    """Attributes 1 and 3 are in the same marginals only: one block."""
    problem = make([2, 3, 1, 2], [[0], [1, 2, 3], [0, 1, 3], []], [1, 2, 3, 4])
    check_drawn(structured(name, problem), 200_000)
