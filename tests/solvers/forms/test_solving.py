"""The choice of a reduction, and the rule of all reductions."""

from contextlib import suppress

import numpy as np
import pytest

import solvers
import workloads
from solvers.dual.iteration import Stopping
from solvers.forms.dense import QueryMatrix
from solvers.forms.kronecker import Product
from solvers.forms.orbits import ProductOrbits, SingleOrbit
from solvers.forms.reduction import ObstacleError
from solvers.forms.solving import lower_bound
from solvers.mechanism import ProblemSize
from solvers.mechanisms.optimal import Optimal
from solvers.problem import as_problem

MARGINALS = workloads.make("marginals", attributes=2, values=[2, 3])
PRODUCT = workloads.make("kronecker", terms=[["prefix:4", "prefix:3"]])
UNION = workloads.make("kronecker", terms=[["prefix:4", "total:3"], ["identity:4", "identity:3"]])
RANGES = workloads.make("range", d=8)


@pytest.mark.parametrize(
    ("workload", "smaller"),
    [(MARGINALS, [SingleOrbit]), (PRODUCT, [Product]), (UNION, [ProductOrbits]), (RANGES, [])],
    ids=["marginals", "product", "union", "ranges"],
)
def test_every_reduction_that_accepts_a_problem_bounds_it_alike(workload, smaller):
    problem = as_problem(workload, 3.0)
    optimum = solvers.solve("optimal", workload.dense, 3.0, tol=1e-8).squared_privacy_cost
    bounds = {}
    for kind in solvers.REDUCTIONS:
        with suppress(ObstacleError):
            reduced = kind.of(problem)
            if reduced is not None:
                bounds[kind] = reduced.lower_bound(Stopping(1e-6, 100))
    assert set(bounds) == {*smaller, QueryMatrix}
    for bound in bounds.values():
        assert optimum * (1 - 2e-6) <= bound <= optimum * (1 + 1e-8)


def test_work_is_that_of_the_reduction_that_solves():
    by_factors = solvers.expected_work("optimal", PRODUCT)
    on_the_matrix = solvers.expected_work("optimal", PRODUCT, {"refined": True})
    assert on_the_matrix == Optimal().work(ProblemSize(12, 12))
    assert by_factors != on_the_matrix


def test_a_refusal_names_every_obstacle():
    problem = as_problem(workloads.make("marginals", attributes=30, values=10, orders=[2]))
    uneven = as_problem(problem.workload, np.arange(1.0, problem.workload.m + 1))
    obstacles = "10.30 cells: too large .*, and the targets within 435 of 435 groups"
    with pytest.raises(solvers.NotApplicableError, match=obstacles):
        lower_bound(uneven, Stopping(1e-4))
