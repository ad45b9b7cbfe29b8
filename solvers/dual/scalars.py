"""The programs of `solvers.dual.programs` on blocks of size one."""

from dataclasses import replace
from typing import Any

import numpy as np

from solvers.optimiser import Progress, ScalarBlocks, ScalarPoint, scalar_blocks
from solvers.optimiser.scalar_classes import ScalarClasses
from solvers.stopping import Deadline, Stop, Stopping
from solvers.trace import traced
from workloads.operators import Array


def optimum(
    blocks: ScalarClasses, *, tol: float, max_iterations: int, time_limit: float | None
) -> Progress[ScalarPoint]:
    """The least ``sum(1 / v) * (max(A v) + offset . A v)``."""
    stopping = Stopping(tol, max_iterations, Deadline.after(time_limit))
    found = scalar_blocks.minimise(blocks.smaller, stopping)
    best, proof = (
        ScalarPoint(blocks.whole, blocks.weights(point.x)) for point in (found.best, found.proof)
    )
    return replace(found, best=best, proof=proof)


def hybrid(blocks: ScalarClasses, **limits: Any) -> Progress[ScalarPoint]:
    """The hybrid with total error; the gap to reach is that of the objective's square."""
    found = optimum(blocks, **limits)
    lower, upper = (2 * float(np.sqrt(bound)) for bound in (found.lower, found.upper))
    squares = found.trace
    reached, proven = 2 * np.sqrt(squares.objective), 2 * np.sqrt(squares.lower_bound)
    trace = replace(squares, objective=reached, lower_bound=proven)
    return replace(found, lower=lower, upper=upper, trace=trace)


def least_total_error(blocks: ScalarBlocks, weights: Array) -> Progress[ScalarPoint]:
    """The least total error: the only column has all the weight there is."""
    given = replace(blocks, offset=weights / weights.sum())
    point = ScalarPoint(given, np.zeros(weights.size))
    value = point.nuclear_norm**2 * float(weights.sum())
    return Progress(
        lower=value,
        upper=value,
        proof=point,
        best=point,
        iterations=0,
        factorisations=1,
        products=0,
        stop=Stop.CONVERGED,
        trace=traced([value], [value]),
    )
