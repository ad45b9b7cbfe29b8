"""Marginals against the query matrix, up to a thousand cells."""

import numpy as np
import pytest

import solvers
import workloads
from solvers.gaussian.factorisation import Factorisation
from solvers.orbits import SingleOrbit


@pytest.mark.parametrize(
    ("values", "orders"), [([10, 10, 10], [1, 2]), ([6, 10, 12], [1, 2]), ([3, 4, 5, 6], [0, 1, 3])]
)
@pytest.mark.parametrize("rule", ["uniform", "random-by-group"])
@pytest.mark.parametrize("mechanism", ["optimal", "CA", "wCA-I", "fisher", "IP", "GM"])
def test_the_query_matrix_confirms_every_number(values, orders, rule, mechanism):
    workload = workloads.make("marginals", attributes=len(values), values=values, orders=orders)
    targets = workloads.targets.make(rule, workload)
    structured = solvers.solve(mechanism, workload, targets)
    dense = solvers.solve(mechanism, workload.matrix, targets)
    assert isinstance(structured.noise.orbits, SingleOrbit)
    assert isinstance(dense.noise, Factorisation)
    assert structured.squared_privacy_cost == pytest.approx(dense.squared_privacy_cost, rel=3e-6)
    if mechanism not in ("optimal", "wCA-I"):
        np.testing.assert_allclose(structured.query_variances, dense.query_variances, rtol=1e-4)
    if mechanism == "optimal":
        assert structured.lower_bound == pytest.approx(dense.lower_bound, rel=3e-6)
