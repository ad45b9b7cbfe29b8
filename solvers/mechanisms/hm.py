"""Hierarchical mechanism: a tree of range counts with equal noise, made consistent.

The tree of Hay et al. (PVLDB 3(1), 2010): the root counts all records, each node's interval is cut
into ``branching`` groups, and the leaves are the single cells. All nodes get noise of equal
variance, and the answers to the workload are derived by least squares. The papers differ in the
tree:

- **best tree** (default): the branching from 2 to d with the least Δ² for the workload and its
  targets. Every tree is evaluated on some of the queries, which bounds its Δ² from below. Then the
  most promising tree is evaluated on all queries, and its worst queries are added to the queries on
  which every tree is evaluated. This is repeated until no other tree can be better.
- **"qardaji"** and **"laplace"**: Qardaji, Yang and Li (PVLDB 6(14), 2013) minimise the variance
  of the average range query, ``(b-1) h³ - 2 (b+1) h²/3``, over the branching b, where
  h = ceil(log_b d) is the number of levels. The average range takes h (b-1) - 2 (b+1)/3 nodes, each
  with a variance proportional to h², since each level gets ε/h of the Laplace budget.
  ``"laplace"`` minimises this published formula. With Gaussian noise the variance is proportional
  to h instead of h², so ``"qardaji"`` minimises ``(b-1) h² - 2 (b+1) h/3``. Both formulas ignore
  that least squares reduces the variance.
- **"published"**: the runs of PVLDB 14(10) use three levels: the root, floor(sqrt(d)) groups of
  floor(sqrt(d)) cells, and leaves; leaves outside the groups are children of the root.
- **"sqrt"**: three levels with ceil(sqrt(d)) cells per group and a smaller last group.

If d is not a power of b, the last group of a level is smaller; a group with the same cells as a
group below it is counted only once.

The variances need no factorisation. A tree is a sequence of partitions of the cells into intervals,
each finer than the partition before: the root, groups, the single cells. The strategy T has one row
for each different interval. Let T_v have the rows of node v and of all nodes below v. Let
``S_v = T_vᵀ T_v``, and let g_v solve ``S_v g_v = 1``. Then

    S_v⁻¹ = blockdiag(S_c⁻¹ over the children c) - u uᵀ / (1 + 1ᵀu),   where u concatenates the g_c,

and g_v = u / (1 + 1ᵀu). So ``(TᵀT)⁻¹`` has one number for each cell and level, and the
variance of a query is a sum over the cells for each level.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import Annotated, Literal, NamedTuple

import numpy as np
import scipy

from solvers.forms.orbits import AnyOrbits, ProductOrbits
from solvers.forms.orbits.ordered import check_ordered, in_copies, over_ordered_cells
from solvers.mechanism import Mechanism, ProblemSize, Work
from solvers.problem import Problem
from solvers.solution import Solution
from solvers.strategy import from_strategy
from workloads.operators import Array, Indices
from workloads.parameters import Bounds


class _Level(NamedTuple):
    """The intervals of one level, and the terms that they add to the inverse of TᵀT.

    Attributes
    ----------
    starts : numpy.ndarray of int, shape (n,)
        The first cells of all intervals of the partition.
    u : numpy.ndarray, shape (d,)
        The vectors u of all nodes of the level, concatenated.
    weights : numpy.ndarray, shape (n,)
        ``1 / (1 + 1ᵀu)``; 0 for an interval that the next finer partition does not divide.
    """

    starts: Indices
    u: Array
    weights: Array


def _measure_lengths(starts: Indices, end: int) -> Indices:
    """Return the lengths of consecutive intervals, of which the last ends before ``end``.

    ``np.diff(starts, append=end)`` takes three times as long: a fifth of the search for a tree.
    """
    return np.diff(np.append(starts, end))


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree of range counts: nested partitions of d ordered cells, with equal noise on all nodes.

    Attributes
    ----------
    partitions : tuple of numpy.ndarray of int
        For each partition, the first cells of its intervals. The first partition is the whole
        domain, the last one the single cells.
    """

    partitions: tuple[Indices, ...]

    @property
    def d(self) -> int:
        """Number of cells."""
        return len(self.partitions[-1])

    @cached_property
    def matrix(self) -> "scipy.sparse.csr_array":
        """The strategy T, shape (nodes, d): the root first, the leaves last, each interval once."""
        intervals = chain.from_iterable(pairwise([*starts, self.d]) for starts in self.partitions)
        cells = [np.arange(start, end) for start, end in dict.fromkeys(intervals)]
        offsets = np.cumsum([0, *map(len, cells)])
        return scipy.sparse.csr_array(
            (np.ones(offsets[-1]), np.concatenate(cells), offsets), shape=(len(cells), self.d)
        )

    @cached_property
    def depth(self) -> int:
        """Largest number of nodes that contain one cell: the squared privacy cost of unit noise."""
        pairs = (
            (level.weights > 0, _measure_lengths(level.starts, self.d)) for level in self._levels
        )
        return 1 + int(np.sum([np.repeat(*pair) for pair in pairs], axis=0).max())

    def variances(self, queries: Array) -> Array:
        """Compute the variances of queries estimated by least squares from noisy node counts.

        Parameters
        ----------
        queries : numpy.ndarray, shape (n, d)
            The queries, as dense rows.

        Returns
        -------
        numpy.ndarray, shape (n,)
        """
        diagonal: Array = np.einsum("ji,ji->j", queries, queries)
        for level in self._levels:  # S_v⁻¹ loses u uᵀ / (1 + 1ᵀu) for every node v of the level
            sums = np.add.reduceat(queries * level.u, level.starts, axis=1)
            diagonal -= np.square(sums) @ level.weights
        return diagonal

    def covariance(self) -> Array:
        """Return the estimates' covariance at unit noise, ``inv(T.T @ T)``, shape (d, d)."""
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
        """The levels above the single cells, from the smallest groups up to the root."""
        g = np.ones(self.d)
        levels = []
        below = self.partitions[-1]
        for starts in reversed(self.partitions[:-1]):
            children = _measure_lengths(np.searchsorted(below, starts), len(below))
            shares = 1 / (1 + np.add.reduceat(g, starts))
            divided = children > 1
            levels.append(_Level(starts, g, np.where(divided, shares, 0.0)))
            g = g * np.repeat(np.where(divided, shares, 1.0), _measure_lengths(starts, self.d))
            below = starts
        return tuple(levels)


def build_regular(d: int, branching: int) -> Tree:
    """Build the tree of ``branching`` children per node; a level's last group may be smaller."""
    sizes = branching ** np.arange(count_levels(d, branching) + 1)[::-1]
    return Tree(tuple(np.arange(0, d, size) for size in sizes))


def build_published(d: int) -> Tree:
    """Return the tree that was used in PVLDB 14(10): a root, groups and leaves.

    There are floor(sqrt(d)) groups of floor(sqrt(d)) cells; other leaves are children of the root.
    """
    size = int(np.sqrt(d))
    groups = np.concatenate([np.arange(0, size**2, size), np.arange(size**2, d)])
    return Tree((np.zeros(1, dtype=np.intp), groups, np.arange(d)))


def count_levels(d: int, branching: int) -> int:
    """Return the least h with ``branching**h >= d``, at least 1, in integer arithmetic."""
    levels, covered = 1, branching
    while covered < d:
        levels, covered = levels + 1, covered * branching
    return levels


_SAMPLED_ENTRIES = 2**16
"""Number of entries of the queries on which all trees are evaluated first.

Prefixes and random ranges over 512 cells with random targets take 0.3 s; with 2**12 up to half
longer, since more trees are then evaluated on all queries, and with 2**20 two to four times as
long. The best tree is the same.
"""

_NEW_QUERIES = 8
"""Number of queries that each evaluation on all queries adds; 1 and 64 take as long."""

_BETTER = 1e-6
"""Relative improvement of Δ² below which the search for a better tree ends.

A tree that is better by less is of no use; the limit also ends the search where trees are equal.
"""


Branching = Annotated[int, Bounds(ge=2)] | Literal["qardaji", "laplace", "sqrt", "published"]
"""The number of children of a node, or the name of a rule."""


def choose_branching(d: int, branching: Branching) -> int:
    """Return the number of children of a node for a domain of d cells, by a rule for regular trees.

    If ``branching`` is an integer, the smaller of it and max(d, 2) is returned.
    """
    if branching in ("qardaji", "laplace"):
        choices = range(2, max(d, 2) + 1)
        branchings, levels = np.array(choices), np.array([count_levels(d, b) for b in choices])
        nodes = (branchings - 1) * levels - 2 * (branchings + 1) / 3
        noise = levels if branching == "qardaji" else levels**2
        return int(branchings[np.argmin(nodes * noise)])
    if branching == "sqrt":
        return max(2, int(np.ceil(np.sqrt(d))))
    return min(int(branching), max(d, 2))


def find_best_branching(problem: Problem) -> int:
    """Return a branching from 2 to d whose Δ² is at most ``1 + 1e-6`` times the least Δ²."""
    operator, targets = problem.workload.operator, problem.targets
    d = problem.workload.d
    trees = [build_regular(d, branching) for branching in range(2, max(d, 2) + 1)]

    def costs(rows: Indices) -> Array:
        """Return Δ² of each tree for some of the queries."""
        scaled = operator.rows(rows) / np.sqrt(targets[rows])[:, None]
        return np.array([tree.depth * tree.variances(scaled).max() for tree in trees])

    bounds = costs(_sample_queries(problem))
    exact = np.full(len(trees), np.inf)
    while True:
        # the most promising tree: the one with the least lower bound that is not yet evaluated
        lower = np.where(np.isinf(exact), bounds, np.inf)
        promising = int(np.argmin(lower))
        if exact.min() <= lower[promising] * (1 + _BETTER):
            return 2 + int(np.argmin(exact))
        # its exact Δ²; its worst queries then raise the lower bounds of all other trees
        ratios = operator.quadratic_forms(trees[promising].covariance()) / targets
        exact[promising] = trees[promising].depth * ratios.max()
        bounds = np.maximum(bounds, costs(np.argsort(ratios)[-_NEW_QUERIES:]))


def _sample_queries(problem: Problem) -> Indices:
    """Sample evenly spaced queries, and queries with a large ratio of norm to target."""
    m, d = problem.workload.shape
    count = max(2 * _NEW_QUERIES, _SAMPLED_ENTRIES // d)
    if count >= m:
        return np.arange(m)
    norms = problem.workload.operator.squared_row_norms() / problem.targets
    largest = np.argpartition(norms, -(count // 2))[-(count // 2) :]
    return np.union1d(largest, np.linspace(0, m - 1, count // 2).astype(np.intp))


@dataclass(frozen=True)
class HM(Mechanism):
    """Hierarchical mechanism: equal noise on a tree of range counts, then least squares.

    Attributes
    ----------
    branching : int >= 2, "qardaji", "laplace", "sqrt", "published" or None
        Number of children of a node, or the rule for the tree; None for the branching of least Δ².
        The solution's notes have the number and the rule.
    """

    name = "HM"
    source = "Hay et al. 2010 with the trees of Qardaji et al. 2013; PVLDB 14(10), section 7"

    branching: Branching | None = None

    def on_matrix(self, problem: Problem) -> Solution:
        """Return noise on a tree over all cells, in their order."""
        d = problem.workload.d
        rule: str = self.branching if isinstance(self.branching, str) else "given"
        if self.branching == "published":
            tree, used = build_published(d), max(1, int(np.sqrt(d)))
        elif self.branching is None:
            used, rule = find_best_branching(problem), "best"
            tree = build_regular(d, used)
        else:
            used = choose_branching(d, self.branching)
            tree = build_regular(d, used)
        notes = {"branching": used, "rule": rule}
        return replace(from_strategy(self.name, problem, tree.matrix), notes=notes)

    def on_products(self, orbits: ProductOrbits) -> Solution:
        """Solve a tree over the ordered attributes' cells, repeated for all values of the others.

        The noise of different copies is independent. The best tree is therefore the best for the
        queries over the ordered cells alone, with each target divided by the number of copies over
        which its query sums.
        """
        return in_copies(self.on_matrix(over_ordered_cells(orbits)), orbits)

    def check_orbits(self, orbits: AnyOrbits) -> None:
        """Raise ObstacleError if no attribute is ordered."""
        check_ordered(orbits)

    def work(self, size: ProblemSize) -> Work:
        """Two d x d factorisations, m variances, and d trees tried on a few queries."""
        m, d = size.m, size.d
        judged = 20.0 * d * max(_SAMPLED_ENTRIES, d)
        return Work(flops=2.0 * d**3 + 2.0 * m * d**2 + judged, bytes=8.0 * (6 * d**2 + 2 * m * d))
