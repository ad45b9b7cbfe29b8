"""Solves by the structure of the queries: the same numbers as from W, without W."""

import numpy as np
import pytest

import solvers
import workloads
from workloads import Workload, WorkloadError
from workloads.operators import Cumulative, Kronecker

UNION = [["all-range:8", "prefix:4"], ["prefix:8", "all-range:4"], ["identity:8", "all-range:4"]]


class WithoutMatrix:
    """Refuses to write W out."""

    def matrix(self):
        raise WorkloadError("W was asked for")


class HiddenRanges(WithoutMatrix, Cumulative):
    """Ranges known by their structure alone."""


class HiddenProducts(WithoutMatrix, Kronecker):
    """Products known by their structure alone."""


def ranges(d=24):
    return workloads.make("all-range", d=d)


def union():
    return workloads.make("kronecker", terms=UNION)


def hidden(workload):
    operator = workload.operator
    if isinstance(operator, Cumulative):
        return Workload(workload.name, HiddenRanges(operator.differences))
    return Workload(workload.name, HiddenProducts(operator.terms))


def some_targets(workload, seed=0):
    return np.random.default_rng(seed).uniform(1, 10, workload.m)


@pytest.mark.parametrize("mechanism", ["optimal", "CA", "wCA-I", "SM-II", "IP", "fisher"])
@pytest.mark.parametrize("made", [ranges, union])
def test_the_query_matrix_gives_the_same_and_is_not_needed(made, mechanism):
    workload = made()
    targets = some_targets(workload)
    found = solvers.solve(mechanism, hidden(workload), targets)
    dense = solvers.solve(mechanism, workload.dense, targets)
    assert found.problem.factors.structured
    assert not dense.problem.factors.structured
    tolerance = 2e-3 if mechanism == "SM-II" else 2e-6
    assert found.squared_privacy_cost == pytest.approx(dense.squared_privacy_cost, rel=tolerance)
    np.testing.assert_allclose(found.query_variances.max(), dense.query_variances.max(), rtol=1e-2)
