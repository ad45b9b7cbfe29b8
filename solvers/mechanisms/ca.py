"""CA, the matrix mechanism of least total error, and two variants with weighted variances.

Minimises sum_j omega_j var_j at a given privacy cost (KDD'16, program 9), with a certificate; var_j
is the variance of query j and omega_j its weight. For CA all weights are equal. wCA-I scales the
rows of W by 1/c (weights 1/c²) and wCA-II by 1/sqrt(c) (weights 1/c), where c are the targets
(PVLDB 14(10), section 7). The variances are those of the unscaled queries.
"""

from functools import partial
from typing import Any

from solvers.dual import programs as dual
from solvers.dual.iteration import Deadline, Stopping
from solvers.forms.kronecker import Multiplicative
from solvers.forms.orbits.on_orbits import OnOrbits
from solvers.forms.orbits.orbit_noise import AnyOrbits, inner_noise
from solvers.mechanism import Mechanism, Work
from solvers.problem import Problem
from solvers.solution import Solution
from solvers.strategy import from_noise, inner_factorisation
from workloads.parameters import Count, NotNegative, Seconds


def _solve(
    name: str,
    power: int,
    problem: Problem,
    *,
    tol: NotNegative = 1e-8,
    max_iterations: Count = 1000,
    time_limit: Seconds | None = None,
) -> Solution:
    """The solution of least weighted total error, by an interior-point method on the dual.

    Parameters
    ----------
    power : int
        The exponent p of the variances' weights, 1/target**p.
    tol : float
        Certified relative gap of the total error at which to stop.
    max_iterations : int
        Largest number of Newton steps.

    Returns
    -------
    Solution
        ``notes["total_error_gap"]`` is the certified relative gap of the weighted total error.
        Unlike the dual's gap, it includes rounding errors of the factors.

    Raises
    ------
    SolveFailedError
        If the product of the computed factors is not the workload, or the objective is below its
        lower bound.
    """
    stopping = Stopping(tol, max_iterations, Deadline.after(time_limit))
    omega = (problem.targets.min() / problem.targets) ** power
    result = dual.least_total_error(problem.factors, omega * problem.targets, stopping)
    noise = inner_factorisation(name, problem, result.best.p, result.best.spectrum)
    total_error = noise.squared_privacy_cost * float(omega @ noise.query_variances)
    notes = {"total_error_gap": max(total_error / result.lower - 1, 0.0)}
    return from_noise(name, problem, noise, result, total_error, tol, notes)


def _on_orbits(
    name: str,
    power: int,
    orbits: AnyOrbits,
    *,
    tol: float,
    max_iterations: int,
    time_limit: float | None,
) -> Solution:
    """The solution of least weighted total error on orbits.

    An orbit's weight is multiplied by the number of its queries, up to a common factor.
    """
    stopping = Stopping(tol, max_iterations, Deadline.after(time_limit))
    omega = (orbits.targets.min() / orbits.targets) ** power * orbits.copy_shares
    result = orbits.least_total_error(omega * orbits.targets, stopping)
    noise = inner_noise(name, orbits, result.best)
    total_error = noise.squared_privacy_cost * float(omega @ noise.orbit_variances)
    gap = max(total_error / result.lower - 1, 0.0)
    notes = {"blocks": orbits.matrix_count, "total_error_gap": gap}
    weights = orbits.weights(result.proof.p, result.proof.q)
    return from_noise(name, orbits.problem, noise, result, total_error, tol, notes, weights)


def work(m: int, d: int, *, form_work: int | None = None) -> Work:
    """Estimated work: about eight Newton steps in the d column weights.

    Fitted to CPU seconds on one core (benchmarks/calibrate.py).
    """
    if form_work is not None:
        return Work(flops=8e8 + 240.0 * d**3 + 30.0 * form_work, bytes=100.0 * d * d + 100.0 * m)
    k = min(m, d)
    flops = 8e8 + 120.0 * k**3 + 100.0 * d**3 + 32.0 * m * k**2
    return Work(flops=flops, bytes=100.0 * d * d + 40.0 * m * k)


def _weighted(name: str, summary: str, power: int, **about: Any) -> Mechanism:
    variants = (OnOrbits(partial(_on_orbits, name, power)), Multiplicative())
    return Mechanism(
        name, summary, partial(_solve, name, power), work=work, variants=variants, **about
    )


CA = _weighted(
    "CA",
    "The matrix mechanism of least total error",
    0,
    source="KDD'16, program (9)",
    least_total_error=True,
)
WCA_I = _weighted(
    "wCA-I",
    "CA with every query weighted by the inverse of its target",
    2,
    source="PVLDB 14(10), section 7",
    same_when_uniform="CA",
)
WCA_II = _weighted(
    "wCA-II",
    "CA with every query weighted by the inverse square root of its target",
    1,
    source="PVLDB 14(10), section 7",
    same_when_uniform="CA",
)
