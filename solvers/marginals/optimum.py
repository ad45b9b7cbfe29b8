"""The certified optimum of `solvers.marginals.program`, in the constraints' weights."""

from dataclasses import dataclass

import numpy as np

from solvers.marginals.program import Program
from solvers.optimiser import scalar_blocks
from solvers.stopping import Deadline, Stopping
from solvers.trace import Trace
from workloads.operators import Array


@dataclass(frozen=True, eq=False)
class Optimum:
    """A certified solution of a program.

    Attributes
    ----------
    v : numpy.ndarray, shape (variables,)
        Of the value ``upper``.
    q : numpy.ndarray, shape (constraints,)
        Weights that certify ``lower``.
    lower, upper : float
        Bounds on the optimal value.
    iterations : int
        Newton steps.
    converged, timed_out : bool
        Whether the gap reached ``tol``; whether time ran out before.
    trace : Trace, optional
        The bounds at every Newton step.
    """

    v: Array
    q: Array
    lower: float = 0.0
    upper: float = np.inf
    iterations: int = 0
    converged: bool = False
    timed_out: bool = False
    trace: Trace | None = None

    @property
    def gap(self) -> float:
        """``upper / lower - 1``."""
        return max(self.upper / self.lower - 1.0, 0.0)


def minimise(
    program: Program,
    *,
    tol: float,
    max_iterations: int = 100,
    time_limit: float | None = None,
) -> Optimum:
    """Solve a program to a certified gap.

    Parameters
    ----------
    program : Program
        What is minimised.
    tol : float
        Relative gap to reach.
    max_iterations : int
        Newton steps at most.
    time_limit : float, optional
        In seconds.

    Returns
    -------
    Optimum
    """
    stopping = Stopping(tol, max_iterations, Deadline.after(time_limit))
    progress = scalar_blocks.minimise(program, stopping)
    return Optimum(
        progress.best.v,
        progress.proof.x,
        progress.lower,
        progress.upper,
        progress.iterations,
        progress.converged,
        progress.timed_out,
        progress.trace,
    )
