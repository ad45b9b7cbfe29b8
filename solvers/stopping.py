"""When an iterative solve ends: at its tolerance, its last iteration or its time limit."""

import math
import time
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Deadline:
    """An instant on the clock of ``time.perf_counter``.

    Attributes
    ----------
    at : float
        In seconds; infinite where there is no limit.
    """

    at: float = math.inf

    @classmethod
    def after(cls, seconds: float | None) -> "Deadline":
        """So many seconds from now; None for never."""
        return cls() if seconds is None else cls(time.perf_counter() + seconds)

    @property
    def passed(self) -> bool:
        """Whether it is later than this."""
        return time.perf_counter() >= self.at

    @property
    def remaining(self) -> float | None:
        """Seconds left, at least 0; None where there is no limit."""
        return None if self.at == math.inf else max(self.at - time.perf_counter(), 0.0)


NEVER = Deadline()
"""Of a solve without a limit."""


class Stop(Enum):
    """Why a solve ended."""

    CONVERGED = "the certified gap is at the tolerance"
    TIMED_OUT = "the time limit passed"
    EXHAUSTED = "the last iteration was taken"
    STALLED = "no step leads any further"


@dataclass(frozen=True)
class Stopping:
    """The rule by which an iterative solve ends.

    Attributes
    ----------
    deadline : Deadline
        When to return the best so far.
    """

    tol: float
    max_iterations: int
    deadline: Deadline = NEVER

    def reason(self, lower: float, upper: float, iterations: int) -> Stop | None:
        """Why to stop with these bounds after so many iterations; None to continue."""
        return Stop.CONVERGED if upper <= lower * (1 + self.tol) else self.spent(iterations)

    def spent(self, iterations: int) -> Stop | None:
        """Why to stop whatever the bounds are: time or iterations are used up; None to continue."""
        if self.deadline.passed:
            return Stop.TIMED_OUT
        return Stop.EXHAUSTED if iterations >= self.max_iterations else None
