"""Kronecker products solved factor by factor: the dense solver confirms every number."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvers
import workloads
from solvers import NotApplicableError
from solvers.noise.factorisation import Factorisation
from solvers.noise.product import ProductNoise
from workloads import Workload
from workloads.operators import Kronecker


def product_of(*matrices):
    return Workload("product", Kronecker((matrices,)))


def some_factors(seed, count=2):
    rng = np.random.default_rng(seed)
    shapes = rng.integers(1, 5, size=(count, 2))
    factors = [rng.integers(-1, 3, size=shape).astype(float) for shape in shapes]
    for factor in factors:
        factor[0, 0] = 1.0
    return factors


@given(st.integers(0, 10_000), st.sampled_from(["optimal", "CA", "fisher", "GM", "IP"]))
def test_the_dense_solver_agrees(seed, mechanism):
    workload = product_of(*some_factors(seed))
    structured = solvers.solve(mechanism, workload, 3.0)
    dense = solvers.solve(mechanism, workload.dense, 3.0)
    assert isinstance(structured.noise, ProductNoise)
    assert isinstance(dense.noise, Factorisation)
    assert structured.squared_privacy_cost == pytest.approx(dense.squared_privacy_cost, rel=1e-5)
    for name in ("cramer_rao_bound", "cramer_rao_ratio") if mechanism == "fisher" else ():
        assert structured.measures[name] == pytest.approx(dense.measures[name], rel=1e-6)
    if mechanism in ("GM", "IP", "fisher"):
        np.testing.assert_allclose(
            structured.query_variances, dense.query_variances, rtol=1e-6, atol=1e-12
        )
        np.testing.assert_allclose(
            structured.privacy_profile, dense.privacy_profile, rtol=1e-6, atol=1e-12
        )


@pytest.mark.parametrize("name", ["optimal", "CA"])
def test_measures_of_a_product_are_those_of_its_noise(name):
    workload = workloads.make("kronecker", terms=[["prefix:6", "prefix:9"]])
    found = solvers.solve(name, workload, 3.0, max_iterations=1, tol=1e-12)
    if name == "optimal":
        profile = found.privacy_profile
        slack = 1 - profile.mean() / profile.max()
        assert found.notes["profile_slack"] == pytest.approx(slack, rel=1e-9)
    else:
        total = found.squared_privacy_cost * found.total_variance
        least = solvers.solve(name, workload, 3.0, tol=1e-12)
        gap = total / (least.squared_privacy_cost * least.total_variance) - 1
        assert 0 < gap <= found.notes["total_error_gap"]
        assert least.notes["total_error_gap"] <= 1e-12
    assert "total_error_gap" not in solvers.solve("GM", workload).notes


def test_a_covariance_too_large_to_write_out_keeps_nothing_else_back():
    workload = workloads.make("kronecker", terms=[["prefix:256", "prefix:256"]])
    found = solvers.solve("IP", workload)
    assert set(found.arrays()) == {"query_variances", "privacy_profile"}
    with pytest.raises(NotApplicableError, match=r"use the factors in noise\.parts"):
        _ = found.covariance
