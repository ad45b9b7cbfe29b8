"""Solves by the structure of the queries: the same numbers as from W, without W."""

import numpy as np
import pytest

import solvers
import workloads
from workloads import Workload, WorkloadError
from workloads.operators import Cumulative, Kronecker

TERMS = [["all-range:8", "prefix:4"], ["prefix:8", "all-range:4"], ["identity:8", "all-range:4"]]


class WithoutMatrix:
    """Refuses to write W out."""

    def matrix(self):
        raise WorkloadError("W was asked for")


class HiddenRanges(WithoutMatrix, Cumulative):
    """Ranges known by their structure alone."""


class HiddenProducts(WithoutMatrix, Kronecker):
    """Products known by their structure alone."""


RANGES = workloads.make("all-range", d=24)
UNION = workloads.make("kronecker", terms=TERMS)
HIDDEN = {
    "ranges": (RANGES, HiddenRanges(RANGES.operator.differences)),
    "union": (UNION, HiddenProducts(UNION.operator.terms)),
}


@pytest.mark.parametrize("mechanism", ["optimal", "CA", "wCA-I", "SM-II", "IP", "fisher"])
@pytest.mark.parametrize("kind", HIDDEN)
def test_the_query_matrix_gives_the_same_and_is_not_needed(kind, mechanism):
    workload, hidden = HIDDEN[kind]
    targets = np.random.default_rng(0).uniform(1, 10, workload.m)
    found = solvers.solve(mechanism, Workload(workload.name, hidden), targets)
    dense = solvers.solve(mechanism, workload.dense, targets)
    assert found.problem.factors.structured
    assert not dense.problem.factors.structured
    tolerance = 2e-3 if mechanism == "SM-II" else 2e-6
    assert found.squared_privacy_cost == pytest.approx(dense.squared_privacy_cost, rel=tolerance)
    np.testing.assert_allclose(found.query_variances.max(), dense.query_variances.max(), rtol=1e-2)
