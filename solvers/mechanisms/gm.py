"""Gaussian mechanism: independent noise of one variance on every query."""

import numpy as np

from solvers.factorisation import Factorisation, InBasis, identity, multiplied
from solvers.marginals.noise import MarginalsNoise, QueryNoise
from solvers.marginals.structure import Structure
from solvers.mechanism import Mechanism, Work
from solvers.problem import Problem
from solvers.reductions.kronecker import Multiplicative
from solvers.reductions.marginals import OnMarginals
from solvers.solution import Solution


def solve(problem: Problem) -> Solution:
    """Δ² = max squared column norm of W / min c; no query is derived from another.

    Every query gets the variance min c, so only the tightest target is just met
    (KDD'16, section 2). L is a multiple of the identity, B of W.
    """
    deviation = float(problem.targets.min()) ** 0.5
    workload = problem.workload.operator
    queries = identity(problem.workload.m)
    noise = Factorisation(
        multiplied(queries, deviation),
        multiplied(workload, 1 / deviation),
        InBasis(workload, queries, deviation),
    )
    return Solution("GM", problem, noise)


def on_marginals(structure: Structure) -> Solution:
    """Noise of one variance on every query: Δ² is the number of marginals over min c."""
    variance = float(structure.targets.min())
    count = structure.targets.size
    noise = MarginalsNoise(structure, QueryNoise(count / variance, np.full(count, variance)))
    return Solution("GM", structure.problem, noise)


def work(m: int, d: int) -> Work:
    """A pass over W."""
    return Work(flops=4.0 * m * d, bytes=16.0 * m * d)


MECHANISMS = (
    Mechanism(
        "GM",
        "Gaussian mechanism: independent noise of one variance on every query",
        solve,
        source="KDD'16, section 2 [15]; PVLDB 14(10), section 7",
        work=work,
        forms=(OnMarginals(on_marginals, flops_per_pair=2e3), Multiplicative()),
    ),
)
