"""The meaning of `converged` in any units, traces against answers, answers against certificates."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import (
    check_written_out,
    least_total_error,
    proven_by,
    random_problem,
    total_error,
)

import solvers
import workloads
from solvers import SolveFailedError
from solvers.solution import ROUNDING

RNG = np.random.default_rng(0)
QUERIES = {
    "prefix": np.tri(6),
    "full rank": RNG.normal(size=(9, 5)),
    "deficient": RNG.normal(size=(8, 3)) @ RNG.normal(size=(3, 6)),
}
LEAST_COST = ("optimal", "SM-II", "interior-point", "GD")
LEAST_TOTAL = ("CA", "COA", "ESM")
TOLERANCES = {
    name: mechanism.params()["tol"].default
    for name, mechanism in solvers.all_mechanisms().items()
    if "matrix" in mechanism.workload_kinds and "tol" in mechanism.params("matrix")
    if name != "ResidualPlanner"  # of marginals only
}


@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("mechanism", TOLERANCES)
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_the_unit_of_the_queries_changes_neither_the_answer_nor_the_verdict(mechanism, scale, kind):
    limit = {"max_iterations": 300} if mechanism in ("COA", "GD") else {}
    plain = solvers.solve(mechanism, QUERIES[kind], **limit)
    scaled = solvers.solve(mechanism, QUERIES[kind] * scale, **limit)
    assert scaled.converged == plain.converged
    within = TOLERANCES[mechanism] if plain.converged else 1e-2
    cost, expected = scaled.squared_privacy_cost, plain.squared_privacy_cost * scale**2
    if mechanism in LEAST_TOTAL:
        cost, expected = total_error(scaled), total_error(plain) * scale**2
    assert cost == pytest.approx(expected, rel=within)


@pytest.mark.parametrize("mechanism", TOLERANCES)
@given(st.integers(0, 10_000), st.integers(0, 60))
def test_wherever_it_stops_it_is_feasible_and_its_certificate_holds(mechanism, seed, steps):
    queries, targets = random_problem(seed)
    start = {"seed": seed % 2} if mechanism == "LRM" and steps % 2 else {}
    found = solvers.solve(mechanism, queries, targets, max_iterations=steps, **start)
    check_written_out(found)
    assert np.max(found.query_variances / targets) == pytest.approx(1.0)
    assert found.iterations <= steps
    if mechanism in LEAST_COST:
        optimum = solvers.solve("optimal", queries, targets, tol=1e-9)
        assert found.lower_bound <= optimum.squared_privacy_cost * (1 + 1e-9)
        assert found.squared_privacy_cost >= optimum.lower_bound * (1 - 1e-9)
        assert found.converged == (found.gap <= TOLERANCES[mechanism])
    else:
        least = least_total_error(queries)
        assert total_error(found) >= least * (1 - 1e-7)
        if mechanism in LEAST_TOTAL:
            claimed = found.notes["total_error_gap"]
            rounding = 1e-7 if mechanism == "COA" else 1e-9  # its X may be nearly singular
            assert total_error(found) <= least * (1 + claimed) * (1 + rounding)
            assert found.converged == (claimed <= TOLERANCES[mechanism])


@pytest.mark.parametrize("mechanism", TOLERANCES)
def test_out_of_time_the_first_answer_is_feasible_and_has_not_converged(mechanism):
    found = solvers.solve(mechanism, workloads.make("prefix", d=32), time_limit=0.0)
    assert (found.timed_out, found.converged, found.iterations) == (True, False, 0)
    assert found.query_variances.max() == pytest.approx(1.0)
    assert found.gap > TOLERANCES[mechanism]


def trace_of(mechanism, workload, **options):
    solution = solvers.solve(mechanism, workload, **options)
    return solution, solution.arrays()


def test_coa_falls_to_the_total_error_that_it_returns():
    made = workloads.make("prefix", d=16)
    solution, arrays = trace_of("COA", made, preset="published", theta=1e-12)
    objective = arrays["trace_objective"]
    assert objective.size == solution.iterations + 1 > 10
    assert np.all(np.diff(objective) <= 1e-9 * objective[0])
    assert objective[0] == pytest.approx(float(np.sum(made.dense**2)))  # X = I: tr(WᵀW)
    assert objective[-1] == pytest.approx(total_error(solution), rel=1e-9)
    assert arrays["trace_gradient_norm"][-1] < 1e-3 * arrays["trace_gradient_norm"][0]


@pytest.mark.parametrize("mechanism", ["optimal", "SM-II", "GD"])
def test_bounds_close_in_on_the_privacy_cost(mechanism):
    solution, arrays = trace_of(mechanism, workloads.make("prefix", d=8))
    objective, bound = arrays["trace_objective"], arrays["trace_lower_bound"]
    known = bound[~np.isnan(bound)]
    assert objective.min() == pytest.approx(solution.squared_privacy_cost, rel=1e-6)
    assert known[-1] == pytest.approx(solution.lower_bound, rel=1e-9)
    assert np.all(np.diff(known) >= 0)
    assert objective.min() >= 2.281561 * (1 - 1e-6) >= known.max() * (1 - 2e-6)


def test_ca_and_lrm_trace_the_total_error():
    made = workloads.make("range", d=8, m=12, seed=0)
    for mechanism in ("CA", "LRM"):
        solution, arrays = trace_of(mechanism, made)
        least = arrays["trace_objective"].min()
        assert least == pytest.approx(total_error(solution), rel=1e-6), mechanism
    marginals = workloads.make("marginals", attributes=3, values=4, orders=[1, 2])
    for mechanism in ("optimal", "SM-II"):
        solution, arrays = trace_of(mechanism, marginals)
        least = arrays["trace_objective"].min()
        assert least == pytest.approx(solution.squared_privacy_cost, rel=1e-6), mechanism


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("mechanism", ["optimal", "SM-II", "interior-point"])
def test_queries_of_norms_over_twelve_decades_are_solved(mechanism, seed):
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((8, 8)) * 10.0 ** rng.uniform(-6, 6, (8, 1))
    found = solvers.solve(mechanism, matrix)
    proven = proven_by(found.weights, matrix, np.ones(8))
    assert found.converged
    assert found.squared_privacy_cost >= proven * (1 - ROUNDING)
    assert found.squared_privacy_cost <= proven * (1 + TOLERANCES[mechanism] + ROUNDING)


@pytest.mark.parametrize(
    ("name", "params"),
    [("prefix", {"d": 8}), ("marginals", {"attributes": 3, "values": 4, "orders": [1, 2]})],
)
def test_a_solution_below_its_bound_has_no_gap(name, params):
    solution = solvers.solve("optimal", workloads.make(name, **params))
    too_high = replace(solution, known_lower_bound=solution.squared_privacy_cost * (1 + 1e-7))
    with pytest.raises(SolveFailedError, match="contradicts its certificate"):
        _ = too_high.gap
    with pytest.raises(SolveFailedError, match="contradicts its certificate"):
        too_high.confirmed()
    rounded = replace(solution, known_lower_bound=solution.squared_privacy_cost * (1 + 1e-9))
    assert rounded.confirmed().gap == 0


@pytest.mark.parametrize("cost", [np.nan, np.inf, 0.0, -1.0])
def test_a_cost_that_is_no_positive_number_is_refused(cost):
    solution = solvers.solve("IP", np.tri(3))

    class Broken:
        gaussian = True
        squared_privacy_cost = cost

    with pytest.raises(SolveFailedError, match="expected a positive finite number"):
        replace(solution, noise=Broken()).confirmed()
