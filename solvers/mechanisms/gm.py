"""Gaussian mechanism: independent noise of equal variance on every query."""

from dataclasses import dataclass

from solvers.forms.kronecker import Product, multiply
from solvers.forms.orbits import AnyOrbits, Unreduced
from solvers.forms.orbits.orbit_noise import OrbitsNoise, on_every_query
from solvers.mechanism import Mechanism, ProblemSize, Work, structured_work
from solvers.noise.factorisation import InBasis, identity
from solvers.problem import Problem
from solvers.solution import Solution


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
        """Independent noise of equal variance on every query."""
        return self.on_orbits(Unreduced.of(problem))

    def on_orbits(self, orbits: AnyOrbits) -> Solution:
        """Independent noise of equal variance on every query of every orbit."""
        noise = on_every_query(orbits, float(orbits.targets.min()) ** 0.5, _express)
        return Solution(self.name, orbits.problem, orbits.present(noise, noise.parts))

    def on_factors(self, product: Product) -> Solution:
        """The product of the factors' solutions."""
        return multiply(self, product)

    def work(self, size: ProblemSize) -> Work:
        """A closed form on the structure of the queries."""
        return structured_work(size)
