"""CA, the matrix mechanism of least total error, and its two weightings by the targets.

Minimises sum_j omega_j var_j at a given privacy cost (KDD'16, program 9): all omega equal
for CA; rows of W scaled by 1/c for wCA-I and by 1/sqrt(c) for wCA-II (PVLDB 14(10),
section 7), the variances then read on the unscaled queries.
"""

from functools import partial
from typing import Literal

import numpy as np
import scipy.linalg as sla

from solvers import coa, dual
from solvers.checked import from_dual
from solvers.errors import OptionError
from solvers.mechanism import Mechanism, Work
from solvers.problem import Problem
from solvers.solution import Solution, from_covariance

Algorithm = Literal["dual", "coa"]

_POWERS = {"CA": 0.0, "wCA-I": 2.0, "wCA-II": 1.0}


def _solve(
    name: str,
    problem: Problem,
    *,
    algorithm: Algorithm = "dual",
    tol: float = 1e-8,
    max_iterations: int = 1000,
    cg_steps: int = 5,
    homotopy: bool = True,
    theta: float = 1e-10,
    time_limit: float | None = None,
) -> Solution:
    """The least weighted total error, by the column dual or by COA.

    Parameters
    ----------
    name : str
        CA, wCA-I or wCA-II.
    problem : Problem
        The workload and its targets.
    algorithm : {"dual", "coa"}
        The certified interior point in the dual, or the Newton method of KDD'16
        (Algorithms 1-3).
    tol : float
        Certified relative gap of the total error to reach.
    max_iterations : int
        Newton steps at most.
    cg_steps : int
        COA only: conjugate gradient steps of a direction (T of Algorithm 2).
    homotopy : bool
        COA only: whether to go through θ = 1, 0.1, ... (Algorithm 3).
    theta : float
        COA only: the last θ.
    time_limit : float, optional
        In seconds.

    Returns
    -------
    Solution
        Its ``notes["total_error_gap"]`` is the certified gap of its own objective.

    Raises
    ------
    OptionError
        If the algorithm is unknown.
    SolveFailedError
        If the covariance does not confirm the numbers of the dual.
    """
    omega = problem.targets ** -_POWERS[name]
    if algorithm == "coa":
        operator = problem.workload.operator
        found = coa.coa(
            operator.gram(omega),
            tol=tol,
            cg_steps=cg_steps,
            homotopy=homotopy,
            theta=theta,
            max_iterations=max_iterations,
            time_limit=time_limit,
        )
        return from_covariance(
            name,
            problem,
            np.eye(problem.workload.d),
            problem.workload.operator,
            sla.inv(found.X),
            iterations=found.iterations,
            converged=found.converged,
            timed_out=found.timed_out,
            notes={"total_error_gap": found.objective / found.lower_bound - 1},
        )
    if algorithm != "dual":
        raise OptionError(f"{name}: algorithm {algorithm!r}; expected 'dual' or 'coa'")
    result = dual.least_total_error(
        problem.factors,
        omega * problem.targets,
        tol=tol,
        max_iterations=max_iterations,
        time_limit=time_limit,
    )
    return from_dual(
        name,
        problem,
        result,
        lambda found: found.squared_privacy_cost * float(omega @ found.query_variances),
        tol,
        notes={"total_error_gap": result.gap},
    )


_PUBLISHED = {
    "published": {
        "algorithm": "coa",
        "homotopy": False,
        "theta": 1e-3,
        "tol": 0.0,
        "max_iterations": 30,
    }
}


def work(
    m: int,
    d: int,
    *,
    algorithm: Algorithm = "dual",
    max_iterations: int = 1000,
    form_work: int | None = None,
) -> Work:
    """About eight Newton steps in the d column weights; COA takes as many as it may, or 300.

    Fitted to CPU seconds on one core (benchmarks/bench_work.py).
    """
    if algorithm == "coa":
        return Work(flops=4e8 + 40.0 * min(max_iterations, 300) * d**3, bytes=100.0 * d * d)
    if form_work is not None:
        return Work(flops=3e8 + 240.0 * d**3 + 30.0 * form_work, bytes=100.0 * d * d + 100.0 * m)
    k = min(m, d)
    flops = 3e8 + 120.0 * k**3 + 100.0 * d**3 + 32.0 * m * k**2
    return Work(flops=flops, bytes=100.0 * d * d + 40.0 * m * k)


MECHANISMS = (
    Mechanism(
        "CA",
        "the matrix mechanism of least total error",
        partial(_solve, "CA"),
        source="KDD'16, program (9)",
        presets=_PUBLISHED,
        work=work,
    ),
    Mechanism(
        "wCA-I",
        "CA with every query weighted by the inverse of its target",
        partial(_solve, "wCA-I"),
        source="PVLDB 14(10), section 7",
        same_when_uniform="CA",
        presets=_PUBLISHED,
        work=work,
    ),
    Mechanism(
        "wCA-II",
        "CA with every query weighted by the inverse square root of its target",
        partial(_solve, "wCA-II"),
        source="PVLDB 14(10), section 7",
        same_when_uniform="CA",
        presets=_PUBLISHED,
        work=work,
    ),
)
