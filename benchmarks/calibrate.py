"""Measures how long solves take, relative to the work that their mechanisms declare.

The results go to ``sweep/plan/calibration.json``, which ``sweep plan`` and the packing of tasks
use. The measurement takes a minute or two on one thread; nothing else should run on the machine. If
mechanisms are named as arguments, only these are measured, and the file's other entries, machine
and date stay as they are.
"""

import json
import statistics
import sys
import time

import numpy as np
from threadpoolctl import threadpool_limits

import solvers
import workloads
from sweep.plan.costs import CALIBRATION_FILE
from sweep.store.environment import describe

WORKLOADS = (
    ("prefix", {"d": 128}),
    ("range", {"d": 64}),
    ("range", {"d": 128}),
    ("all-range", {"d": 32}),
    ("random", {"d": 64}),
    ("wrelated", {"d": 128}),
)
MARGINALS = (
    ("marginals", {"attributes": 3, "values": 16, "orders": [1, 2]}),
    ("marginals", {"attributes": 30, "values": 6, "orders": [3]}),
)
"""Workloads for mechanisms that can solve only marginals."""
LONGEST_SECONDS = 5.0
SHORTEST_SECONDS = 2e-3


def seconds_per_flop(size=1000, times=10):
    """Return the CPU seconds of one floating-point operation in the fastest of several products.

    The products are of two ``size`` x ``size`` matrices.
    """
    matrix = np.random.default_rng(0).standard_normal((size, size))
    best = np.inf
    for _ in range(times):
        started = time.process_time()
        matrix @ matrix
        best = min(best, time.process_time() - started)
    return best / (2 * size**3)


def measured(seconds_per_flop, names=()):
    """Measure the ratio of actual to declared CPU seconds of mechanisms for query matrices.

    Parameters
    ----------
    seconds_per_flop : float
        CPU seconds of one operation in a matrix product, on one thread of this machine.
    names : collection of str
        Names of the mechanisms to measure; all if empty.

    Returns
    -------
    dict of str to float
        Median of the ratio over the workloads, by mechanism. A mechanism that solves none of them
        in time is missing.
    """
    return {
        name: statistics.median(ratios)
        for name, mechanism in solvers.all_mechanisms().items()
        if "matrix" in mechanism.workload_kinds and (not names or name in names)
        for ratios in [_ratios(mechanism, seconds_per_flop)]
        if ratios
    }


def _ratios(mechanism, seconds_per_flop):
    solved = [*_solved(mechanism, WORKLOADS)] or [*_solved(mechanism, MARGINALS)]
    return [
        seconds / (declared * seconds_per_flop)
        for seconds, declared in solved
        if seconds >= SHORTEST_SECONDS
    ]


def _solved(mechanism, made):
    """Yield CPU seconds and declared operations for each workload solved within the time limit."""
    limit = {"time_limit": LONGEST_SECONDS} if "time_limit" in mechanism.params() else {}
    for family, params in made:
        workload = workloads.make(family, **params)
        started = time.process_time()
        try:
            solution = solvers.solve(mechanism.name, workload, **limit)
        except solvers.SolverError:
            continue
        seconds = time.process_time() - started
        if solution.converged:
            yield seconds, solvers.expected_work(mechanism.name, workload).flops


def main(names):
    with threadpool_limits(limits=1):
        factors = {
            name: float(f"{factor:.2g}")
            for name, factor in measured(seconds_per_flop(), names).items()
        }
    if names:
        made = json.loads(CALIBRATION_FILE.read_text(encoding="utf-8"))
        made["factors"].update(factors)
    else:
        made = {
            "machine": describe()["cpu_model"],
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "revision": describe()["git_revision"],
            "factors": factors,
        }
    CALIBRATION_FILE.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    for name, factor in made["factors"].items():
        print(f"{name:20s} {factor:g}")


if __name__ == "__main__":
    main(sys.argv[1:])
