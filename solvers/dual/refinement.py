"""The unique answer to Problem 1: least in the refined privacy ordering (Theorem 10, arXiv v1).

Among the covariances Σ of least Δ², this module finds those whose next largest profile entry is
least, and so on. Let b_i be the columns of the basis and v_j the scaled queries, in coordinates in
which Σ = I. A column is tight if its dual weight stays positive, so that its profile entry is the
largest; S is the span of the tight columns. Every optimal covariance has the same profile on the
tight columns, and b' Σ⁻¹ b is strictly convex along all directions D with D Σ⁻¹ b != 0. So all
optimal covariances agree with Σ on S and differ from each other only on the orthogonal complement
of S. There, the next level is a problem of the same form,

    minimise max_i (a_i + b_i' Σ⁻¹ b_i)   subject to   v_j' Σ v_j <= slack_j,

whose dimension is smaller by the dimension of S. The directions in S are settled: a_i is their part
of the profile, and slack_j is target j minus their part of the variance. The recursion ends when
all directions are settled: then the answer is unique. If there are several blocks, profiles and
ratios are sums over the blocks, S is a span in each block, and the same argument holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from solvers.dual.iteration import Deadline, Stop, Stopping
from solvers.dual.matrix_blocks import Block, BlocksPoint, MatrixBlocks
from solvers.dual.predictor_corrector import Optimum, Program, maximise
from solvers.errors import SolveFailedError
from solvers.problem.factors import Factors
from workloads.operators import Array, Explicit

FIRST_TOL = 1e-11
"""The relative gap to which each level is solved."""

Split = tuple[Array, Array]
"""Two matrices with orthonormal columns, which span a block's free and its settled directions."""

# The small problems below: 400 random matrices of up to 8 x 8, with entries over up to six decades,
# dependent rows and columns, and different targets.
_LEVEL_ITERATIONS = 60
"""Most Newton steps of a level; 60 of the small problems take the same with 20 and with 200."""
_NEGLIGIBLE = 1e-9
"""Share of a squared norm that is the error of a level's optimum rather than a free direction.

The levels are solved to gaps of `FIRST_TOL`. 60 of the small problems have 128 levels with 1e-9 and
with 1e-7; with 1e-11 they have 130, because errors count as directions.
"""
_UNSEEN = 1e-14
"""Least eigenvalue, relative to the largest, of the directions that affect an open cell.

The columns have norm 1, so it is a few rounding errors. None of the small problems is too
ill-conditioned with 1e-14 and with 1e-11, one is with 1e-16, and nine are without this limit.
"""
_LEEWAY = 1e-8
"""Least difference between a query's slack and its variance when the next level starts.

The difference is relative to the query's slack at this level.

If a query depends only on settled directions, its part outside them should be zero, but is about as
large as the error of the computed optimum. Without this margin, the part would act as another tight
query.
"""


@dataclass(frozen=True, eq=False)
class Level:
    """A level of the recursion: its problem, the solution, and weights that prove the solution.

    Attributes
    ----------
    blocks : MatrixBlocks
        The queries and columns that are still open.
    used : numpy.ndarray, shape (d,)
        The part a_i of the profile that the settled directions have used.
    slack : numpy.ndarray, shape (m,)
        The variance that is left for each query.
    roots : list of numpy.ndarray, shape (k, k)
        For each block, R with Σ = R Rᵀ, scaled so that no query exceeds its slack.
    columns : list of numpy.ndarray, shape (k, columns of the block)
        For each block, ``inv(R) @ basis``, in units in which Δ² is 1.
    p : numpy.ndarray, shape (d,)
        Column weights, which sum to one.
    gap : float
        Certified relative gap of the largest profile entry.
    """

    blocks: MatrixBlocks
    used: Array
    slack: Array
    roots: list[Array]
    columns: list[Array]
    p: Array
    gap: float

    def profile(self, columns: Sequence[Array]) -> Array:
        """Return the squared norms of the columns of all blocks, added up for each cell."""
        return self.blocks.column_sums([np.square(own).sum(axis=0) for own in columns])

    def along(self, directions: Sequence[Array]) -> tuple[list[Array], list[Array], Array, Array]:
        """Restrict the queries and columns of each block to some directions.

        Returns a list of the blocks' queries, a list of the blocks' columns, the variances of the
        queries and the profile of the columns.
        """
        parts = zip(self.blocks.blocks, self.roots, directions, strict=True)
        rows = [block.factors.representation @ root @ along for block, root, along in parts]
        columns = [along.T @ own for own, along in zip(self.columns, directions, strict=True)]
        variances = self.blocks.row_sums([np.square(own).sum(axis=1) for own in rows])
        return rows, columns, variances, self.profile(columns)


def from_optimum(
    result: Optimum[BlocksPoint], tol: float, deadline: Deadline
) -> tuple[tuple[Array, ...], int, Optimum[BlocksPoint]]:
    """Find the covariances that are least in the refined ordering.

    If the deadline passes, the covariances of the last finished level are returned.

    Parameters
    ----------
    result : Optimum
        An optimum of Problem 1 with a gap of at most `FIRST_TOL`.

    Returns
    -------
    tuple
        For each block, F with Σ = F Fᵀ, shape (k, k); the number of levels that were solved; and
        ``result``, marked as converged if every level has a gap of at most ``tol``.

    Raises
    ------
    SolveFailedError
        If a level is too ill-conditioned for double precision.
    """
    try:
        factors, levels, gap = _refined(result, deadline)
    except scipy.linalg.LinAlgError as error:
        raise SolveFailedError(
            f"optimal: refined: a level is too ill-conditioned for double precision ({error}); "
            "leave refined out"
        ) from error
    stop = Stop.TIMED_OUT if deadline.passed else Stop.STALLED
    return factors, levels, replace(result, stop=Stop.CONVERGED if gap <= tol else stop)


def _refined(
    result: Optimum[BlocksPoint], deadline: Deadline
) -> tuple[tuple[Array, ...], int, float]:
    """Return the factors F of all blocks, the number of levels, and the largest gap."""
    blocks = result.best.blocks
    level = _inner_level(result, np.zeros(blocks.cells), np.ones(blocks.offset.size))
    unit = np.sqrt(level.profile(level.columns).max())
    level = replace(level, columns=[own / unit for own in level.columns])
    places = list(range(len(blocks.blocks)))  # the original block of each open block
    free, settled = list(level.roots), [root[:, :0] for root in level.roots]
    levels, gap = 1, level.gap
    while not deadline.passed:
        # 1. the span of the tight columns is settled; the level ends if it is all of the space
        splits, seen = _splits(level)
        if not any(own.shape[1] for own, _ in splits):
            break
        # 2. the problem along the free directions, with what is left of slack and profile
        numbers, problem = _open_problem(level, splits, seen)
        if not numbers:
            break
        following = _least_largest(*problem, deadline)
        # 3. in the basis of the whole problem: F = (settled, free), Σ = F Fᵀ
        for at, (own_free, own_settled) in zip(places, splits, strict=True):
            settled[at] = np.hstack([settled[at], free[at] @ own_settled])
            free[at] = free[at] @ own_free
        places, level = [places[i] for i in numbers], following
        for at, root in zip(places, level.roots, strict=True):
            if root.shape[1] < free[at].shape[1]:
                raise scipy.linalg.LinAlgError("directions are lost to rounding")
            free[at] = free[at] @ root
        levels, gap = levels + 1, max(gap, level.gap)
    both = zip(settled, free, strict=True)
    return tuple(np.hstack(parts) for parts in both), levels, gap


def _splits(level: Level) -> tuple[list[Split], NDArray[np.bool_]]:
    """Return each block's free and settled directions, and a mask of the cells that are still open.

    A cell is open if the directions orthogonal to all tight columns affect it. Directions that
    affect no open cell are settled too.
    """
    lengths = level.profile(level.columns)
    entries = level.used + lengths
    tight = level.p > 1 - entries / entries.max()
    splits = []
    for block, columns in zip(level.blocks.blocks, level.columns, strict=True):
        own = tight[block.columns]
        splits.append(_split(columns[:, own] / np.sqrt(lengths[block.columns][own])))
    free = [own.T @ columns for (own, _), columns in zip(splits, level.columns, strict=True)]
    kept = [own.T @ columns for (_, own), columns in zip(splits, level.columns, strict=True)]
    seen = level.profile(free) > _NEGLIGIBLE * level.profile(kept)
    return [
        _with_unseen_settled(split, columns[:, seen[block.columns]])
        for block, split, columns in zip(level.blocks.blocks, splits, free, strict=True)
    ], seen


def _split(directions: Array, least: float = _NEGLIGIBLE) -> Split:
    """Split the space: the span of ``directions`` is settled, its complement is free."""
    eigenvalues, rotation = scipy.linalg.eigh(directions @ directions.T, driver="evd")
    count = int(np.sum(eigenvalues <= least * eigenvalues[-1]))
    return rotation[:, :count], rotation[:, count:]


def _with_unseen_settled(split: Split, columns: Array) -> Split:
    """Return the split with those free directions settled that are orthogonal to ``columns``."""
    free, settled = split
    columns = columns[:, columns.any(axis=0)]
    if not columns.size:
        return split
    unseen, seen = _split(columns / np.linalg.norm(columns, axis=0), _UNSEEN)
    return free @ seen, np.hstack([settled, free @ unseen])


def _open_problem(
    level: Level, splits: Sequence[Split], seen: NDArray[np.bool_]
) -> tuple[list[int], tuple[MatrixBlocks, Array, Array]]:
    """Return the indices of the blocks that continue; and the next level's blocks, used and slack.

    A block continues if it has free directions, open queries and open cells.
    """
    queries, cells, variances, _ = level.along([free for free, _ in splits])
    _, _, kept, profile = level.along([settled for _, settled in splits])
    left_over = np.maximum(level.slack - kept - variances, _LEEWAY * level.slack)
    some = variances > 0
    queries_now, cells_now = np.cumsum(some) - 1, np.cumsum(seen) - 1
    numbers, opened = [], []
    for i, block in enumerate(level.blocks.blocks):
        rows, columns = np.arange(some.size)[block.rows], np.arange(seen.size)[block.columns]
        own_rows, own_columns = some[rows], seen[columns]
        if cells[i].size and own_columns.any() and own_rows.any():
            factors = Factors(Explicit(queries[i][own_rows]), cells[i][:, own_columns])
            places = queries_now[rows[own_rows]], cells_now[columns[own_columns]]
            opened.append(Block(factors, *places))
            numbers.append(i)
    offset = np.zeros(int(some.sum()))
    blocks = MatrixBlocks(tuple(opened), int(seen.sum()), offset, True, FIRST_TOL)
    return numbers, (blocks, (level.used + profile)[seen], (variances + left_over)[some])


def _least_largest(blocks: MatrixBlocks, used: Array, slack: Array, deadline: Deadline) -> Level:
    """Minimise the largest entry of ``used + profile`` with variances of at most ``slack``."""
    program = Program(blocks.at, np.concatenate([-used, slack]), blocks.groups[:, :1])

    def bounds(point: BlocksPoint) -> tuple[float, float]:
        weight = float(point.p.sum())
        accuracy = float(point.q @ slack)
        lower = point.nuclear_norm**2 / (weight * accuracy) + point.p @ used / weight
        scale = float(np.max(point.variance_ratios / slack))
        return float(lower), float(np.max(used + scale * point.profile))

    start = blocks.uniform
    start[blocks.cells :] /= slack
    start[blocks.cells :] *= blocks.at(start).nuclear_norm ** 2
    stopping = Stopping(FIRST_TOL, _LEVEL_ITERATIONS, deadline)
    return _inner_level(maximise(program, blocks.at(start), bounds, stopping), used, slack)


def _inner_level(result: Optimum[BlocksPoint], used: Array, slack: Array) -> Level:
    """Return the level with the inner solution's covariances, scaled until a slack is used up."""
    best, p = result.best, result.proof.p
    unit = np.sqrt(np.max(best.variance_ratios / slack))
    roots, columns = [root / unit for root in best.roots], []
    for block, own in zip(best.blocks.blocks, best.spectra, strict=True):
        inverse = own.columns / np.sqrt(best.p[block.columns])[:, None]
        columns.append((inverse * np.sqrt(own.singular)).T * unit)
    return Level(best.blocks, used, slack, roots, columns, p / p.sum(), result.gap)
