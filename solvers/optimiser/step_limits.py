"""How far the steps of the interior point go, by what is known of their systems."""

from dataclasses import dataclass, replace

_SMALLEST_CENTRING = 1e-4


@dataclass(frozen=True)
class StepLimits:
    """How far steps may go.

    Attributes
    ----------
    shortest, longest : float
        Bounds on the share of the way to the boundary of the positive weights and slacks. Between
        them it is what the predictor takes off mu: where little stands in its way, more.
    off_centre : float
        So many times the complementarity gap the certified gap is where mu is kept: tiny weights
        are off the central path then. Nearer to it, mu is kept by the square of the distance.
    steady : float
        A weight of which a step leaves little is taken from its slack if that changes by less
        than this part of itself.
    """

    shortest: float
    longest: float
    off_centre: float
    steady: float

    def share(self, reduction: float) -> float:
        """Of the way to the boundary, where the predictor takes mu to that part of it."""
        return min(max(self.shortest, 1 - reduction), self.longest)

    def centring(self, reduction: float, off: float) -> float:
        """Which part of mu to aim at, the certified gap being so many times the complementarity."""
        wanted = max(reduction**3, _SMALLEST_CENTRING, (off / self.off_centre) ** 2)
        return min(wanted, 1.0)


EXACT = StepLimits(shortest=0.999, longest=0.999, off_centre=1000.0, steady=0.0)
INEXACT = StepLimits(shortest=0.97, longest=0.99, off_centre=100.0, steady=0.15)
"""On one half of `benchmarks.panel`, 64 and 128 cells, ``steady`` saves 16 of 333 Newton steps
(0.05 to 0.25 hardly differ; with no bound tables of many queries take a tenth more), and an
``off_centre`` of 100 saves 22 of 355 against 20. Marginals over twelve decades do not end with it.
With a corrector of second order a ``shortest`` of 0.97 takes 255 steps, 0.95 256 and 0.9 269.
"""
UNCOUPLED = replace(INEXACT, shortest=0.9)
"""Without that corrector: a preconditioner that lacks couplings does not say where a step leads."""
