"""How a solve came to its answer, iteration by iteration."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.operators import Array


@dataclass(frozen=True, eq=False)
class Trace:
    """What an iterative mechanism knew after every iteration, the start included.

    Attributes
    ----------
    objective : numpy.ndarray, shape (iterations,)
        Its own objective at the iterate: Δ² with all targets just met where it seeks the least
        privacy cost, the total variance at Δ² = 1 where it seeks the least total error.
    lower_bound : numpy.ndarray, shape (iterations,)
        The best certified lower bound on that objective so far; NaN where there is none.
    gradient_norm : numpy.ndarray, shape (iterations,)
        Frobenius norm of the gradient along the free variables; NaN where it is not known.
    """

    objective: Array
    lower_bound: Array
    gradient_norm: Array

    def scaled(self, factor: float) -> "Trace":
        """In other units of the objective."""
        return Trace(
            self.objective * factor, self.lower_bound * factor, self.gradient_norm * factor
        )

    def arrays(self) -> dict[str, Array]:
        """By the names under which a sweep keeps them."""
        return {
            "trace_objective": self.objective,
            "trace_lower_bound": self.lower_bound,
            "trace_gradient_norm": self.gradient_norm,
        }


def traced(
    objective: Sequence[float],
    lower_bound: Sequence[float] | None = None,
    gradient_norm: Sequence[float] | None = None,
) -> Trace:
    """The trace of these numbers, NaN for those that the mechanism does not know.

    Parameters
    ----------
    objective : sequence of float
        After every iteration.
    lower_bound, gradient_norm : sequence of float, optional
        Of the same length; a lower bound of 0 is none.
    """
    length = len(objective)

    def column(values: Sequence[float] | None) -> Array:
        return np.full(length, np.nan) if values is None else np.array(values, dtype=np.float64)

    bound = column(lower_bound)
    bound[bound == 0] = np.nan
    return Trace(column(objective), bound, column(gradient_norm))
