"""No mechanism has less total error than CA, none a lower privacy cost than `optimal`."""

import numpy as np
import pytest
from baselines import FAMILIES, family, random_queries
from hypothesis import given
from hypothesis import strategies as st
from oracles import total_error

import solvers

OTHERS = (
    "AM",
    "ESM",
    "fisher",
    "GM",
    "HM",
    "IP",
    "LRM",
    "optimal",
    "ResidualPlanner+",
    "SM-II",
    "WM",
)


NEAR = {"ESM": 1.01, "LRM": 1.005}
"""How close the mechanisms that minimise it come: "comparable results" (KDD'16, section 5)."""


@pytest.mark.parametrize("mechanism", OTHERS)
@pytest.mark.parametrize("name", FAMILIES)
def test_on_every_family(name, mechanism):
    workload = family(name)
    found = solvers.solve(mechanism, workload)
    least = solvers.solve("CA", workload)
    optimum = solvers.solve("optimal", workload)
    assert found.converged
    assert total_error(found) >= total_error(least) * (1 - 1e-7)
    assert total_error(found) <= total_error(least) * NEAR.get(mechanism, np.inf)
    assert found.squared_privacy_cost >= optimum.lower_bound * (1 - 1e-9)
    assert found.query_variances.max() <= 1 + 1e-9


@given(st.integers(0, 10_000), st.sampled_from(OTHERS))
def test_on_any_workload_with_any_targets(seed, mechanism):
    queries = random_queries(seed)
    targets = 10 ** np.random.default_rng(seed).uniform(-1, 1, len(queries))
    found = solvers.solve(mechanism, queries, targets)
    least = solvers.solve("CA", queries, targets)
    optimum = solvers.solve("optimal", queries, targets)
    assert total_error(found) >= total_error(least) * (1 - 1e-7)
    assert found.squared_privacy_cost >= optimum.lower_bound * (1 - 1e-9)
    assert np.all(found.query_variances <= targets * (1 + 1e-9))
