"""The rule of reductions: tried in order, the query matrix last, every refusal explained."""

import numpy as np
import pytest

import solvers
import workloads
from solvers.dual.iteration import Stopping
from solvers.forms import reduction
from solvers.problem import as_problem

MARGINALS = workloads.make("marginals", attributes=2, values=[2, 3])
PRODUCT = workloads.make("kronecker", terms=[["prefix:4", "prefix:3"]])
UNION = workloads.make("kronecker", terms=[["prefix:4", "total:3"], ["identity:4", "identity:3"]])
RANGES = workloads.make("range", d=8)


@pytest.mark.parametrize("workload", [MARGINALS, PRODUCT, UNION, RANGES], ids=lambda w: w.name)
def test_every_reduction_that_accepts_a_problem_bounds_it_alike(workload):
    problem = as_problem(workload, 3.0)
    optimum = solvers.solve("optimal", workload.dense, 3.0, tol=1e-8).squared_privacy_cost
    for one in solvers.all_reductions():
        smaller = one.accepts(problem)
        if smaller is not None and not isinstance(smaller, str):
            bound = one.lower_bound(smaller, Stopping(1e-6, 100))
            assert optimum * (1 - 2e-6) <= bound <= optimum * (1 + 1e-8)


def test_work_is_that_of_the_reduction_that_solves():
    by_factors = solvers.expected_work("optimal", PRODUCT)
    on_the_matrix = solvers.expected_work("optimal", PRODUCT, {"refined": True})
    assert on_the_matrix == solvers.all_mechanisms()["optimal"].work(12, 12)
    assert by_factors != on_the_matrix


def test_a_refusal_names_every_obstacle():
    problem = as_problem(workloads.make("marginals", attributes=30, values=10, orders=[2]))
    uneven = as_problem(problem.workload, np.arange(1.0, problem.workload.m + 1))
    with pytest.raises(solvers.NotApplicableError) as refused:
        reduction.lower_bound(uneven, 1e-4, 100, None)
    assert str(refused.value) == (
        "a certified lower bound on 43500 queries over about 10^30 cells: too large for query "
        "matrices, and the targets within 435 of 435 groups, the first of them '0,1', differ from "
        "value to value, so no two cells are equivalent"
    )
