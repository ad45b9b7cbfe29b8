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

_LEVEL_ITERATIONS = 60
_NEGLIGIBLE = 1e-9
_UNSEEN = 1e-20
_ROUNDING = 1e-14
_LEEWAY = 1e-8
"""Least difference between a query's slack and its variance when the next level starts.

The difference is relative to the query's slack at this level.

If a query depends only on settled directions, its part outside them should be zero, but is about as
large as the error of the computed optimum. Without this margin, the part would act as another tight
query.
"""


@dataclass(frozen=True, eq=False)
class Level:
    """Covariances whose largest profile entry is least, and weights that prove this.

    Attributes
    ----------
    roots : tuple of numpy.ndarray, shape (k, k)
        For each block, R with Σ = R Rᵀ, scaled so that no query exceeds its slack.
    columns : tuple of numpy.ndarray, shape (k, columns of the block)
        For each block, ``inv(R) @ basis``, in units in which Δ² is 1.
    p : numpy.ndarray, shape (d,)
        Column weights, which sum to one.
    gap : float
        Certified relative gap of the largest profile entry.
    """

    roots: tuple[Array, ...]
    columns: tuple[Array, ...]
    p: Array
    gap: float


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
    """The factors F of all blocks, the number of levels, and the largest gap of any level."""
    blocks, scale = result.best.blocks, float(result.best.variance_ratios.max())
    level = _inner_level(result.best, scale, result.proof.p, result.gap)
    unit = np.sqrt(scale * result.best.profile.max())
    level = replace(level, columns=tuple(own / unit for own in level.columns))
    used, slack = np.zeros(blocks.cells), np.ones(blocks.offset.size)
    whole = list(range(len(blocks.blocks)))  # the original block of each open block
    free, settled = list(level.roots), [root[:, :0] for root in level.roots]
    levels, gap = 1, level.gap
    while not deadline.passed:
        splits, seen = _splits(blocks, level, used)
        if not any(own.shape[1] for own, _ in splits):
            break
        rows, columns, variances, _ = _along(blocks, level, [own for own, _ in splits])
        _, _, kept, profile = _along(blocks, level, [own for _, own in splits])
        left_over = np.maximum(slack - kept - variances, _LEEWAY * slack)
        some = variances > 0
        used, slack = (used + profile)[seen], (variances + left_over)[some]
        numbers, opened = _open_blocks(blocks, rows, columns, some, seen)
        if opened is None:
            break
        blocks, level = opened, _least_largest(opened, used, slack, deadline)
        lost = sum(
            len(columns[i]) - len(own) for i, own in zip(numbers, level.columns, strict=True)
        )
        if lost:
            raise scipy.linalg.LinAlgError(f"{lost} directions are lost to rounding")
        for at, (own_free, own_settled) in zip(whole, splits, strict=True):
            settled[at] = np.hstack([settled[at], free[at] @ own_settled])
            free[at] = free[at] @ own_free
        whole = [whole[i] for i in numbers]
        for at, root in zip(whole, level.roots, strict=True):
            free[at] = free[at] @ root
        levels, gap = levels + 1, max(gap, level.gap)
    both = zip(settled, free, strict=True)
    return tuple(np.hstack(parts) for parts in both), levels, gap


def _splits(
    blocks: MatrixBlocks, level: Level, used: Array
) -> tuple[list[Split], NDArray[np.bool_]]:
    """Each block's free and settled directions, and a mask of the cells that are still open.

    A cell is open if the directions orthogonal to all tight columns affect it. Directions that
    affect no open cell are settled too.
    """
    lengths = _profile(blocks, level.columns)
    entries = used + lengths
    tight = level.p > 1 - entries / entries.max()
    splits = []
    for block, columns in zip(blocks.blocks, level.columns, strict=True):
        own = tight[block.columns]
        splits.append(_split(columns[:, own] / np.sqrt(lengths[block.columns][own])))
    free = [own.T @ columns for (own, _), columns in zip(splits, level.columns, strict=True)]
    kept = [own.T @ columns for (_, own), columns in zip(splits, level.columns, strict=True)]
    least = np.maximum(_NEGLIGIBLE * _profile(blocks, kept), _UNSEEN * lengths.max())
    seen = _profile(blocks, free) > least
    return [
        _with_unseen_settled(split, columns[:, seen[block.columns]])
        for block, split, columns in zip(blocks.blocks, splits, free, strict=True)
    ], seen


def _split(directions: Array, least: float = _NEGLIGIBLE) -> Split:
    """Split the space: the span of ``directions`` is settled, its complement is free."""
    eigenvalues, rotation = scipy.linalg.eigh(directions @ directions.T, driver="evd")
    count = int(np.sum(eigenvalues <= least * eigenvalues[-1]))
    return rotation[:, :count], rotation[:, count:]


def _with_unseen_settled(split: Split, columns: Array) -> Split:
    """A copy of the split in which free directions orthogonal to all ``columns`` are settled."""
    free, settled = split
    columns = columns[:, columns.any(axis=0)]
    if not columns.size:
        return split
    unseen, seen = _split(columns / np.linalg.norm(columns, axis=0), _ROUNDING)
    return free @ seen, np.hstack([settled, free @ unseen])


def _along(
    blocks: MatrixBlocks, level: Level, directions: Sequence[Array]
) -> tuple[list[Array], list[Array], Array, Array]:
    """Restrict the queries and columns of each block to some directions.

    Returns a list of the blocks' queries, a list of the blocks' columns, the variances of the
    queries and the profile of the columns.
    """
    every = list(zip(blocks.blocks, level.roots, level.columns, directions, strict=True))
    rows = [block.factors.representation @ root @ along for block, root, _, along in every]
    columns = [along.T @ own for _, _, own, along in every]
    variances = blocks.row_sums([np.square(own).sum(axis=1) for own in rows])
    return rows, columns, variances, _profile(blocks, columns)


def _profile(blocks: MatrixBlocks, columns: Sequence[Array]) -> Array:
    return blocks.column_sums([np.square(own).sum(axis=0) for own in columns])


def _open_blocks(
    blocks: MatrixBlocks,
    queries: Sequence[Array],
    cells: Sequence[Array],
    open_queries: NDArray[np.bool_],
    open_cells: NDArray[np.bool_],
) -> tuple[list[int], MatrixBlocks | None]:
    """The indices of the blocks that continue at the next level, and the blocks of that level.

    A block continues if it has free directions, open queries and open cells. The second entry is
    None if no block continues.
    """
    cells_now, queries_now = np.cumsum(open_cells) - 1, np.cumsum(open_queries) - 1
    numbers, opened = [], []
    for i, block in enumerate(blocks.blocks):
        columns = np.arange(blocks.cells)[block.columns]
        rows = np.arange(blocks.offset.size)[block.rows]
        own_columns, own_rows = open_cells[columns], open_queries[rows]
        if cells[i].size and own_columns.any() and own_rows.any():
            factors = Factors(Explicit(queries[i][own_rows]), cells[i][:, own_columns])
            places = queries_now[rows[own_rows]], cells_now[columns[own_columns]]
            opened.append(Block(factors, *places))
            numbers.append(i)
    offset = np.zeros(int(open_queries.sum()))
    count = int(open_cells.sum())
    return numbers, MatrixBlocks(tuple(opened), count, offset, True, FIRST_TOL) if opened else None


def _least_largest(blocks: MatrixBlocks, used: Array, slack: Array, deadline: Deadline) -> Level:
    """Minimise the largest entry of ``used + profile`` with variances of at most ``slack``."""
    cells = blocks.groups[:, :1]
    program = Program(blocks.at, np.concatenate([-used, slack]), cells)

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
    progress = maximise(program, blocks.at(start), bounds, stopping)
    scale = float(np.max(progress.best.variance_ratios / slack))
    return _inner_level(progress.best, scale, progress.proof.p, progress.gap)


def _inner_level(best: BlocksPoint, scale: float, p: Array, gap: float) -> Level:
    """The level whose covariances are the inner solution at a point, divided by ``scale``.

    ``p`` has the column weights that prove the level, up to a factor.
    """
    pairs = zip(best.blocks.blocks, best.spectra, strict=True)
    columns = [
        (own.columns / np.sqrt(best.p[block.columns])[:, None] * np.sqrt(own.singular * scale)).T
        for block, own in pairs
    ]
    roots = [root / np.sqrt(scale) for root in best.roots]
    return Level(tuple(roots), tuple(columns), p / p.sum(), gap)
