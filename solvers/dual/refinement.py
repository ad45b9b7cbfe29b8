"""The unique answer to Problem 1: least in the refined privacy ordering (Theorem 10, arXiv v1).

Among the covariances of least Δ², it finds the one whose next largest profile entry is least, and
so on. In coordinates where Σ = I, let S be the span of the tight columns: those whose dual weight,
complementary to their slack, stays positive. Every optimal covariance has the same profile on those
columns, and b' Σ⁻¹ b is strictly convex along all directions D with D Σ⁻¹ b != 0. So all optimal
covariances agree with Σ on S and differ only by a covariance of its orthogonal complement, where
the next level is a problem of the same form,

    minimise max_i (a_i + b_i' Σ⁻¹ b_i)   subject to   v_j' Σ v_j <= slack_j,

smaller by the dimension of S, where a_i and slack_j account for the settled part. The recursion
ends when no direction is left: then the answer is unique. With several blocks, profiles and ratios
are sums, S is a span in each block, and the same argument holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from solvers.dual.interior_point import Program, Progress, maximise
from solvers.dual.iteration import Deadline, Stop, Stopping
from solvers.dual.matrix_blocks import Block, BlocksPoint, MatrixBlocks
from solvers.errors import SolveFailedError
from solvers.problem.factors import Factors
from workloads.operators import Array, Explicit

FIRST_TOL = 1e-11
"""The gap to which the first level is solved."""

Split = tuple[Array, Array]
"""Orthonormal columns that span the free and the settled directions of a block."""

_LEVEL_ITERATIONS = 60
_NEGLIGIBLE = 1e-9
_UNSEEN = 1e-20
_ROUNDING = 1e-14
_LEEWAY = 1e-8
"""Slack of settled queries, relative to their targets.

The part of a settled query outside the span should be zero, but is as large as the optimum is
inexact; without slack it would act as a further tight query.
"""


@dataclass(frozen=True, eq=False)
class Level:
    """Covariances whose largest profile entry is least, and the weights that prove it.

    Attributes
    ----------
    roots : tuple of numpy.ndarray, shape (k, k)
        R with Σ = R Rᵀ of each block, scaled so that no query exceeds its slack.
    columns : tuple of numpy.ndarray, shape (k, columns of the block)
        ``inv(R) @ basis`` of each block, in units in which Δ² is 1.
    p : numpy.ndarray, shape (d,)
        Column weights, summing to one.
    gap : float
        Certified relative gap of the largest entry.
    """

    roots: tuple[Array, ...]
    columns: tuple[Array, ...]
    p: Array
    gap: float


@dataclass(frozen=True, eq=False)
class Refined:
    """The end of the recursion.

    Attributes
    ----------
    factors : tuple of numpy.ndarray, shape (k, k)
        F with Σ = F Fᵀ of each block.
    gap : float
        The largest certified gap of any level.
    """

    factors: tuple[Array, ...]
    levels: int
    gap: float


def from_optimum(
    blocks: MatrixBlocks, result: Progress[BlocksPoint], tol: float, deadline: Deadline
) -> tuple[Refined, Progress[BlocksPoint]]:
    """Roots of the covariances that are least in the refined ordering, and the updated progress.

    Parameters
    ----------
    result : Progress
        An optimum of Problem 1 on these blocks, to `FIRST_TOL`.

    Raises
    ------
    SolveFailedError
        If a level is too ill-conditioned for double precision.
    """
    scale = float(result.best.variance_ratios.max())
    p = result.proof.p / result.proof.p.sum()
    first = inner_level(result.best, scale, p, result.gap)
    unit = np.sqrt(scale * result.best.profile.max())
    first = replace(first, columns=tuple(own / unit for own in first.columns))
    try:
        refined = refine(blocks, first, FIRST_TOL, deadline)
    except scipy.linalg.LinAlgError as error:
        raise SolveFailedError(
            f"optimal: refined: a level is too ill-conditioned for double precision ({error}); "
            "leave refined out"
        ) from error
    reached = result.gap <= tol and refined.gap <= tol
    stop = Stop.TIMED_OUT if deadline.passed else Stop.STALLED
    return refined, replace(result, stop=Stop.CONVERGED if reached else stop)


def refine(blocks: MatrixBlocks, first: Level, tol: float, deadline: Deadline) -> Refined:
    """Continue from an optimum of Problem 1 to the one that is least in the refined ordering.

    Parameters
    ----------
    deadline : Deadline
        When to stop; the covariances of the last finished level are then returned.

    Raises
    ------
    scipy.linalg.LinAlgError
        If a level is too ill-conditioned for double precision.
    """
    used, slack = np.zeros(blocks.cells), np.ones(blocks.queries)
    return _descend(blocks, used, slack, first, tol, deadline)


def _descend(
    blocks: MatrixBlocks, used: Array, slack: Array, level: Level, tol: float, deadline: Deadline
) -> Refined:
    lengths = blocks.column_sums([np.square(columns).sum(axis=0) for columns in level.columns])
    entries = used + lengths
    tight = level.p > 1 - entries / entries.max()
    splits = [
        _split(
            columns[:, tight[block.columns]] / np.sqrt(lengths[block.columns][tight[block.columns]])
        )
        for block, columns in zip(blocks.blocks, level.columns, strict=True)
    ]
    end = Refined(level.roots, 1, level.gap)
    if not any(free.shape[1] for free, _ in splits) or deadline.passed:
        return end
    parts = _parts(blocks, level, splits)
    seen = parts.open > np.maximum(_NEGLIGIBLE * parts.settled_profile, _UNSEEN * lengths.max())
    splits = [
        _with_unseen_settled(split, inner[:, seen[block.columns]])
        for block, split, inner in zip(blocks.blocks, splits, parts.inner, strict=True)
    ]
    parts = _parts(blocks, level, splits)
    open_queries = parts.free_variances > 0
    left_over = np.maximum(slack - parts.settled_variances - parts.free_variances, _LEEWAY * slack)
    used_here, slack_left = (
        (used + parts.settled_profile)[seen],
        (parts.free_variances + left_over)[open_queries],
    )
    smaller, kept = _next_blocks(blocks, parts, open_queries, seen)
    if smaller is None:
        return end
    below = _least_largest(smaller, used_here, slack_left, tol, deadline)
    lost = sum(
        len(parts.inner[at]) - len(cols) for at, cols in zip(kept, below.columns, strict=True)
    )
    if lost:
        raise scipy.linalg.LinAlgError(f"{lost} directions are lost to rounding")
    rest = _descend(smaller, used_here, slack_left, below, tol, deadline)
    found = dict(zip(kept, rest.factors, strict=True))
    factors = tuple(
        np.hstack([root @ settled, root @ free @ found[at] if at in found else root @ free])
        for at, (root, (free, settled)) in enumerate(zip(level.roots, splits, strict=True))
    )
    return Refined(factors, 1 + rest.levels, max(level.gap, rest.gap))


def _split(directions: Array, least: float = _NEGLIGIBLE) -> Split:
    """Orthonormal columns that span the free and the settled directions."""
    eigenvalues, rotation = scipy.linalg.eigh(directions @ directions.T, driver="evd")
    count = int(np.sum(eigenvalues <= least * eigenvalues[-1]))
    return rotation[:, :count], rotation[:, count:]


def _with_unseen_settled(split: Split, columns: Array) -> Split:
    """The split with the free directions that no column sees counted as settled."""
    free, settled = split
    columns = columns[:, columns.any(axis=0)]
    if not columns.size:
        return split
    unseen, seen = _split(columns / np.linalg.norm(columns, axis=0), _ROUNDING)
    return free @ seen, np.hstack([settled, free @ unseen])


@dataclass(frozen=True, eq=False)
class _Parts:
    """The settled and the free part of a level.

    Attributes
    ----------
    rows, inner : list of numpy.ndarray
        The queries and the columns of each block along its free directions.
    settled_profile, open : numpy.ndarray, shape (d,)
        The profile along the settled and the free directions.
    settled_variances, free_variances : numpy.ndarray, shape (m,)
        The variances along the settled and the free directions.
    """

    rows: list[Array]
    inner: list[Array]
    settled_profile: Array
    open: Array
    settled_variances: Array
    free_variances: Array


def _parts(blocks: MatrixBlocks, level: Level, splits: Sequence[Split]) -> _Parts:
    own = [b.factors.left @ root for b, root in zip(blocks.blocks, level.roots, strict=True)]
    every = list(zip(own, level.columns, splits, strict=True))
    rows = [queries @ free for queries, _, (free, _) in every]
    inner = [free.T @ columns for _, columns, (free, _) in every]
    settled_rows = [queries @ settled for queries, _, (_, settled) in every]
    settled_columns = [settled.T @ columns for _, columns, (_, settled) in every]
    return _Parts(
        rows,
        inner,
        blocks.column_sums([np.square(columns).sum(axis=0) for columns in settled_columns]),
        blocks.column_sums([np.square(columns).sum(axis=0) for columns in inner]),
        blocks.row_sums([np.square(rows).sum(axis=1) for rows in settled_rows]),
        blocks.row_sums([np.square(rows).sum(axis=1) for rows in rows]),
    )


def _next_blocks(
    blocks: MatrixBlocks,
    parts: _Parts,
    open_queries: NDArray[np.bool_],
    open_columns: NDArray[np.bool_],
) -> tuple[MatrixBlocks | None, list[int]]:
    """The blocks of the next level, and their indices; None if nothing is left."""
    columns_now, rows_now = np.cumsum(open_columns) - 1, np.cumsum(open_queries) - 1
    smaller, kept = [], []
    for at, block in enumerate(blocks.blocks):
        columns = np.arange(blocks.cells)[block.columns]
        rows = np.arange(blocks.queries)[block.rows]
        own_columns, own_rows = open_columns[columns], open_queries[rows]
        if parts.inner[at].size and own_columns.any() and own_rows.any():
            part = Factors(Explicit(parts.rows[at][own_rows]), parts.inner[at][:, own_columns])
            smaller.append(Block(part, rows_now[rows[own_rows]], columns_now[columns[own_columns]]))
            kept.append(at)
    if not smaller:
        return None, kept
    offset = np.zeros(int(open_queries.sum()))
    return MatrixBlocks(tuple(smaller), int(open_columns.sum()), offset, free_queries=True), kept


def _least_largest(
    blocks: MatrixBlocks, used: Array, slack: Array, tol: float, deadline: Deadline
) -> Level:
    """Minimise the largest of ``used + profile`` with variances of at most ``slack``."""
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
    stopping = Stopping(tol, _LEVEL_ITERATIONS, deadline)
    progress = maximise(program, blocks.at(start), bounds, stopping)
    best, p = progress.best, progress.proof.p
    scale = float(np.max(best.variance_ratios / slack))
    return inner_level(best, scale, p / p.sum(), progress.gap)


def inner_level(best: BlocksPoint, scale: float, p: Array, gap: float) -> Level:
    """The inner solution at a point, its covariances divided by the scale."""
    levels = []
    for block, spectrum in zip(best.blocks.blocks, best.spectra, strict=True):
        weights = np.sqrt(best.p[block.columns])[:, None]
        roots, basis = np.sqrt(spectrum.singular * scale), block.factors.basis
        root = weights * spectrum.columns / roots
        columns = (spectrum.columns / weights * roots).T
        levels.append((root if basis is None else basis @ root, columns))
    return Level(tuple(root for root, _ in levels), tuple(own for _, own in levels), p, gap)
