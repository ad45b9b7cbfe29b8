"""The traces of iterative mechanisms, against their final answers."""

import numpy as np
import pytest
from oracles import total_error

import solvers
import workloads


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
