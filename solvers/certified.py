"""What follows from a privacy cost and a certified lower bound on it."""

from abc import ABC, abstractmethod

import numpy as np


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
    def privacy_cost(self) -> float:
        """Δ, Corollary 1 of arXiv v1."""
        return float(np.sqrt(self.squared_privacy_cost))

    @property
    def gap(self) -> float:
        """``squared_privacy_cost / lower_bound - 1``, at least 0."""
        return max(self.squared_privacy_cost / self.lower_bound - 1.0, 0.0)
