"""The explicit part of a Newton system's K, and what it is at weights nearby."""

from dataclasses import dataclass

import numpy as np

from solvers.optimiser.singular_vectors import Rows, Single
from workloads.operators import Array


@dataclass(frozen=True, eq=False)
class Couplings:
    """K at the weights that couple to anything, in weights relative to themselves.

    Attributes
    ----------
    heavy : slice or numpy.ndarray of int
        Which of the weights these are, ascending.
    lower : numpy.ndarray, shape (number of them, number of them)
        The lower triangle of K.
    """

    heavy: Rows
    lower: Single

    def scaled(self, ratios: Array) -> "Couplings":
        """At weights that are so many times these, shape (n,), their Hessian being the same."""
        own = ratios[self.heavy].astype(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            return Couplings(self.heavy, self.lower * own * own[:, None])
