"""Answers that a privacy-constraints matrix and a prior do not distinguish."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workloads.operators import Array

_EQUAL = 1e-10
"""Relative: sums closer than this are taken for equal."""


@dataclass(frozen=True, eq=False)
class Classes:
    """An equitable partition of n answers into k classes.

    From every answer of one class, the sum of Φ over any class is the same. So ``y @ Φ = prior``
    has a solution that is constant on the classes if it has one at all, of the same sum, and k
    unknowns are enough.

    Attributes
    ----------
    of : numpy.ndarray of int, shape (n,)
        The class of every answer.
    """

    of: NDArray[np.int64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of answers of each class, shape (k,)."""
        return np.bincount(self.of)

    @property
    def first(self) -> NDArray[np.int64]:
        """An answer of each class, shape (k,)."""
        return np.unique(self.of, return_index=True)[1]

    def sums(self, rows: Array) -> Array:
        """The sum of each row over every class, shape (len(rows), k)."""
        order = np.argsort(self.of, kind="stable")
        starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        summed: Array = np.add.reduceat(rows[:, order], starts, axis=1)
        return summed

    def reduced(self, phi: Array) -> Array:
        """Φ on the classes, shape (k, k): sums of one row each."""
        return self.sums(phi[self.first])


def classes(phi: Array, prior: Array) -> Classes:
    """The coarsest such partition that the prior is constant on, by colour refinement.

    O(n²) for each round. If rounding leaves doubts, every answer becomes its own class.

    Parameters
    ----------
    phi : numpy.ndarray, shape (n, n)
        Symmetric, non-negative.
    prior : numpy.ndarray, shape (n,)
        Non-negative.
    """
    partition = Classes(_split(np.zeros(len(prior), dtype=np.int64), prior))
    random = np.random.default_rng(0)
    while True:
        sums = partition.sums(phi)
        finer = Classes(_split(partition.of, sums @ random.random(sums.shape[1])))
        if finer.of.max() == partition.of.max():
            spread = np.abs(sums - sums[partition.first][partition.of]).max()
            alone = Classes(np.arange(len(prior), dtype=np.int64))
            return partition if spread <= 10 * _EQUAL * sums.max() else alone
        partition = finer


def _split(of: NDArray[np.int64], values: Array) -> NDArray[np.int64]:
    """Classes parted where the sorted values jump."""
    order = np.lexsort((values, of))
    apart = np.diff(values[order]) > _EQUAL * np.abs(values).max()
    new = (np.diff(of[order]) > 0) | apart
    parted = np.empty_like(of)
    parted[order] = np.concatenate([[0], np.cumsum(new)])
    return parted
