"""Census workloads on orbits: whole solves, each of which finds the structure anew.

Run: pytest benchmarks/bench_census.py --benchmark-columns=min,median,rounds
"""

from itertools import chain, combinations

import pytest

import solvers
import workloads
from benchmarks.bench_optimal import one_eigh

PLACES = {"age": 116, "sex": 2, "ethnicity": 2, "race": 63, "place": 50}
LARGE = {"age": 100, "sex": 2, "region": 10, "county": 1000, "occupation": 500}


def subsets(names):
    return chain.from_iterable(combinations(names, n) for n in range(len(names) + 1))


CASES = {
    "32x{2,32}": {
        "attributes": {"age": 32, "sex": 2, "race": 32},
        "tables": [["age"], ["age", "sex"], ["age", "sex", "race"]],
        "prefixes": ["age"],
    },
    "116x{2,63,2}": {
        "attributes": {"age": 116, "sex": 2, "race": 63, "urban": 2},
        "tables": [["age"], ["age", "sex"], ["age", "sex", "race"]],
        "prefixes": ["age"],
    },
    "116x{2,2,63,50}": {
        "attributes": PLACES,
        "tables": [
            *(["age", *kept] for kept in subsets(["sex", "ethnicity", "race"])),
            ["place"],
        ],
        "prefixes": ["age"],
    },
    "ranges 100x{2,10,1000,500}": {
        "attributes": LARGE,
        "tables": [
            ["age"],
            ["age", "sex"],
            ["age", "region"],
            ["age", "sex", "region"],
            ["age", "county"],
            ["occupation"],
        ],
        "ranges": ["age"],
    },
}
SMALL = ("32x{2,32}", "116x{2,63,2}")


@pytest.mark.parametrize("case", CASES)
def test_optimal(benchmark, case):
    workload = workloads.make("census", **CASES[case])
    rounds = 3 if case in SMALL else 1
    found = benchmark.pedantic(solvers.solve, ("optimal", workload), rounds=rounds)
    assert found.gap <= 1e-6
    n = next(iter(CASES[case]["attributes"].values()))
    benchmark.extra_info["squared_privacy_cost"] = found.squared_privacy_cost
    benchmark.extra_info["eigh"] = benchmark.stats.stats.min / one_eigh(n)
    benchmark.extra_info["blocks"] = found.notes["blocks"]


@pytest.mark.parametrize("mechanism", ["CA", "fisher", "IP", "GM", "HM", "WM", "SM-II"])
@pytest.mark.parametrize("case", SMALL)
def test_others(benchmark, case, mechanism):
    workload = workloads.make("census", **CASES[case])
    found = benchmark.pedantic(solvers.solve, (mechanism, workload), rounds=3)
    benchmark.extra_info["squared_privacy_cost"] = found.squared_privacy_cost
    assert found.converged
