"""SM-II with its published options, compared with literal Algorithms 1 to 3 and with its defaults.

Run: pytest benchmarks/bench_sm2.py --benchmark-columns=min,median,rounds
"""

import numpy as np
import pytest

import solvers
import workloads
from benchmarks.bench_optimal import REFERENCE
from solvers.problem import as_problem
from solvers.soft_max import basis

PUBLISHED = {
    "prefix, d = 64": ("prefix", {"d": 64}),
    "prefix, d = 128": ("prefix", {"d": 128}),
    "all ranges, d = 16": ("all-range", {"d": 16}),
    "range, d = 64": ("range", {"d": 64}),
    "random, d = 32": ("random", {"d": 32}),
}
DEFAULT = {
    "prefix, d = 64": ("prefix", {"d": 64}),
    "prefix, d = 256": ("prefix", {"d": 256}),
    "PL-94": ("pl94", {}),
    "age": ("age", {}),
    "range, d = 64": ("range", {"d": 64}),
}
PUBLISHED_SECONDS = 60.0


@pytest.mark.parametrize("case", PUBLISHED)
def test_literal(benchmark, case):
    name, params = PUBLISHED[case]
    workload = workloads.make(name, **params)
    factored = basis.factor(as_problem(workload), "paper")
    inputs = REFERENCE.Inputs(factored.basis, factored.representation, np.ones(workload.m))
    first = np.eye(len(factored.basis))
    first = 0.99 / REFERENCE.ratios(inputs, first).max() * first
    benchmark.group = f"published options: {case}"
    covariance, iterations = benchmark.pedantic(
        REFERENCE.optimize, (inputs, first, REFERENCE.Constants()), rounds=1
    )
    cost = REFERENCE.privacy(inputs, covariance).max() * REFERENCE.ratios(inputs, covariance).max()
    benchmark.extra_info |= {"iterations": iterations, "squared_privacy_cost": float(cost)}


@pytest.mark.parametrize("case", PUBLISHED)
def test_published(benchmark, case):
    name, params = PUBLISHED[case]
    workload = workloads.make(name, **params)
    benchmark.group = f"published options: {case}"
    solution = benchmark.pedantic(
        solvers.solve, ("SM-II", workload), {"preset": "published"}, rounds=3
    )
    benchmark.extra_info |= {
        "iterations": solution.iterations,
        "squared_privacy_cost": solution.squared_privacy_cost,
    }


@pytest.mark.parametrize("preset", [None, "published"])
@pytest.mark.parametrize("case", DEFAULT)
def test_solve(benchmark, case, preset):
    name, params = DEFAULT[case]
    workload = workloads.make(name, **params)
    benchmark.group = case
    options = {"preset": preset, "time_limit": PUBLISHED_SECONDS}
    solution = benchmark.pedantic(solvers.solve, ("SM-II", workload), options, rounds=1)
    benchmark.extra_info["gap"] = solution.gap
    benchmark.extra_info["timed_out"] = solution.timed_out
