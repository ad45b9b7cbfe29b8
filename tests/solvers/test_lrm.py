"""The low-rank mechanism: close to CA."""

import pytest
from baselines import least_total_error
from oracles import total_error

import solvers
import workloads


@pytest.mark.parametrize(("seed", "tol"), [(0, 1e-2), (2, 1e-4)])
def test_it_has_not_converged_while_queries_of_small_singular_values_are_left_out(seed, tol):
    """Such queries hardly matter for the norm of W - BL, but decide the unbiased answer."""
    workload = workloads.make("wdiscrete", d=64, m=64, seed=seed)
    solution = solvers.solve("LRM", workload, tol=tol)
    assert solution.converged
    assert solution.notes["bias"] <= 1e-3
    assert total_error(solution) <= least_total_error(workload) * 1.005
