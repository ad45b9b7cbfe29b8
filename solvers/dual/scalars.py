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
    blocks: ScalarClasses, *, tol: float, max_iterations: int, deadline: Deadline
) -> Progress[ScalarPoint]:
    """The least ``sum(1 / v) * (max(A v) + offset . A v)``."""
    stopping = Stopping(tol, max_iterations, deadline)
    result = scalar_blocks.minimise(blocks.smaller, stopping)
    best, proof = (
        ScalarPoint(blocks.whole, blocks.weights(point.x)) for point in (result.best, result.proof)
    )
    return replace(result, best=best, proof=proof)


def hybrid(blocks: ScalarClasses, **limits: Any) -> Progress[ScalarPoint]:
    """The hybrid with total error; the gap to reach is that of the objective's square."""
    result = optimum(blocks, **limits)
    lower, upper = (2 * float(np.sqrt(bound)) for bound in (result.lower, result.upper))
    squares = result.trace
    reached, proven = 2 * np.sqrt(squares.objective), 2 * np.sqrt(squares.lower_bound)
    trace = replace(squares, objective=reached, lower_bound=proven)
    return replace(result, lower=lower, upper=upper, trace=trace)


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
