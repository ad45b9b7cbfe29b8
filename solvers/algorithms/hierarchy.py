"""Trees of range counts over ordered cells, and the variances of least squares on them.

A tree is a sequence of partitions of the cells into intervals, each finer than the one before:
the root, groups, the single cells. Its strategy T has one row for each different interval. With
``S_v = T_vᵀ T_v`` of the nodes below and at v, and g_v the solution of ``S_v g_v = 1``,

    S_v⁻¹ = blockdiag(S_c⁻¹ over the children c) - u uᵀ / (1 + 1ᵀu),   u = the g_c in a row,

and g_v = u / (1 + 1ᵀu). So one number for each cell and level is all there is to ``(TᵀT)⁻¹``, and
the variance of a query takes a sum over the cells for each level: no matrix is factorised.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from workloads.operators import Array, Indices


class _Level(NamedTuple):
    """Nodes of several children each, and their terms of the inverse.

    Attributes
    ----------
    starts : numpy.ndarray of int, shape (n,)
        The first cells of all intervals of the partition.
    u : numpy.ndarray, shape (d,)
        The u of every node, side by side.
    weights : numpy.ndarray, shape (n,)
        ``1 / (1 + 1ᵀu)``; 0 for an interval that is not divided below.
    """

    starts: Indices
    u: Array
    weights: Array


@dataclass(frozen=True, eq=False)
class Tree:
    """Nested partitions of d ordered cells, every node asked once with equal noise.

    Attributes
    ----------
    partitions : tuple of numpy.ndarray of int
        The first cells of the intervals, in order: the whole domain first, the cells last.
    """

    partitions: tuple[Indices, ...]

    @property
    def d(self) -> int:
        """Number of cells."""
        return len(self.partitions[-1])

    @cached_property
    def matrix(self) -> sp.csr_array:
        """T, shape (nodes, d): the root first, the leaves last, no interval twice."""
        starts = np.concatenate(self.partitions)
        ends = np.concatenate([np.append(p[1:], self.d) for p in self.partitions])
        _, first = np.unique(np.column_stack([starts, ends]), axis=0, return_index=True)
        kept = np.sort(first)
        lengths = ends[kept] - starts[kept]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        columns = np.repeat(starts[kept], lengths) + within
        return sp.csr_array((np.ones(offsets[-1]), columns, offsets), shape=(kept.size, self.d))

    @cached_property
    def depth(self) -> int:
        """The most nodes that hold one cell: the squared privacy cost at unit noise."""
        nodes = np.ones(self.d, dtype=int)
        for level in self._levels:
            nodes += np.repeat(level.weights > 0, _lengths(level.starts, self.d))
        return int(nodes.max())

    def variances(self, queries: Array) -> Array:
        """Variance of every query by least squares from unit noise on the nodes.

        Parameters
        ----------
        queries : numpy.ndarray, shape (n, d)
            Dense rows.

        Returns
        -------
        numpy.ndarray, shape (n,)
        """
        diagonal: Array = np.einsum("ji,ji->j", queries, queries)
        for level in self._levels:
            sums = np.add.reduceat(queries * level.u, level.starts, axis=1)
            diagonal -= np.square(sums) @ level.weights
        return diagonal

    def covariance(self) -> Array:
        """``inv(T.T @ T)``, the covariance of the cells' estimates, shape (d, d)."""
        matrix = np.eye(self.d)
        for level in self._levels:
            ends = np.append(level.starts[1:], self.d)
            for start, end, weight in zip(level.starts, ends, level.weights, strict=True):
                if weight > 0:
                    u = level.u[start:end]
                    matrix[start:end, start:end] -= np.outer(weight * u, u)
        return matrix

    @cached_property
    def _levels(self) -> tuple[_Level, ...]:
        """From the groups of cells up to the root."""
        g = np.ones(self.d)
        levels = []
        below = self.partitions[-1]
        for starts in reversed(self.partitions[:-1]):
            children = np.diff(np.append(np.searchsorted(below, starts), len(below)))
            shares = 1 / (1 + np.add.reduceat(g, starts))
            divided = children > 1
            levels.append(_Level(starts, g, np.where(divided, shares, 0.0)))
            g = g * np.repeat(np.where(divided, shares, 1.0), _lengths(starts, self.d))
            below = starts
        return tuple(levels)


def regular(d: int, branching: int) -> Tree:
    """Every interval cut into ``branching`` groups; the last of a level may be smaller."""
    sizes = branching ** np.arange(height(d, branching) + 1)[::-1]
    return Tree(tuple(np.arange(0, d, size) for size in sizes))


def published(d: int) -> Tree:
    """The tree of the runs of PVLDB 14(10): root, groups, leaves.

    floor(sqrt(d)) groups of as many cells; the leaves that remain hang on the root alone.
    """
    size = int(np.sqrt(d))
    groups = np.concatenate([np.arange(0, size**2, size), np.arange(size**2, d)])
    return Tree((np.zeros(1, dtype=np.intp), groups, np.arange(d)))


def height(d: int, branching: int) -> int:
    """The least h with ``branching**h >= d``, at least 1, by integers alone."""
    levels, covered = 1, branching
    while covered < d:
        levels, covered = levels + 1, covered * branching
    return levels


def _lengths(starts: Indices, d: int) -> Indices:
    return np.diff(np.append(starts, d))
