"""COA: the matrix mechanism of least total error by the Newton method of KDD'16.

The program is that of `CA`, which solves it to a certified optimum in a fraction of the time;
this is the published algorithm (`solvers.algorithms.coa`), and where it ends.
"""

import numpy as np
import scipy.linalg as sla

from solvers.algorithms.coa import coa
from solvers.mechanism import Mechanism, Work
from solvers.problem import Problem
from solvers.solution import Solution
from solvers.strategy import from_covariance

_USUAL_ITERATIONS = 300


def solve(
    problem: Problem,
    *,
    tol: float = 1e-6,
    cg_steps: int = 5,
    homotopy: bool = True,
    theta: float = 1e-10,
    max_iterations: int = 1000,
    time_limit: float | None = None,
) -> Solution:
    """The least total error by Algorithms 1-3 of KDD'16.

    Parameters
    ----------
    problem : Problem
        The workload and its targets; these only scale the answer.
    tol : float
        Certified relative gap of the total error to reach; 0 runs all iterations.
    cg_steps : int
        Conjugate gradient steps of a direction (T of Algorithm 2).
    homotopy : bool
        Whether to go through θ = 1, 0.1, ... (Algorithm 3).
    theta : float
        The last θ.
    max_iterations : int
        Newton steps at most.

    Returns
    -------
    Solution
        Its ``notes["total_error_gap"]`` is the certified gap of its own objective.
    """
    operator = problem.workload.operator
    result = coa(
        operator.gram(np.ones(problem.workload.m)),
        tol=tol,
        cg_steps=cg_steps,
        homotopy=homotopy,
        theta=theta,
        max_iterations=max_iterations,
        time_limit=time_limit,
    )
    return from_covariance(
        "COA",
        problem,
        np.eye(problem.workload.d),
        operator,
        sla.inv(result.X),
        iterations=result.iterations,
        converged=result.converged,
        timed_out=result.timed_out,
        notes={"total_error_gap": result.objective / result.lower_bound - 1},
        trace=result.trace,
    )


def work(m: int, d: int, *, max_iterations: int = 1000) -> Work:
    """As many Newton steps as it may, or 300."""
    steps = min(max_iterations, _USUAL_ITERATIONS)
    return Work(flops=4e8 + 40.0 * steps * d**3, bytes=100.0 * d * d)


MECHANISMS = (
    Mechanism(
        "COA",
        "the matrix mechanism of least total error, by the Newton method of KDD'16",
        solve,
        source="KDD'16, Algorithms 1-3",
        presets={"published": {"homotopy": False, "theta": 1e-3, "tol": 0.0, "max_iterations": 30}},
        work=work,
    ),
)
