"""Stopping rules, line searches and traces of iterative solves."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeVar

import numpy as np
import scipy

from workloads.operators import Array


@dataclass(frozen=True)
class Deadline:
    """An instant on the clock of ``time.perf_counter``.

    Attributes
    ----------
    at : float
        The instant in seconds; infinite if there is no limit.
    """

    at: float = math.inf

    @classmethod
    def after(cls, seconds: float | None) -> "Deadline":
        """Return the deadline ``seconds`` from now; None means no limit."""
        return cls() if seconds is None else cls(time.perf_counter() + seconds)

    @property
    def passed(self) -> bool:
        """Whether the deadline has passed."""
        return time.perf_counter() >= self.at

    @property
    def remaining(self) -> float:
        """Seconds left, at least 0; infinite if there is no limit."""
        return max(self.at - time.perf_counter(), 0.0)


NEVER = Deadline()
"""The deadline of a solve without a time limit."""


class Stop(Enum):
    """The reason why an iterative solve ended."""

    CONVERGED = "the certified gap is at the tolerance"
    TIMED_OUT = "the time limit passed"
    EXHAUSTED = "the iteration limit was reached"
    STALLED = "no further step improves the objective"


@dataclass(frozen=True)
class Stopping:
    """The rule by which an iterative solve ends.

    Attributes
    ----------
    tol : float
        Relative gap of the certified bounds at which to stop.
    max_iterations : int
        Largest number of iterations.
    deadline : Deadline
        The instant at which to return the best answer so far.
    """

    tol: float
    max_iterations: int = 60
    deadline: Deadline = NEVER

    def after(self, taken: int) -> "Stopping":
        """Return the rule that remains after ``taken`` iterations."""
        return replace(self, max_iterations=self.max_iterations - taken)

    def reason(
        self, lower: float, upper: float, iterations: int, ahead: float = 0.0
    ) -> Stop | None:
        """Return the reason to stop at these bounds and iterations; None to continue.

        ``ahead`` is the number of seconds that it would take to continue and to return an answer.
        """
        if upper <= lower * (1 + self.tol):
            return Stop.CONVERGED
        if time.perf_counter() + ahead >= self.deadline.at:
            return Stop.TIMED_OUT
        return Stop.EXHAUSTED if iterations >= self.max_iterations else None

    def spent(self, iterations: int) -> Stop | None:
        """Return the reason to stop if time or iterations are used up; None to continue."""
        return self.reason(0.0, math.inf, iterations)


Accepted = TypeVar("Accepted")


def sufficient_decrease(
    along: Callable[[float], Accepted | None],
    value: Callable[[Accepted], float],
    before: float,
    slope: float,
    *,
    sufficient: float,
    shrink: float = 0.5,
    least: float,
) -> Accepted | None:
    """Find the first point at lengths ``1, shrink, shrink**2, ...`` that lowers f enough.

    Parameters
    ----------
    along : callable
        Returns the point after a step of the given length. Outside the domain, it returns None or
        raises LinAlgError.
    value : callable
        Returns the objective at a point.
    before : float
        The value from which the decrease is measured: normally that of the starting point.
    slope : float
        The objective's derivative along the step; it must be negative.
    sufficient : float
        The share of ``-length * slope`` by which the value has to decrease (Armijo's rule).
    shrink : float
        Factor by which a rejected length is multiplied.
    least : float
        Only steps longer than this number are tried.

    Returns
    -------
    object or None
        The point; None if no length lowers the objective enough.
    """
    length = 1.0
    while slope < 0 and length > least:
        with suppress(scipy.linalg.LinAlgError):
            moved = along(length)
            if moved is not None and value(moved) <= before + sufficient * length * slope:
                return moved
        length *= shrink
    return None


@dataclass(frozen=True, eq=False)
class Trace:
    """The objective and bounds of an iterative mechanism: at the start and after each iteration.

    Attributes
    ----------
    objective : numpy.ndarray, shape (n,)
        The mechanism's own objective at each iterate. For a mechanism that minimises the privacy
        cost, this is Δ² with all targets just met; for a mechanism that minimises the total error,
        the total variance at Δ² = 1.
    lower_bound : numpy.ndarray, shape (n,)
        The best certified lower bound on the objective so far; NaN if no bound is known.
    gradient_norm : numpy.ndarray, shape (n,)
        Frobenius norm of the gradient along the free variables; NaN if unknown.
    """

    objective: Array
    lower_bound: Array
    gradient_norm: Array

    def arrays(self) -> dict[str, Array]:
        """Return the arrays, with the names under which a sweep stores them."""
        return {f"trace_{name}": values for name, values in vars(self).items()}


def traced(
    objective: Sequence[float],
    lower_bound: Sequence[float] | None = None,
    gradient_norm: Sequence[float] | None = None,
) -> Trace:
    """Build a trace from sequences; a missing sequence is replaced by NaN.

    Parameters
    ----------
    objective : sequence of float
        The objective at the start and after each iteration.
    lower_bound, gradient_norm : sequence of float, optional
        One number for each objective; a lower bound of 0 means that no bound is known.
    """
    unknown = [np.nan] * len(objective)
    given = (objective, lower_bound or unknown, gradient_norm or unknown)
    reached, bound, norms = (np.array(values, dtype=np.float64) for values in given)
    return Trace(reached, np.where(bound == 0, np.nan, bound), norms)
