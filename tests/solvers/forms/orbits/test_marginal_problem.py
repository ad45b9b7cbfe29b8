"""Marginals on a single orbit of cells."""

import numpy as np
import pytest

import solvers
import workloads


def test_a_start_saves_steps_and_changes_no_result_beyond_the_gap():
    workload = workloads.make(
        "marginals", attributes=8, values=[2, 3, 4, 5, 6, 7, 8, 9], orders=[1, 2]
    )
    rng, tol = np.random.default_rng(0), 1e-8
    targets = rng.uniform(1, 10, len(workload.group_sizes))
    near = targets * (1 + 0.02 * rng.uniform(-1, 1, targets.size))

    def solve(of_groups, **start):
        each = np.repeat(of_groups, workload.group_sizes)
        return solvers.solve("optimal", workload, each, tol=tol, **start)

    cold, warm = solve(near), solve(near, start=solve(targets).weights)
    assert warm.iterations < cold.iterations
    assert warm.squared_privacy_cost == pytest.approx(cold.squared_privacy_cost, rel=2 * tol)
    assert warm.converged
