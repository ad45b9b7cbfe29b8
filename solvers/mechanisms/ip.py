"""Input perturbation: independent noise of equal variance on every cell of x."""

import numpy as np

from solvers.forms.kronecker import Multiplicative
from solvers.forms.orbits.on_orbits import OnOrbits
from solvers.forms.orbits.orbit_noise import AnyOrbits, OrbitsNoise, on_every_cell
from solvers.mechanism import Mechanism, structured_work
from solvers.noise.factorisation import Factorisation, InBasis, identity, multiplied
from solvers.problem import Problem
from solvers.solution import Solution


def solve(problem: Problem) -> Solution:
    """Input perturbation: independent noise of equal variance on every cell of x.

    Δ² = max_j ||w_j||² / c_j for queries w_j with targets c_j. The mechanism is "IP" in
    PVLDB 14(10), section 7, and "GM" in the tables of arXiv v1.
    B is a multiple of the identity and L a multiple of W.
    """
    workload = problem.workload.operator
    ratios = workload.squared_row_norms() / problem.targets
    deviation = float(np.max(ratios)) ** -0.5
    noise = Factorisation(
        multiplied(workload, deviation),
        multiplied(identity(problem.workload.d), 1 / deviation),
        _on_cells(problem, deviation),
    )
    return Solution("IP", problem, noise)


def _on_cells(problem: Problem, deviation: float) -> InBasis:
    return InBasis(identity(problem.workload.d), problem.workload.operator, deviation)


def on_orbits(orbits: AnyOrbits) -> Solution:
    """Independent noise of equal variance on every cell of every orbit."""
    return Solution("IP", orbits.problem, on_every_cell("IP", orbits, _of_orbits))


def _of_orbits(noise: OrbitsNoise) -> InBasis:
    return _on_cells(noise.orbits.problem, noise.squared_privacy_cost**-0.5)


MECHANISM = Mechanism.of(
    "IP",
    solve,
    work=structured_work,
    source="PVLDB 14(10), section 7",
    variants=(OnOrbits(on_orbits, flops_per_pair=2e3), Multiplicative()),
)
