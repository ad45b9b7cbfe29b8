"""The time limit of an iterative solve."""

import math
import time
from dataclasses import dataclass


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
