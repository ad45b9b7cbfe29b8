"""Unions of rank-deficient products, against the query matrix itself."""

import numpy as np
import pytest
from oracles import check_factors

import solvers
import workloads
from solvers.problem import as_problem
from workloads import from_factors
from workloads.operators import Composed

ONES = np.ones((1, 7))
RANGES = workloads.make("all-range", d=7).dense
EMPTY = np.where(np.arange(7) == 3, 0.0, RANGES)


@pytest.mark.parametrize(
    ("mechanism", "factor"),
    [("optimal", RANGES), ("optimal", EMPTY), ("CA", EMPTY), ("SM-II", RANGES)],
    ids=["optimal", "optimal, a cell not seen", "CA, a cell not seen", "SM-II"],
)
def test_a_union_of_less_than_full_rank_keeps_its_structure(mechanism, factor):
    factor, ones = factor[:, 2:], ONES[:, 2:]
    factor = factor[factor.any(axis=1)]
    workload = from_factors(
        [(factor, factor, ones), (factor, ones, factor), (ones, factor, factor)]
    )
    targets = np.random.default_rng(0).integers(1, 11, workload.m).astype(float)
    assert as_problem(workload, targets).factors.structured
    limits = {"tol": 1e-8} if mechanism != "SM-II" else {}
    found = solvers.solve(mechanism, workload, targets, **limits)
    assert isinstance(found.noise.decoder, Composed)
    check_factors(workload.dense, found.noise)
    dense = solvers.solve(mechanism, workload.dense, targets, **limits)
    close = 1e-7 if limits else 2e-3
    assert found.squared_privacy_cost == pytest.approx(dense.squared_privacy_cost, rel=close)
    assert found.lower_bound <= dense.squared_privacy_cost * (1 + 1e-12)
    np.testing.assert_array_equal(found.privacy_profile == 0, dense.privacy_profile == 0)
