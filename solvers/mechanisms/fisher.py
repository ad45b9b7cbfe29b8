"""The noise of least Fisher information: covariance proportional to (W Wᵀ)^(1/2).

Corollary 6 of paper 003: among unconstrained noises of given total variance the Gaussian
with this covariance minimises the trace of the Fisher information about x. It takes no
targets; as a linear query mechanism it is the inner solution of the dual at equal column
weights and at query weights proportional to the targets.
"""

import numpy as np

from solvers.method import Method, Work
from solvers.problem import Problem
from solvers.solution import Solution, from_covariance
from solvers.spectral import spectrum


def solve(problem: Problem) -> Solution:
    """Covariance (W Wᵀ)^(1/2) on the range of W, by one factorisation."""
    factors = problem.factors
    found = spectrum(factors, np.ones(factors.cells), problem.targets)
    return from_covariance(
        "fisher", problem, problem.basis, problem.representation, found.covariance()
    )


def work(m: int, d: int) -> Work:
    """One factorisation."""
    return Work(flops=30.0 * d**3 + 2.0 * m * d * d, bytes=48.0 * d * d + 24.0 * m * d)


METHODS = (
    Method(
        "fisher",
        "Gaussian noise of least Fisher information, covariance ~ (W Wᵀ)^(1/2)",
        solve,
        source="Farokhi and Sandberg, Corollary 6",
        work=work,
    ),
)
