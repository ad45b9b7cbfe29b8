"""Solves that use the structure of the queries, compared with solves of the query matrix.

Run: pytest benchmarks/bench_structure.py --benchmark-columns=min,rounds
"""

import time

import numpy as np
import pytest

import solvers
import workloads

UNION = [["all-range:16", "prefix:16"], ["prefix:16", "all-range:16"]]
CASES = {
    "all ranges, d = 256": ("all-range", {"d": 256}),
    "20 d random ranges, d = 256": ("range", {"d": 256, "m": 5120}),
    "union of two Kronecker products, d = 256": ("kronecker", {"terms": UNION}),
}


@pytest.mark.parametrize("mechanism", ["optimal", "CA"])
@pytest.mark.parametrize("case", CASES)
def test_by_structure(benchmark, case, mechanism):
    family, params = CASES[case]
    workload = workloads.make(family, **params)
    started = time.perf_counter()
    dense = solvers.solve(mechanism, workload.dense)
    with_matrix = time.perf_counter() - started
    found = benchmark.pedantic(solvers.solve, (mechanism, workload), rounds=1, warmup_rounds=1)
    assert found.problem.factors.structured
    np.testing.assert_allclose(found.squared_privacy_cost, dense.squared_privacy_cost, rtol=1e-3)
    benchmark.extra_info["times_faster"] = with_matrix / benchmark.stats.stats.min
