"""The time that ``sweep plan`` expects of a solve against the time it takes, on one core.

``expected_over_measured`` should lie between 0.5 and 2: the coefficients of ``work`` in the
mechanisms were fitted to that.
"""

import time

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import solvers
import workloads

SHAPES = [
    ("prefix", 64),
    ("prefix", 256),
    ("prefix", 512),
    ("range", 64),
    ("range", 256),
    ("range", 512),
    ("random", 128),
    ("wrelated", 256),
    ("all-range", 64),
    ("all-range", 256),
]


def flops_per_second():
    """The rate of matrix products on one core: the best of ten."""
    matrix = np.random.default_rng(0).standard_normal((1000, 1000))
    best = np.inf
    for _ in range(10):
        started = time.process_time()
        matrix @ matrix
        best = min(best, time.process_time() - started)
    return 2 * 1000**3 / best


@pytest.mark.parametrize("mechanism", ["optimal", "CA", "SM-II"])
@pytest.mark.parametrize(("family", "d"), SHAPES)
def test_expected_work(benchmark, mechanism, family, d):
    workload = workloads.make(family, d=d)
    solvers.solve(mechanism, workloads.make(family, d=8))
    with threadpool_limits(1):
        rate = flops_per_second()
        started = time.process_time()
        solution = benchmark.pedantic(solvers.solve, (mechanism, workload), rounds=1)
        measured = time.process_time() - started
    assert solution.converged
    expected = solvers.expected_work(mechanism, workload).flops / rate
    benchmark.extra_info.update(
        expected_s=expected, measured_s=measured, expected_over_measured=expected / measured
    )
