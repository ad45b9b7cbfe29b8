"""CA, the matrix mechanism of least total error, and two variants with weighted variances.

Minimises sum_j omega_j var_j at a given privacy cost (KDD'16, program 9), with a certificate; var_j
is the variance of query j and omega_j its weight. For CA all weights are equal. wCA-I scales the
rows of W by 1/c (weights 1/c²) and wCA-II by 1/sqrt(c) (weights 1/c), where c are the targets
(PVLDB 14(10), section 7). The variances are those of the unscaled queries.
"""

from dataclasses import dataclass
from typing import ClassVar

from solvers.forms.kronecker import Product, multiply
from solvers.forms.orbits import AnyOrbits, Unreduced
from solvers.forms.orbits.orbit_noise import from_dual, inner_noise
from solvers.mechanism import Iterative, ProblemSize, Work
from solvers.problem import Problem
from solvers.solution import Solution
from workloads.parameters import Count, NotNegative


@dataclass(frozen=True)
class _LeastWeightedVariance(Iterative):
    """The noise of least weighted total error, by an interior-point method on the dual.

    The solve stops at a certified relative gap of the weighted total error.
    ``notes["total_error_gap"]`` of a solution is this gap; unlike the dual's gap, it includes
    rounding errors of the factors.

    Attributes
    ----------
    power : int
        The exponent p of the variances' weights, 1/target**p.
    """

    power: ClassVar[int]
    uses_structure = True

    tol: NotNegative = 1e-8
    max_iterations: Count = 1000

    def on_matrix(self, problem: Problem) -> Solution:
        """Return the solution of least weighted total error; every query and cell is an orbit."""
        return self.on_orbits(Unreduced.of(problem))

    def on_orbits(self, orbits: AnyOrbits) -> Solution:
        """Return the solution of least weighted total error on orbits.

        An orbit's weight is multiplied by the number of its queries, up to a common factor.

        Raises
        ------
        SolveFailedError
            If the product of the computed factors is not the workload, or the objective is below
            its lower bound.
        """
        stopping = self.stopping()
        omega = (orbits.targets.min() / orbits.targets) ** self.power * orbits.copy_shares
        result = orbits.least_total_error(omega * orbits.targets, stopping)
        noise = inner_noise(self.name, orbits, result.best)
        total_error = noise.squared_privacy_cost * float(omega @ noise.orbit_variances)
        notes = {"total_error_gap": max(total_error / result.lower - 1, 0.0)}
        return from_dual(self, noise, result, total_error, notes)

    def on_factors(self, product: Product) -> Solution:
        """Return the product of the factors' solutions."""
        return multiply(self, product)

    def work(self, size: ProblemSize) -> Work:
        """About eight Newton steps in the d column weights.

        Fitted to CPU seconds on one core (benchmarks/calibrate.py).
        """
        m, d = size.m, size.d
        if size.form_work is not None:
            flops = 8e8 + 240.0 * d**3 + 30.0 * size.form_work
            return Work(flops=flops, bytes=100.0 * d * d + 100.0 * m)
        k = min(m, d)
        flops = 8e8 + 120.0 * k**3 + 100.0 * d**3 + 32.0 * m * k**2
        return Work(flops=flops, bytes=100.0 * d * d + 40.0 * m * k)


class CA(_LeastWeightedVariance):
    """The matrix mechanism of least total error."""

    name = "CA"
    source = "KDD'16, program (9)"
    least_total_error = True
    power = 0


class WeightedCA1(_LeastWeightedVariance):
    """CA with every query weighted by the inverse of its target."""

    name = "wCA-I"
    source = "PVLDB 14(10), section 7"
    same_when_uniform = "CA"
    power = 2


class WeightedCA2(_LeastWeightedVariance):
    """CA with every query weighted by the inverse square root of its target."""

    name = "wCA-II"
    source = "PVLDB 14(10), section 7"
    same_when_uniform = "CA"
    power = 1
