"""Problem 4 on blocks of size one: a vector of variances v, and steps relative to it.

The curvature of the profile is the diagonal 2/v; Algorithms 1 to 3 are the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from solvers.dual.scalar_blocks import ScalarBlocks
from solvers.soft_max.objective import ChartModel, SoftMax
from workloads.operators import Array


@dataclass(frozen=True, eq=False)
class Iterate:
    """A variance for each block of size one.

    Attributes
    ----------
    v : numpy.ndarray, shape (blocks,)
        Positive.
    """

    blocks: ScalarBlocks
    v: Array

    @cached_property
    def profile(self) -> Array:
        """The one entry that all cells have, shape (1,)."""
        return np.array([(1 / self.v).sum()])

    @cached_property
    def ratios(self) -> Array:
        """One for each orbit of queries, or for each class of them."""
        return self.blocks.ratios(self.v)

    def model(self, objective: SoftMax) -> ChartModel:
        """F to second order about these variances."""
        return ChartModel(objective, self, objective.weights(self), _Chart(self))


def first(blocks: ScalarBlocks, log_counts: Array) -> Iterate:
    """The inner solution at equal weights of all queries, its profile and largest ratio equal."""
    v = blocks.inner(np.exp(log_counts - np.logaddexp.reduce(log_counts)))
    scale = float(np.sqrt((1 / v).sum() / blocks.ratios(v).max()))
    return Iterate(blocks, scale * v)


class _Chart:
    """Steps relative to v."""

    def __init__(self, at: Iterate) -> None:
        self._at = at
        self._matrix = sp.csr_array(at.blocks.matrix @ sp.diags_array(at.v))
        self.curvature: Array = 2 / at.v

    def damping(self, gradient: Array) -> Array:
        return 2 * np.maximum(gradient, 0.0)

    def forms(self, along: Array) -> tuple[Array, Array]:
        of_profile = np.array([float((along / self._at.v).sum())])
        return of_profile, np.asarray(self._matrix @ along)

    def weighted(self, of_profile: Array, of_ratios: Array) -> Array:
        return np.asarray(of_profile / self._at.v + self._matrix.T @ of_ratios)

    def ray(self, along: Array) -> Callable[[float], Iterate]:
        def moved(length: float) -> Iterate:
            v = self._at.v * (1 + length * along)
            if not v.min() > 0:
                raise sla.LinAlgError("a variance is not positive")
            return Iterate(self._at.blocks, v)

        return moved
