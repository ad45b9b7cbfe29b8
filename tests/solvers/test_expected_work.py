"""What a solve is expected to take, by its mechanism, its options and its workload's structure."""

import tracemalloc

import numpy as np
import pytest
from counted_solve import Counts

import solvers
import workloads
from solvers.mechanisms.sm2 import products_without


@pytest.mark.parametrize("name", solvers.all_mechanisms())
def test_more_queries_over_more_cells_take_no_less(name):
    mechanism = solvers.all_mechanisms()[name]
    small, large = (mechanism.expected_work(n, n, {}) for n in (64, 512))
    assert 0 < small.flops <= large.flops
    assert 0 < small.bytes <= large.bytes


def test_presets_have_their_own_cost():
    workload = workloads.make("range", d=256)
    options = solvers.all_mechanisms()["SM-II"].resolve("published", {})
    default = solvers.expected_work("SM-II", workload)
    assert solvers.expected_work("SM-II", workload, options).flops > 2 * default.flops


def test_options_that_cost_nothing_do_not_matter():
    workload = workloads.make("prefix", d=64)
    base = solvers.expected_work("optimal", workload)
    assert solvers.expected_work("optimal", workload, {"tol": 1e-9, "refined": False}) == base


def test_conjugate_gradients_to_the_end_in_a_basis_that_stays_are_planned():
    workload = workloads.make("prefix", d=64)
    steps = ({"max_cg": 5}, {})
    five, every = (
        solvers.expected_work("SM-II", workload, {"basis": "identity", **cg}).flops for cg in steps
    )
    assert every > 3 * five


def test_planning_prefixes_of_many_ages_builds_none_of_them():
    tracemalloc.start()
    workload = workloads.make(
        "census",
        attributes={"age": 3000, "sex": 2, "race": 7},
        tables=[["age"], ["age", "sex"], ["age", "sex", "race"]],
        prefixes=["age"],
    )
    planned = solvers.expected_work("optimal", workload)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 3000**2 / 2
    assert planned.bytes > 8 * 3000**2
    np.testing.assert_array_equal(workload.operator.terms[0][0], np.tri(3000))


@pytest.mark.parametrize("family", ["prefix", "range", "random", "wrelated", "identity-sum"])
@pytest.mark.parametrize("d", [16, 64, 128])
def test_a_small_dense_optimum_is_planned_by_what_it_computes(monkeypatch, family, d):
    workload = workloads.from_matrix(workloads.make(family, d=d).dense)
    targets = np.random.default_rng(0).integers(1, 11, workload.m)
    counts = Counts(monkeypatch)
    assert solvers.solve("optimal", workload, targets).converged
    counted = counts.with_the_rest(sum(workload.shape), min(workload.shape))
    assert 0.5 < solvers.expected_work("optimal", workload).flops / counted < 2


@pytest.mark.parametrize("family", ["prefix", "range", "random", "wrelated", "identity-sum"])
def test_a_dense_optimum_takes_no_more_memory_than_planned(family):
    workload = workloads.from_matrix(workloads.make(family, d=256).dense)
    targets = np.random.default_rng(0).integers(1, 11, workload.m)
    tracemalloc.start()
    assert solvers.solve("optimal", workload, targets, tol=1e-3).converged
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < solvers.expected_work("optimal", workload).bytes


@pytest.mark.parametrize("basis", ["identity", "workload"])
def test_products_without_a_preconditioner_are_planned_as_they_are_counted(basis):
    ratios = []
    for family in ("prefix", "range", "random", "wrelated", "identity-sum", "all-range"):
        queries = workloads.make(family, d=10).dense
        for targets in (1.0, 10 ** np.random.default_rng(0).uniform(0, 1, len(queries))):
            found = solvers.solve("SM-II", queries, targets, basis=basis)
            rank = np.linalg.matrix_rank(queries)
            ratios.append(found.notes["products"] / products_without(int(rank), None))
    assert 1 / 1.5 < np.median(ratios) < 1.5
