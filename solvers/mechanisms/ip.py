"""Input perturbation: independent noise of equal variance on every cell of x."""

from dataclasses import dataclass

import numpy as np

from solvers.forms.kronecker import Product, multiply
from solvers.forms.orbits import AnyOrbits
from solvers.forms.orbits.orbit_noise import OrbitsNoise, on_every_cell
from solvers.mechanism import Mechanism, ProblemSize, Work, structured_work
from solvers.noise.factorisation import Factorisation, InBasis, identity, multiplied
from solvers.problem import Problem
from solvers.solution import Solution


def _express_on_cells(problem: Problem, deviation: float) -> InBasis:
    return InBasis(identity(problem.workload.d), problem.workload.operator, deviation)


def _express(noise: OrbitsNoise) -> InBasis:
    return _express_on_cells(noise.orbits.problem, noise.squared_privacy_cost**-0.5)


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
        """Independent noise of equal variance on every cell."""
        workload = problem.workload.operator
        ratios = workload.squared_row_norms() / problem.targets
        deviation = float(np.max(ratios)) ** -0.5
        noise = Factorisation(
            multiplied(workload, deviation),
            multiplied(identity(problem.workload.d), 1 / deviation),
            _express_on_cells(problem, deviation),
        )
        return Solution(self.name, problem, noise)

    def on_orbits(self, orbits: AnyOrbits) -> Solution:
        """Independent noise of equal variance on every cell of every orbit."""
        return Solution(self.name, orbits.problem, on_every_cell(self.name, orbits, _express))

    def on_factors(self, product: Product) -> Solution:
        """The product of the factors' solutions."""
        return multiply(self, product)

    def work(self, size: ProblemSize) -> Work:
        """A closed form on the structure of the queries."""
        return structured_work(size)
