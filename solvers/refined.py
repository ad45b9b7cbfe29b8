"""The unique answer to Problem 1: least in the refined privacy ordering (Theorem 10).

Among the covariances of least Δ² the one is sought whose next largest profile entry is
least, and so on. In coordinates where Σ = I, let S be the span of the tight columns: those
whose dual weight, complementary to their slack, stays positive. Every optimal covariance has
the same profile on those columns, and b' Σ⁻¹ b is strictly convex along all directions D with
D Σ⁻¹ b != 0; so all optimal covariances agree with Σ on S and differ only by a covariance of
the orthogonal complement, where the next level is a problem of the same form,

    minimise max_i (a_i + b_i' Σ⁻¹ b_i)   subject to   v_j' Σ v_j <= slack_j,

smaller by the dimension of S, with a_i and slack_j what the settled part uses. The
recursion ends when no direction is left: then the answer is unique.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg as sla

from solvers.factors import Factors, dense
from solvers.optimiser import BlocksPoint, Program, maximise
from solvers.optimiser.blocks import one_block
from solvers.stopping import Deadline, Stopping
from workloads.operators import Array

_LEVEL_ITERATIONS = 60
_NEGLIGIBLE = 1e-9


@dataclass(frozen=True, eq=False)
class Level:
    """A covariance of least largest profile entry, and the weights that prove it.

    Attributes
    ----------
    root : numpy.ndarray, shape (k, k)
        R with Σ = R Rᵀ, scaled so that no query has more than its slack.
    columns : numpy.ndarray, shape (k, d)
        ``inv(R) @ basis``.
    p : numpy.ndarray, shape (d,)
        Column weights, summing to one.
    gap : float
        Certified relative gap of the largest entry.
    """

    root: Array
    columns: Array
    p: Array
    gap: float


@dataclass(frozen=True, eq=False)
class Refined:
    """The end of the recursion.

    Attributes
    ----------
    factor : numpy.ndarray, shape (k, k)
        F with Σ = F Fᵀ.
    levels : int
        How many different problems had to be solved.
    gap : float
        The largest certified gap of any level.
    """

    factor: Array
    levels: int
    gap: float


def refine(factors: Factors, first: Level, tol: float, deadline: Deadline) -> Refined:
    """Go on from an optimum of Problem 1 to the one least in the refined ordering.

    Parameters
    ----------
    factors : Factors
        Of the scaled workload.
    first : Level
        An optimum of Problem 1.
    tol : float
        Relative gap of every level.
    deadline : Deadline
        When to stop; the covariance of the last finished level is then returned.

    Returns
    -------
    Refined

    Raises
    ------
    scipy.linalg.LinAlgError
        If a level is too ill-conditioned for double precision.
    """
    used, slack = np.zeros(factors.cells), np.ones(factors.queries)
    return _descend(factors.left, used, slack, first, tol, deadline)


def _descend(
    left: Array, used: Array, slack: Array, level: Level, tol: float, deadline: Deadline
) -> Refined:
    root, columns = level.root, level.columns
    lengths = np.square(columns).sum(axis=0)
    entries = used + lengths
    tight = level.p > 1 - entries / entries.max()
    directions = columns[:, tight] / np.sqrt(lengths[tight])
    eigenvalues, rotation = sla.eigh(directions @ directions.T, driver="evd")
    count = int(np.sum(eigenvalues <= _NEGLIGIBLE * eigenvalues[-1]))
    if count == 0 or deadline.passed:
        return Refined(root, 1, level.gap)
    free, settled = rotation[:, :count], rotation[:, count:]
    rows, inner = left @ root, free.T @ columns
    open_columns = np.square(inner).sum(axis=0) > _NEGLIGIBLE * lengths.max()
    used_here = used + np.square(settled.T @ columns).sum(axis=0)
    slack_left = slack - np.square(rows @ settled).sum(axis=1)
    free_rows = rows @ free
    asked = np.square(free_rows).sum(axis=1) > _NEGLIGIBLE * slack
    if not (asked.any() and open_columns.any() and np.all(slack_left[asked] > 0)):
        return Refined(root, 1, level.gap)
    part = dense(free_rows[asked], inner[:, open_columns])
    below = _least_largest(part, used_here[open_columns], slack_left[asked], tol, deadline)
    if len(below.columns) < count:
        raise sla.LinAlgError(f"{count - len(below.columns)} directions are lost to rounding")
    rest = _descend(
        part.left,
        used_here[open_columns],
        slack_left[asked],
        below,
        tol,
        deadline,
    )
    factor = np.hstack([root @ settled, root @ free @ rest.factor])
    return Refined(factor, 1 + rest.levels, max(level.gap, rest.gap))


def _least_largest(
    factors: Factors, used: Array, slack: Array, tol: float, deadline: Deadline
) -> Level:
    """Minimise the largest of ``used + profile`` with variances of at most ``slack``."""
    blocks = one_block(factors, np.zeros(factors.queries))
    cells = blocks.groups[:, :1]
    program = Program(blocks.at, np.concatenate([-used, slack]), cells)

    def bounds(point: BlocksPoint) -> tuple[float, float]:
        weight = float(point.p.sum())
        accuracy = float(point.q @ slack)
        lower = point.nuclear_norm**2 / (weight * accuracy) + point.p @ used / weight
        scale = float(np.max(point.variance_ratios / slack))
        return float(lower), float(np.max(used + scale * point.profile))

    start = blocks.uniform
    start[factors.cells :] /= slack
    start[factors.cells :] *= blocks.at(start).nuclear_norm ** 2
    stopping = Stopping(tol, _LEVEL_ITERATIONS, deadline)
    progress = maximise(program, blocks.at(start), bounds, stopping)
    best, p = progress.best, progress.proof.p
    scale = float(np.max(best.variance_ratios / slack))
    return inner_level(factors, best, scale, p / p.sum(), progress.gap)


def inner_level(factors: Factors, best: BlocksPoint, scale: float, p: Array, gap: float) -> Level:
    """The inner solution at a point, its covariance divided by the scale."""
    found = best.spectrum
    weights, roots = np.sqrt(best.p)[:, None], np.sqrt(found.singular * scale)
    root = weights * found.columns / roots
    columns = (found.columns / weights * roots).T
    return Level(root if factors.basis is None else factors.basis @ root, columns, p, gap)
