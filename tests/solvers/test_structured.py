"""Solves by the structure of the queries: the same numbers as from W, without W."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import solvers
import workloads
from solvers.dual.matrix_blocks import one_block
from solvers.problem import as_problem, factors
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


@given(st.integers(0, 10_000))
def test_singular_vectors_are_those_of_the_matrix(seed):
    workload = workloads.make("range", d=8, m=80, seed=seed)
    problem = as_problem(workload, some_targets(workload, seed))
    structured = factors.structured(problem.workload.operator)
    assume(structured is not None)
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(8)), rng.dirichlet(np.ones(80))
    x = np.concatenate([p, q])
    here, there = (
        one_block(one, np.zeros(80)).at(x)
        for one in (structured, factors.factorise(workload.dense))
    )
    np.testing.assert_allclose(here.profile, there.profile, rtol=1e-7)
    np.testing.assert_allclose(here.variance_ratios, there.variance_ratios, rtol=1e-7)
    mine, theirs = (one.spectrum.vectors(with_queries=True) for one in (here, there))
    weights = rng.standard_normal(88)
    signs = np.sign(np.sum(here.spectrum.columns * there.spectrum.columns, axis=0))
    turned = signs[:, None] * signs
    scale = np.abs(weights).max()
    grams = (np.tril(mine.gram(weights) * turned), np.tril(theirs.gram(weights)))
    np.testing.assert_allclose(*grams, atol=1e-4 * scale)
    half = rng.standard_normal((8, 8))
    np.testing.assert_allclose(
        mine.forms((half + half.T) * turned), theirs.forms(half + half.T), atol=1e-4
    )
    np.testing.assert_allclose(mine.squares(p), theirs.squares(p), atol=1e-5)
    at = np.array([0, 7, 8, 70])
    np.testing.assert_allclose(mine.rows(at) * signs, theirs.rows(at), atol=1e-4)


def test_the_newton_system_is_the_same():
    workload = ranges(12)
    n = workload.m + workload.d
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.dirichlet(np.ones(workload.d)), rng.dirichlet(np.ones(workload.m))])
    constraints = np.zeros((n, 2))
    constraints[: workload.d, 0], constraints[workload.d :, 1] = x[: workload.d], x[workload.d :]
    b, r = rng.standard_normal(n) * x, np.array([1e-3, -1e-3])
    steps = []
    for one in (factors.structured(workload.operator), factors.factorise(workload.dense)):
        point = one_block(one, np.zeros(workload.m)).at(x)
        system = point.newton_system(x, constraints)
        steps.append(system.solve(b, r, 0.03)[0])
    difference = steps[0] - steps[1]
    assert x @ np.square(difference) <= 0.1**2 * (x @ np.square(steps[1]))
