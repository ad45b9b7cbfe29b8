"""Marginals: closed forms, published optima, invariances, certificates."""

from itertools import combinations
from math import comb, prod

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marginal_problems import problems

import solvers
import workloads


def solve(name, problem, **options):
    return solvers.solve(name, problem.workload, problem.targets, **options)


@pytest.mark.parametrize(("attributes", "values"), [(1, 7), (3, 5), (40, 10)])
def test_one_way_marginals_in_closed_form(attributes, values):
    """Least 1/s_0 + k(n-1)/s_1 with (s_0 + (n-1) s_1)/n² = 1: Cauchy-Schwarz."""
    workload = workloads.make("marginals", attributes=attributes, values=values, orders=[1])
    solution = solvers.solve("optimal", workload, tol=1e-10)
    expected = ((1 + np.sqrt(attributes) * (values - 1)) / values) ** 2
    assert solution.squared_privacy_cost == pytest.approx(expected, rel=1e-9)


def test_all_three_way_marginals_of_equal_attributes_in_closed_form():
    """All marginals are equivalent, so their common bound is the only constraint."""
    attributes, values, order = 100, 10, 3
    workload = workloads.make("marginals", attributes=attributes, values=values, orders=[order])
    solution = solvers.solve("optimal", workload)
    terms = (
        (values - 1) ** size * np.sqrt(comb(attributes, size) * comb(order, size))
        for size in range(order + 1)
    )
    assert solution.squared_privacy_cost == pytest.approx((sum(terms) / values**order) ** 2)
    assert workload.d == 10**100
    np.testing.assert_allclose(solution.query_variances, np.ones(comb(attributes, order)))


def closure(subsets):
    return {
        part
        for subset in subsets
        for n in range(len(subset) + 1)
        for part in combinations(subset, n)
    }


def residual_planner(problem):
    """Privacy cost and variance of each residual by ResidualPlanner's own formulas.

    Xiao, He, Zhang and Kifer, NeurIPS 2023: p_S = prod of (n_i - 1)/n_i, and a cell of
    marginal T has variance sum over S within T of sigma_S² p_S prod over T less S of n_j^-2.
    """
    operator = problem.workload.operator
    sizes, parts = operator.sizes, sorted(closure(operator.subsets))
    p = np.array([prod((sizes[i] - 1) / sizes[i] for i in part) for part in parts])
    cells = np.array(
        [
            [
                set(part) <= set(subset) and prod(sizes[j] ** -2.0 for j in set(subset) - set(part))
                for part in parts
            ]
            for subset in operator.subsets
        ],
        dtype=float,
    )
    return p, cells * p


@given(problems(least_size=2), st.sampled_from([("CA", 0), ("wCA-II", 1), ("wCA-I", 2)]))
def test_total_error_is_residual_planners(problem, mechanism):
    """Its closed form: (sum_S sqrt(v_S p_S))² at unit privacy cost."""
    name, power = mechanism
    p, variances = residual_planner(problem)
    first = np.unique(problem.workload.groups, return_index=True)[1]
    weights = np.array(problem.workload.group_sizes) * problem.targets[first] ** -float(power)
    expected = np.sqrt((weights @ variances) * p).sum() ** 2
    solution = solve(name, problem)
    found = solution.squared_privacy_cost * float(weights @ solution.noise.orbit_variances)
    assert found == pytest.approx(expected, rel=1e-9)


@settings(max_examples=6)
@given(problems(least_size=2))
def test_largest_variance_is_residual_planners_through_a_conic_solver(problem):
    p, variances = residual_planner(problem)
    first = np.unique(problem.workload.groups, return_index=True)[1]
    sigma = cp.Variable(p.size, pos=True)
    scaled = variances / problem.targets[first][:, None]
    task = cp.Problem(cp.Minimize(p @ cp.inv_pos(sigma)), [scaled @ sigma <= 1])
    task.solve(solver=cp.CLARABEL)
    found = solve("optimal", problem, tol=1e-8).squared_privacy_cost
    assert found == pytest.approx(task.value, rel=1e-5)
