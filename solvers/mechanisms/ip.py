"""Input perturbation: independent noise of one variance on every cell of x."""

from math import exp, log

import numpy as np

from solvers.errors import SolveFailedError
from solvers.factorisation import Factorisation, InBasis, identity, multiplied
from solvers.marginals.noise import CellNoise, MarginalsNoise
from solvers.marginals.structure import Structure
from solvers.mechanism import Mechanism, Work
from solvers.orbits import Orbits
from solvers.orbits.solutions import on_every_cell
from solvers.problem import Problem
from solvers.reductions.kronecker import Multiplicative
from solvers.reductions.marginals import OnMarginals
from solvers.reductions.orbits import OnOrbits
from solvers.solution import Solution

_LARGEST_LOG = 700.0


def solve(problem: Problem) -> Solution:
    """Δ² = max_j ||w_j||² / c_j (PVLDB 14(10), section 7: "IP"; GM of arXiv v1's tables).

    B is a multiple of the identity, L of W.
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


def on_orbits(orbits: Orbits) -> Solution:
    """Noise of one variance on every cell of every orbit."""

    def written_out() -> InBasis:
        return _on_cells(orbits.problem, noise.squared_privacy_cost**-0.5)

    noise = on_every_cell(orbits, written_out)
    return Solution("IP", orbits.problem, noise)


def work(m: int, d: int) -> Work:
    """A pass over W; vectors of m and d numbers alone where it has structure."""
    return Work(flops=10.0 * m * d, bytes=48.0 * (m + d))


def on_marginals(structure: Structure) -> Solution:
    """Noise of one variance on every cell: Δ² is the largest ``d / (N_T c_T)``."""
    cells = log(structure.problem.workload.d) - structure.log_sizes
    largest = float((cells - np.log(structure.targets)).max())
    if largest > _LARGEST_LOG:
        raise SolveFailedError(
            f"IP: its squared privacy cost is about 10^{largest / log(10):.0f}, beyond floats; "
            "raise the targets or ask for marginals of a higher order"
        )
    noise = MarginalsNoise(structure, CellNoise(exp(largest), np.exp(cells - largest)))
    return Solution("IP", structure.problem, noise)


MECHANISMS = (
    Mechanism(
        "IP",
        "input perturbation: independent noise of one variance on every cell of x",
        solve,
        work=work,
        source="PVLDB 14(10), section 7",
        forms=(
            OnMarginals(on_marginals, flops_per_pair=2e3),
            OnOrbits(on_orbits),
            Multiplicative(),
        ),
    ),
)
