"""Input perturbation: independent noise of one variance on every cell of x."""

from math import exp, log

import numpy as np

from solvers.errors import SolveFailedError
from solvers.factorisation import Factorisation, InBasis, identity, multiplied
from solvers.marginals.noise import CellNoise, MarginalsNoise
from solvers.marginals.structure import Structure
from solvers.mechanism import Mechanism
from solvers.problem import Problem
from solvers.reductions.kronecker import Multiplicative
from solvers.reductions.marginals import OnMarginals
from solvers.solution import Solution

_LARGEST_LOG = 700.0


def solve(problem: Problem) -> Solution:
    """Δ² = max_j ||w_j||² / c_j (PVLDB 14(10), section 7: "IP"; GM of arXiv v1's tables).

    B is a multiple of the identity, L of W.
    """
    workload = problem.workload.operator
    ratios = workload.squared_row_norms() / problem.targets
    deviation = float(np.max(ratios)) ** -0.5
    cells = identity(problem.workload.d)
    noise = Factorisation(
        multiplied(workload, deviation),
        multiplied(cells, 1 / deviation),
        InBasis(cells, workload, deviation),
    )
    return Solution("IP", problem, noise)


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
        source="PVLDB 14(10), section 7",
        forms=(OnMarginals(on_marginals, flops_per_pair=2e3), Multiplicative()),
    ),
)
