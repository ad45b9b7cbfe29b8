"""Kronecker products solved factor by factor."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import total_error

import solvers
import workloads
from solvers import NotApplicableError
from solvers.noise.factorisation import Factorisation, ProductNoise
from workloads import Workload
from workloads.operators import Kronecker


@given(st.integers(0, 10_000), st.sampled_from(["optimal", "CA", "fisher", "GM", "IP"]))
def test_the_dense_solver_agrees(seed, mechanism):
    rng = np.random.default_rng(seed)
    factors = tuple(
        rng.integers(-1, 3, shape).astype(float) for shape in rng.integers(1, 5, (2, 2))
    )
    for factor in factors:
        factor[0, 0] = 1.0
    workload = Workload("product", Kronecker((factors,)))
    structured = solvers.solve(mechanism, workload, 3.0)
    dense = solvers.solve(mechanism, workload.dense, 3.0)
    assert isinstance(structured.noise, ProductNoise)
    assert isinstance(dense.noise, Factorisation)
    assert structured.squared_privacy_cost == pytest.approx(dense.squared_privacy_cost, rel=1e-5)
    for name in ("cramer_rao_bound", "cramer_rao_ratio") if mechanism == "fisher" else ():
        assert structured.measures[name] == pytest.approx(dense.measures[name], rel=1e-6)
    if mechanism in ("GM", "IP", "fisher"):
        for ours, theirs in (
            (structured.query_variances, dense.query_variances),
            (structured.privacy_profile, dense.privacy_profile),
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-12)


def test_measures_of_a_product_are_those_of_its_noise():
    workload = workloads.make("kronecker", terms=[["prefix:6", "prefix:9"]])
    found, error = (
        solvers.solve(name, workload, 3.0, max_iterations=1, tol=1e-12)
        for name in ("optimal", "CA")
    )
    slack = 1 - found.privacy_profile.mean() / found.privacy_profile.max()
    assert found.notes["profile_slack"] == pytest.approx(slack, rel=1e-9)
    least = solvers.solve("CA", workload, 3.0, tol=1e-12)
    gap = total_error(error) / total_error(least) - 1
    assert 0 < gap <= error.notes["total_error_gap"]
    assert least.notes["total_error_gap"] <= 1e-12
    assert "total_error_gap" not in solvers.solve("GM", workload).notes


def test_a_covariance_too_large_to_write_out_keeps_nothing_else_back():
    workload = workloads.make("kronecker", terms=[["prefix:256", "prefix:256"]])
    found = solvers.solve("IP", workload)
    assert set(found.arrays()) == {"query_variances", "privacy_profile"}
    with pytest.raises(NotApplicableError, match=r"use the factors in noise\.parts"):
        _ = found.covariance
