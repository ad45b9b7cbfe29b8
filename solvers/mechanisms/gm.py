"""Gaussian mechanism: independent noise of equal variance on every query."""

from dataclasses import dataclass

import numpy as np

from solvers.forms.kronecker import Product, multiply
from solvers.forms.orbits import AnyOrbits, Unreduced
from solvers.forms.orbits.orbit_noise import OrbitsNoise, on_every_query
from solvers.mechanism import Mechanism, ProblemSize, Work, structured_work
from solvers.noise.factorisation import Factorisation, InBasis, identity, multiplied
from solvers.problem import Problem
from solvers.solution import Solution
from workloads.operators import Explicit


def _express(noise: OrbitsNoise) -> InBasis:
    problem, deviation = noise.orbits.problem, noise.query_deviation
    assert deviation is not None
    return InBasis(problem.workload.operator, identity(problem.workload.m), deviation)


@dataclass(frozen=True)
class GM(Mechanism):
    """Gaussian mechanism: independent noise of equal variance on every query.

    Δ² = (largest squared column norm of W) / min c, where c are the targets; no answer is derived
    from other answers. Every query gets the variance min c, so only the tightest target is just met
    (KDD'16, section 2). L is a multiple of the identity and B a multiple of W. By this definition
    the target of an all-zero query limits the noise, too, although the answer 0 needs no noise.
    """

    name = "GM"
    source = "KDD'16, sections 2 and 5; PVLDB 14(10), section 7"
    flops_per_pair = 2e3

    def on_matrix(self, problem: Problem) -> Solution:
        """Return independent noise of equal variance on every query."""
        return self.on_orbits(Unreduced.of(problem))

    def on_orbits(self, orbits: AnyOrbits) -> Solution:
        """Return independent noise of equal variance on every query of every orbit."""
        noise = on_every_query(orbits, float(orbits.targets.min()) ** 0.5, _express)
        return Solution(self.name, orbits.problem, orbits.present(noise, noise.parts))

    def on_factors(self, product: Product) -> Solution:
        """Return the product of the factors' solutions."""
        return multiply(self, product)

    def work(self, size: ProblemSize) -> Work:
        """Estimate the work: a closed form that uses the structure of the queries."""
        return structured_work(size)


@dataclass(frozen=True)
class SpectralGM(Mechanism):
    """GM with the spectral norm of W in place of its sensitivity, as PVLDB 14(10) ran it.

    Δ² = ||W||₂² / min c. The spectral norm is the largest change of the answers over all x of norm
    1. One record changes x along one axis only, and the answers by the norm of one column of W,
    which is never more and, on PL-94, 8 times less: the answers have more noise than they need.
    The same Δ² is that of `GM` with one further answer for every cell, which no query uses and
    whose noise fills up the cell's column to the spectral norm.
    """

    name = "spectral-GM"
    source = "the authors' code of PVLDB 14(10), section 7"

    def on_matrix(self, problem: Problem) -> Solution:
        """Return independent noise of equal variance on every query and on every unused answer."""
        queries, deviation = problem.workload.dense, float(problem.targets.min()) ** 0.5
        missing = np.linalg.norm(queries, 2) ** 2 - problem.workload.operator.squared_column_norms()
        unused = np.diag(np.sqrt(np.maximum(missing, 0.0)))
        basis = Explicit(np.vstack([queries, unused]))
        answers = Explicit(np.eye(len(queries), len(queries) + len(unused)))
        noise = Factorisation(
            multiplied(answers, deviation),
            multiplied(basis, 1 / deviation),
            InBasis(basis, answers, deviation),
        )
        return Solution(self.name, problem, noise)

    def work(self, size: ProblemSize) -> Work:
        """A singular value decomposition of W."""
        m, d = size.m, size.d
        return Work(flops=20.0 * m * d * min(m, d), bytes=40.0 * (m + d) ** 2)
