"""What follows from a privacy cost and a certified lower bound on it."""

from abc import ABC, abstractmethod
from typing import Self

import numpy as np

from solvers.errors import SolveFailedError

ROUNDING = 1e-8
"""How far a cost may lie below its bound before it contradicts it, relatively.

Singular values are read off Gram matrices of squared condition up to 1e13: each is known to
eps / (2 sqrt(1e-13)) = 3.5e-10 of the largest, and a bound to a few times that. A cost comes from
a factorised covariance; where that is off by more, the mechanism is not the one that it claims.
"""


def contradiction(squared_privacy_cost: float, lower_bound: float | None) -> str | None:
    """What is wrong with a cost, beyond rounding; None if nothing is.

    Parameters
    ----------
    squared_privacy_cost : float
        Δ² when all targets are met.
    lower_bound : float, optional
        A certified lower bound on it.

    Returns
    -------
    str or None
    """
    if not 0 < squared_privacy_cost < np.inf:
        return (
            f"the answer has the squared privacy cost {squared_privacy_cost}; expected a positive "
            "finite number: too ill-conditioned for double precision"
        )
    if lower_bound is None or squared_privacy_cost >= lower_bound * (1 - ROUNDING):
        return None
    short = 1 - squared_privacy_cost / lower_bound
    return (
        f"the answer contradicts its certificate: Δ² = {squared_privacy_cost:.12g} is {short:.1e} "
        f"below the proven bound {lower_bound:.12g}; too ill-conditioned for double precision: "
        "bring norms and targets closer together"
    )


class Certified(ABC):
    """A mechanism with a squared privacy cost and a certified lower bound on it."""

    @property
    @abstractmethod
    def squared_privacy_cost(self) -> float:
        """Δ² when all targets are met."""

    @property
    @abstractmethod
    def lower_bound(self) -> float:
        """A certified lower bound on Δ² over all linear query mechanisms."""

    @property
    @abstractmethod
    def certified_bound(self) -> float | None:
        """The lower bound that the method came with; None where it came with none."""

    @property
    def privacy_cost(self) -> float:
        """Δ, Corollary 1 of arXiv v1."""
        return float(np.sqrt(self.squared_privacy_cost))

    @property
    def gap(self) -> float:
        """``squared_privacy_cost / lower_bound - 1``, at least 0.

        Raises
        ------
        SolveFailedError
            If the cost contradicts the bound.
        """
        _refuse(contradiction(self.squared_privacy_cost, self.lower_bound))
        return max(self.squared_privacy_cost / self.lower_bound - 1.0, 0.0)

    def confirmed(self) -> Self:
        """The same solution.

        Raises
        ------
        SolveFailedError
            If its cost is no positive finite number, or contradicts the bound that its method
            came with.
        """
        _refuse(contradiction(self.squared_privacy_cost, self.certified_bound))
        return self


def _refuse(trouble: str | None) -> None:
    if trouble is not None:
        raise SolveFailedError(trouble)
