"""Marginals: whole solves, each of which finds the structure anew.

Run: pytest benchmarks/bench_marginals.py --benchmark-columns=min,median,rounds
"""

import numpy as np
import pytest

import solvers
import workloads
from solvers.mechanisms.optimal import Optimal

CASES = {
    "3x16, orders 1 and 2": {"attributes": 3, "values": 16, "orders": [1, 2]},
    "30 mixed attributes, order 3": {
        "attributes": 30,
        "values": [4 + i % 9 for i in range(30)],
        "orders": [3],
    },
    "100x10, order 3": {"attributes": 100, "values": 10, "orders": [3]},
}
MECHANISMS = ("optimal", "SM-II", "CA", "wCA-I", "wCA-II", "fisher", "IP", "GM")


def targets_of(workload, kind):
    """Return equal targets, or targets with one integer from 1 to 10 for each marginal."""
    if kind == "equal":
        return np.ones(workload.target_count)
    drawn = np.random.default_rng(0).integers(1, 11, len(workload.group_sizes)).astype(float)
    return np.repeat(drawn, workload.group_sizes) if workload.listed else drawn


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("kind", ["equal", "random"])
@pytest.mark.parametrize("case", CASES)
def test_solve(benchmark, case, kind, mechanism):
    workload = workloads.make("marginals", **CASES[case])
    targets = targets_of(workload, kind)
    solution = benchmark.pedantic(solvers.solve, (mechanism, workload, targets), rounds=3)
    benchmark.extra_info["squared_privacy_cost"] = solution.squared_privacy_cost
    if mechanism in ("optimal", "SM-II"):
        benchmark.extra_info["gap"] = solution.gap
    assert solution.converged


def test_dense_optimum_for_comparison(benchmark):
    """Three attributes of 8 values, the largest case that the dense solver solves in seconds."""
    workload = workloads.make("marginals", attributes=3, values=8, orders=[1, 2])
    problem = solvers.Problem(workload, np.ones(workload.m))
    solution = benchmark.pedantic(Optimal().on_matrix, (problem,), rounds=1)
    structured = solvers.solve("optimal", workload)
    assert structured.squared_privacy_cost == pytest.approx(solution.squared_privacy_cost, rel=2e-6)
