"""ResidualPlanner against CA, `optimal` and its paper's own program; ResidualPlanner+ literally."""

import numpy as np
import pytest
import scipy.linalg as sla
from hypothesis import given
from marginal_problems import make, problems
from oracles import check_written_out, total_error

import solvers
import workloads
from solvers.forms.orbits import SingleOrbit

TABLES = [["age"], ["age", "sex"], ["race"], ["age", "sex", "race"]]


def census(age=6, sex=2, race=3, tables=TABLES, **ordered):
    attributes = {"age": age, "sex": sex, "race": race}
    ordered = ordered or {"prefixes": ["age"]}
    return workloads.make("census", attributes=attributes, tables=tables, **ordered)


@given(problems())
def test_the_least_total_variance_is_that_of_the_query_matrix(problem):
    ours = solvers.solve("ResidualPlanner", problem.workload, problem.targets)
    assert isinstance(ours.noise.orbits, SingleOrbit)
    matrix = solvers.solve("CA", problem.workload.dense, problem.targets, tol=1e-12)
    assert total_error(ours) == pytest.approx(total_error(matrix), rel=1e-9)
    np.testing.assert_allclose(ours.query_variances, matrix.query_variances, rtol=2e-5)


@pytest.mark.parametrize("mechanism", ["ResidualPlanner", "ResidualPlanner+"])
@pytest.mark.parametrize("sizes", [[16, 16, 16], [2, 3, 4, 5], [40, 7]])
def test_the_optimum_on_marginals(mechanism, sizes):
    workload = workloads.make(
        "marginals", attributes=len(sizes), values=sizes, orders=[1, 2][: len(sizes) - 1]
    )
    ours, least = solvers.solve(mechanism, workload), solvers.solve("CA", workload)
    assert total_error(ours) == pytest.approx(total_error(least), rel=1e-9)
    assert ours.squared_privacy_cost == pytest.approx(least.squared_privacy_cost, rel=1e-9)
    variances = ours.noise.query_variances
    np.testing.assert_allclose(variances, least.noise.query_variances, rtol=1e-9)


def test_the_least_largest_variance_is_fitness_for_use():
    problem = make([3, 4, 2], [[0, 1], [1, 2], [0]], [1.0, 4.0, 0.3])
    options = {"objective": "max-variance", "tol": 1e-9}
    ours = solvers.solve("ResidualPlanner", problem.workload, problem.targets, **options)
    matrix = solvers.solve("optimal", problem.workload.dense, problem.targets, tol=1e-9)
    assert ours.converged
    assert ours.squared_privacy_cost == pytest.approx(matrix.squared_privacy_cost, rel=2e-9)
    total = solvers.solve("ResidualPlanner", problem.workload, problem.targets)
    assert total.squared_privacy_cost > 1.05 * ours.squared_privacy_cost


@pytest.mark.parametrize(
    ("workload", "published", "within"),
    [
        (workloads.make("prefix", d=64), 318.29, 0.005),
        (census(30, 2, 32, TABLES[:2] + TABLES[3:]), 11282.9, 0.15),
        (census(116, 2, 63, TABLES[:2] + TABLES[3:]), 113718.8, 0.15),
    ],
)
def test_the_authors_code_gives_the_same_total_variance(workload, published, within):
    assert total_error(solvers.solve("ResidualPlanner+", workload)) == pytest.approx(
        published, abs=within
    )


def test_the_noise_has_the_stated_variances():
    workload = census()
    found = solvers.solve("ResidualPlanner+", workload)
    check_written_out(found)
    drawn = found.draw(4000, np.random.default_rng(0))
    ratios = np.square(drawn).mean(axis=0) / found.query_variances
    assert np.all(np.abs(ratios - 1) < 6 * np.sqrt(2 / 4000))


def literal_total(queries):
    """Both base mechanisms written out; the least total variance of their combination."""
    n = queries.shape[1]
    centre = np.eye(n) - 1 / n
    best = solvers.solve("CA", np.vstack([queries @ centre, np.ones(n)]))
    singular, rows = np.linalg.svd(best.noise.right @ centre, full_matrices=False)[1:]
    bases = (singular[:, None] * rows)[:-1], np.ones((1, n))
    costs = (np.square(base).sum(axis=0).max() for base in bases)
    totals = (np.square(queries @ np.linalg.pinv(base)).sum() for base in bases)
    return sum(map(np.sqrt, map(np.multiply, costs, totals))) ** 2


@pytest.mark.parametrize(
    "queries",
    [
        # the strategies measure the total of cells that no query sees: a third more than CA
        np.array([[1, -1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0], [0, 0, 0, 1, 1, 0, 0.0]]),
        np.vstack([np.ones(6), np.diag(np.logspace(0, -3, 6))]),
        *map(sla.hilbert, (4, 8, 10)),  # whose Gram matrices lose half of the digits or more
    ],
)
def test_both_base_mechanisms_written_out_give_the_same_total(queries):
    ours = solvers.solve("ResidualPlanner+", queries)
    assert ours.converged
    assert ours.notes["strategy_gap"] <= 1e-8
    least = total_error(solvers.solve("CA", queries))
    assert least * (1 - 1e-7) < total_error(ours) < 1.4 * least
    assert total_error(ours) == pytest.approx(literal_total(queries), rel=1e-5)
