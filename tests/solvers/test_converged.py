"""The meaning of `converged` for every mechanism with a ``tol``, in any units."""

import numpy as np
import pytest
from baselines import least_total_error, random_queries
from hypothesis import given
from hypothesis import strategies as st
from oracles import check_written_out, total_error

import solvers
import workloads

RNG = np.random.default_rng(0)
QUERIES = {
    "prefix": np.tri(6),
    "full rank": RNG.normal(size=(9, 5)),
    "deficient": RNG.normal(size=(8, 3)) @ RNG.normal(size=(3, 6)),
}
LEAST_COST = ("optimal", "SM-II", "interior-point", "GD")
LEAST_TOTAL = ("CA", "COA", "ESM")
TOLERANCES = {
    name: mechanism.options["tol"].default
    for name, mechanism in solvers.all_mechanisms().items()
    if "matrix" in mechanism.workload_kinds and "tol" in mechanism.options_on["matrix"]
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
    queries = random_queries(seed)
    targets = np.random.default_rng(seed).uniform(0.1, 10, len(queries))
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
