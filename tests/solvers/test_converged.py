"""The meaning of `converged` for every mechanism with a ``tol``, in any units."""

import numpy as np
import pytest
from oracles import total_error

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


@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("steps", [1, 4, 15, 60])
@pytest.mark.parametrize("mechanism", [*LEAST_COST, *LEAST_TOTAL])
def test_converged_means_that_the_stated_gap_is_reached(mechanism, steps, kind):
    """However early it is stopped; compared with another solver's optimum of the same problem."""
    found = solvers.solve(mechanism, QUERIES[kind], max_iterations=steps)
    if mechanism in LEAST_TOTAL:
        least = total_error(solvers.solve("CA", QUERIES[kind], tol=1e-11))
        gap = total_error(found) / least - 1
    else:
        least = solvers.solve("interior-point", QUERIES[kind], tol=1e-8).squared_privacy_cost
        gap = found.squared_privacy_cost / least - 1
    assert gap >= -1e-7
    assert not found.converged or gap <= TOLERANCES[mechanism] + 1e-10


@pytest.mark.parametrize("mechanism", TOLERANCES)
def test_out_of_time_the_first_answer_is_feasible_and_has_not_converged(mechanism):
    found = solvers.solve(mechanism, workloads.make("prefix", d=32), time_limit=0.0)
    assert (found.timed_out, found.converged, found.iterations) == (True, False, 0)
    assert found.query_variances.max() == pytest.approx(1.0)
    assert found.gap > TOLERANCES[mechanism]
