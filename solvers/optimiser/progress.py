"""How far a run of the interior point got."""

from dataclasses import dataclass, replace
from typing import Generic

from solvers.optimiser.program import AnyPoint
from solvers.stopping import Stop
from solvers.trace import Trace


@dataclass(frozen=True, eq=False)
class Progress(Generic[AnyPoint]):
    """How far a run of the interior point got.

    Attributes
    ----------
    lower, upper : float
        The best certified bounds.
    proof : Point
        The point whose weights prove ``lower``.
    best : Point
        The point whose inner solution has the value ``upper``.
    iterations : int
        Newton steps taken.
    factorisations : int
        Points computed, the first included.
    products : int
        Products with the Hessian.
    stop : Stop
        Why it ended.
    trace : Trace
        The upper bound of every point, and the best lower bound so far.
    """

    lower: float
    upper: float
    proof: AnyPoint
    best: AnyPoint
    iterations: int
    factorisations: int
    products: int
    stop: Stop
    trace: Trace

    @property
    def gap(self) -> float:
        """``upper / lower - 1``."""
        return max(self.upper / self.lower - 1.0, 0.0)

    @property
    def converged(self) -> bool:
        """Whether the gap is at the tolerance."""
        return self.stop is Stop.CONVERGED

    @property
    def timed_out(self) -> bool:
        """Whether the time limit passed before."""
        return self.stop is Stop.TIMED_OUT

    def scaled(self, factor: float) -> "Progress[AnyPoint]":
        """The result in other units of its objective; its points keep theirs."""
        return replace(
            self,
            lower=self.lower * factor,
            upper=self.upper * factor,
            trace=self.trace.scaled(factor),
        )
