"""Input perturbation: independent noise of equal variance on every cell of x."""

from dataclasses import dataclass

from solvers.forms.kronecker import Product, multiply
from solvers.forms.orbits import AnyOrbits, Unreduced
from solvers.forms.orbits.orbit_noise import OrbitsNoise, on_every_cell
from solvers.mechanism import Mechanism, ProblemSize, Work, structured_work
from solvers.noise.factorisation import InBasis, identity
from solvers.problem import Problem
from solvers.solution import Solution


def _express(noise: OrbitsNoise) -> InBasis:
    workload, deviation = noise.orbits.problem.workload, noise.squared_privacy_cost**-0.5
    return InBasis(identity(workload.d), workload.operator, deviation)


@dataclass(frozen=True)
class IP(Mechanism):
    """Input perturbation: independent noise of equal variance on every cell of x.

    Δ² = max_j ||w_j||² / c_j for queries w_j with targets c_j. The mechanism is "IP" in
    PVLDB 14(10), section 7, and "GM" in the tables of arXiv v1.
    B is a multiple of the identity and L a multiple of W.
    """

    name = "IP"
    source = "PVLDB 14(10), section 7"
    flops_per_pair = 2e3

    def on_matrix(self, problem: Problem) -> Solution:
        """Return independent noise of equal variance on every cell."""
        return self.on_orbits(Unreduced.of(problem))

    def on_orbits(self, orbits: AnyOrbits) -> Solution:
        """Return independent noise of equal variance on every cell of every orbit."""
        noise = on_every_cell(self.name, orbits, _express)
        return Solution(self.name, orbits.problem, orbits.present(noise, noise.parts))

    def on_factors(self, product: Product) -> Solution:
        """Return the product of the factors' solutions."""
        return multiply(self, product)

    def work(self, size: ProblemSize) -> Work:
        """Estimate the work: a closed form that uses the structure of the queries."""
        return structured_work(size)
