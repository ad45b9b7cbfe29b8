"""SM-II against the literal Algorithms 1 to 3, and its default against the published options.

Run: pytest benchmarks/bench_sm2.py --benchmark-columns=min,median,rounds
"""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import solvers
import workloads
from solvers import basis
from solvers.problem import as_problem

REFERENCE = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "tests" / "solvers" / "sm2_reference.py"))
)
ITERATIONS = {"prefix": (64, 25), "all-range": (24, 25), "random": (128, 5)}
DEFAULT = {
    "prefix, d = 64": ("prefix", {"d": 64}),
    "prefix, d = 256": ("prefix", {"d": 256}),
    "PL-94": ("pl94", {}),
    "age": ("age", {}),
    "range, d = 64": ("range", {"d": 64}),
}
PUBLISHED_SECONDS = 60.0


def same_start(name):
    d, iterations = ITERATIONS[name]
    workload = workloads.make(name, d=d)
    return workload, basis.factor(as_problem(workload), "paper"), iterations


@pytest.mark.parametrize("name", ITERATIONS)
def test_literal_iterations(benchmark, name):
    workload, factored, iterations = same_start(name)
    left = factored.representation
    left = left.toarray() if hasattr(left, "toarray") else left
    inputs = REFERENCE.Inputs(factored.basis, left, np.ones(workload.m))
    first = np.eye(len(factored.basis))
    first = 0.99 / REFERENCE.ratios(inputs, first).max() * first
    constants = REFERENCE.Constants(MAXITER=iterations)
    benchmark.group = f"{iterations} iterations, {name}"
    covariance, _ = benchmark.pedantic(
        REFERENCE.optimize, (inputs, first, constants), rounds=1, warmup_rounds=0
    )
    benchmark.extra_info["squared_privacy_cost"] = float(
        REFERENCE.privacy(inputs, covariance).max() * REFERENCE.ratios(inputs, covariance).max()
    )


@pytest.mark.parametrize("name", ITERATIONS)
def test_shared_iterations(benchmark, name):
    workload, _, iterations = same_start(name)
    benchmark.group = f"{iterations} iterations, {name}"
    problem = as_problem(workload)
    chosen = solvers.methods()["SM-II"]
    options = chosen.resolve("published", {"max_iterations": iterations, "time_limit": 1e6})
    solution = benchmark.pedantic(chosen.solve, (problem,), options, rounds=3, warmup_rounds=1)
    benchmark.extra_info["squared_privacy_cost"] = solution.squared_privacy_cost


@pytest.mark.parametrize("preset", [None, "published"])
@pytest.mark.parametrize("case", DEFAULT)
def test_solve(benchmark, case, preset):
    name, params = DEFAULT[case]
    workload = workloads.make(name, **params)
    benchmark.group = case
    solution = benchmark.pedantic(
        solvers.solve,
        ("SM-II", workload),
        {"preset": preset, "time_limit": PUBLISHED_SECONDS},
        rounds=1,
        warmup_rounds=0,
    )
    benchmark.extra_info["gap"] = solution.gap
    benchmark.extra_info["timed_out"] = solution.timed_out
