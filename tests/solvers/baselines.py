"""Shared by the tests of the KDD'16 baselines: workloads, total errors, brute force."""

import numpy as np
from oracles import total_error

import solvers
import workloads

FAMILIES = {
    "prefix": ("prefix", {"d": 16}),
    "all-range": ("all-range", {"d": 9}),
    "identity-sum": ("identity-sum", {"d": 12}),
    "marginals": ("marginals", {"attributes": 3, "values": 3, "orders": [1, 2]}),
    "wdiscrete": ("wdiscrete", {"d": 16, "m": 24, "seed": 1}),
    "wrange": ("wrange", {"d": 16, "m": 24, "seed": 2}),
    "wmarginal": ("wmarginal", {"d": 16, "m": 24, "seed": 3}),
    "wrelated": ("wrelated", {"d": 16, "m": 12, "seed": 4}),
}


def family(name):
    kind, params = FAMILIES[name]
    return workloads.make(kind, **params)


def least_total_error(problem):
    """The matrix mechanism's optimum, certified by the dual to 1e-8."""
    return total_error(solvers.solve("CA", problem))


def random_queries(seed):
    """Small integer queries, often rank deficient, sometimes with a zero row or column."""
    rng = np.random.default_rng(seed)
    m, d = rng.integers(1, 10, size=2)
    queries = rng.integers(-2, 3, size=(m, d)).astype(float)
    queries[0, 0] = 1.0
    return queries
