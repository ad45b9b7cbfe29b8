"""Problem 1 and its relatives solved through their dual, with certificates.

With A = diag(c)^-1/2 W, column weights p, query weights q and
f(p, q) = || diag(q)^1/2 A diag(p)^1/2 ||_*:

- the optimum of Problem 1 is the largest f² over weights p and q that each sum to one;
- the least total error sum_j omega_j var_j / c_j at Δ² <= 1 (CA, the matrix mechanism) is
  the largest f(p, omega)² over weights p that sum to one;
- the hybrid of privacy cost and total error adds omega to q.

Any weights give a lower bound. The inner solution at any weights, a covariance that
`solvers.dual.spectrum` defines, gives an upper bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.dual.iteration import Deadline, Stopping
from solvers.dual.matrix_blocks import BlocksPoint, MatrixBlocks, as_blocks
from solvers.dual.predictor_corrector import Optimum, Program, maximise, multiplicative_step
from solvers.dual.reflection import Bounds, reflection
from solvers.problem.factors import Factors, factorise
from workloads.operators import Array

_RELAXATIONS = (1.5, 2.0)
"""The relaxation of each multiplicative step that is taken before the first Newton step.

A third multiplicative step, with relaxation 1.5, would take a fifth of the time of a Newton step.
It saves no Newton steps for ranges, and one Newton step in twenty for random matrices (64 to 256
cells). Near the optimum, multiplicative steps save no time.
"""
_UNIFORM_SHARE = 0.01
"""Share of equal weights in a given start, so that no weight starts near zero.

From the optimum of targets that are up to 2 % or 30 % different, six problems of 128 cells take 33
steps with 0.001, 36 with 0.01 and 34 with 0.1.
"""
_COARSE_TOL = 1e-3
"""Gap to which coarser domains are solved.

Prefixes of 256 to 512 cells, with equal and different targets, take 33 steps with 1e-3 and with
1e-2, and 37 with 1e-4; those of 1024 cells take a fourth step with 3e-3.
"""
_COARSEST = 256
"""Least number of cells that are coarsened: those prefixes take as long with 128 and with 512."""
_ALIKE = 0.25
"""Largest norm of the differences of adjacent rows or columns, relative to that of the matrix.

Prefixes over 256 cells have 0.09 with equal targets, and 0.56 with targets from 1 to 10. With a
limit of 1, the latter are coarsened in vain: the prefixes above take 60 steps, coarser ones
included.
"""
_EDGE = 16
"""Number of weights at each end of the domain that `_from_start` copies rather than interpolates.

The values 8 and 32 work as well.
"""
_VANISHING = 0.1
"""Least ratio of the smallest weight to the mean weight for which weights are extrapolated."""


@dataclass(frozen=True, eq=False)
class Weights:
    """A dual point: column weights p (d,) and query weights q (m,).

    If there are more than 10^7 cells or queries, the arrays have one entry for each orbit of
    equivalent cells or queries instead.
    """

    p: Array
    q: Array

    def resized(self, d: int, m: int) -> "Weights":
        """These weights, interpolated by position to d cells and m queries."""
        return Weights(resampled(self.p, d), resampled(self.q, m))


def optimum(
    whole: Factors | MatrixBlocks, stopping: Stopping, start: Weights | None = None
) -> Optimum[BlocksPoint]:
    """Compute the least Δ² at which every target can be met (Problem 1), with its certificate.

    Parameters
    ----------
    whole : Factors or MatrixBlocks
        The factors of the scaled workload A, or its blocks.
    stopping : Stopping
        When to return the best result so far; iterations include Newton steps on coarser domains.
    start : Weights, optional
        Weights of a similar problem of any size; results depend on them only within the gap.
    """
    taken = 0
    if start is None and isinstance(whole, Factors):
        coarse = coarsened(whole)
        if coarse is not None:
            optima, taken = _coarse_optima(coarse, stopping)
            start, stopping = _expected(optima, whole), stopping.after(taken)
    blocks = as_blocks(whole, stopping.tol)
    x = None if start is None else _first_weights(blocks, start)
    found = _maximised(blocks, x, _largest_entries, stopping)
    return replace(found, iterations=found.iterations + taken)


def least_total_error(
    whole: Factors | MatrixBlocks, weights: Array, stopping: Stopping, start: Array | None = None
) -> Optimum[BlocksPoint]:
    """Compute the least weighted total error at Δ² = 1: the matrix mechanism's optimum.

    The other parameters are those of `optimum`.

    Parameters
    ----------
    weights : numpy.ndarray, shape (m,)
        omega >= 0; the objective is ``sum(omega * variances / targets)``.
    start : numpy.ndarray, shape (d,), optional
        Initial column weights, which sum to one; results depend on them only within the gap.
    """
    total = float(weights.sum())
    blocks = replace(as_blocks(whole, stopping.tol), offset=weights / total, free_queries=False)

    def bounds(point: BlocksPoint) -> tuple[float, float]:
        norm = point.nuclear_norm
        lower, upper = norm**2 / float(point.p.sum()), float(point.profile.max()) * norm
        return total * lower, total * upper

    return _maximised(blocks, blocks.uniform if start is None else start, bounds, stopping)


def hybrid(
    whole: Factors | MatrixBlocks, weights: Array, stopping: Stopping, start: Weights | None = None
) -> Optimum[BlocksPoint]:
    """Compute the covariance of least ``max(profile) + max(ratios) + sum(weights * ratios)``.

    Here ``ratios`` are the ratios of variance to target. This is the hybrid objective of PVLDB
    14(10), section 6.1, with maxima in place of soft maxima.

    The other parameters are those of `optimum`.

    Parameters
    ----------
    weights : numpy.ndarray, shape (m,)
        Weights of the variance ratios in the last term, the total error. If all are zero, half the
        least objective is the least Δ of Problem 1.
    """
    blocks = replace(as_blocks(whole, stopping.tol), offset=weights)
    return _maximised(blocks, _first_weights(blocks, start), _hybrid_bounds, stopping)


def _coarse_optima(coarse: Factors, stopping: Stopping) -> tuple[list[Weights], int]:
    """Optimal weights for the factors ``coarse`` and for coarser versions of them, coarsest first.

    The coarser versions have every second, fourth, ... query and cell. Also returns the number of
    Newton steps taken for all versions, which is at most ``stopping.max_iterations``.
    """
    coarser = coarsened(coarse)
    optima: list[Weights] = []
    taken, start = 0, None
    if coarser is not None:
        optima, taken = _coarse_optima(coarser, stopping)
        start = _expected(optima, coarse)
    found = optimum(coarse, replace(stopping.after(taken), tol=_COARSE_TOL), start)
    return [*optima, Weights(found.proof.p, found.proof.q)], taken + found.iterations


def _expected(optima: Sequence[Weights], factors: Factors) -> Weights:
    """Extrapolate the optimal weights of all queries and cells from optima on coarser domains."""
    p = extrapolated([each.p for each in optima], factors.cells)
    return Weights(p, extrapolated([each.q for each in optima], factors.operator.shape[0]))


def _maximised(
    blocks: MatrixBlocks, x: Array | None, bounds: Bounds, stopping: Stopping
) -> Optimum[BlocksPoint]:
    """Maximise f over the free weights: column weights and, if they are free, query weights.

    The weights of each of the two kinds sum to one. The run starts at the weights x, or at weights
    from a few multiplicative steps if x is None.
    """
    mirror = reflection(blocks)
    if x is None:
        point, relaxed = _relaxed(mirror.halves, stopping.deadline)
    else:
        point, relaxed = mirror.first(x), 0
    program = Program(mirror.halves.at, np.zeros(point.x.size), mirror.halves.groups)
    found = mirror.unfold(maximise(program, point, bounds, stopping), bounds)
    return replace(found, factorisations=found.factorisations + relaxed)


def _relaxed(blocks: MatrixBlocks, deadline: Deadline) -> tuple[BlocksPoint, int]:
    """Take a few multiplicative steps; return the point and the number of steps.

    If time runs out while the spectrum before a step is computed, the point before that step is
    returned, since another spectrum would take as long again.
    """
    x = blocks.by_norms
    for taken, relaxation in enumerate(_RELAXATIONS):
        if deadline.passed:
            return blocks.at(x), taken
        gradient = blocks.rough_gradient(x)
        if gradient is None:
            point = blocks.at(x)
            if deadline.passed:
                return point, taken
            gradient = point.gradient
            del point  # frees its singular vectors before others are computed
        x = multiplicative_step(x, gradient, blocks.groups, relaxation=relaxation)
    return blocks.at(x), len(_RELAXATIONS)


def _first_weights(blocks: MatrixBlocks, start: Weights | None) -> Array:
    if start is None:
        return blocks.by_norms
    sized = start.resized(blocks.cells, blocks.offset.size)
    near = np.concatenate([sized.p / sized.p.sum(), sized.q / sized.q.sum()])
    return (1 - _UNIFORM_SHARE) * near + _UNIFORM_SHARE * blocks.uniform


def _largest_entries(point: BlocksPoint) -> tuple[float, float]:
    weight = float(point.p.sum() * point.q.sum())
    value = point.nuclear_norm**2 / weight
    return value, float(point.profile.max() * point.variance_ratios.max())


def _hybrid_bounds(point: BlocksPoint) -> tuple[float, float]:
    """Bounds on the least hybrid objective; the upper bound is its value at the best scale of Σ."""
    free = point.x[point.p.size :]
    weight = max(float(point.p.sum()), float(free.sum()))
    ratios = point.variance_ratios
    accuracy = float(ratios.max() + point.blocks.offset @ ratios)
    lower = 2 * point.nuclear_norm / max(weight, 1.0)
    return lower, 2 * float(np.sqrt(point.profile.max() * accuracy))


def coarsened(factors: Factors) -> Factors | None:
    """Return the factors of every second query and cell; None if the domain looks unordered.

    A domain looks ordered if the differences of adjacent rows, and those of adjacent columns, are
    small compared with the matrix, as they are for prefixes. None is also returned if the queries
    are structured, if their rank is below the number of cells, or if there are fewer than
    `_COARSEST` cells.
    """
    if factors.structured or factors.basis is not None or factors.cells < _COARSEST:
        return None
    matrix = factors.representation
    small = _ALIKE * np.linalg.norm(matrix)
    if any(np.linalg.norm(np.diff(matrix, axis=axis)) > small for axis in (0, 1)):
        return None
    return factorise(matrix[::2, ::2])


def resampled(values: Array, size: int) -> Array:
    """Interpolate values at ``size`` equally spaced positions, shape (size,)."""
    if values.size == size:
        return values
    return np.interp(np.linspace(0, 1, size), np.linspace(0, 1, values.size), values)


def extrapolated(optima: Sequence[Array], size: int) -> Array:
    """Extrapolate optimal weights, up to a factor, from optima on coarser domains, shape (size,).

    Each weight of the last optimum differs by some factor from its prediction, which is obtained by
    refining the previous optimum. The returned weights are the refined last optimum, multiplied by
    the same factors. If some weights nearly vanish, the last optimum is only resampled.

    Parameters
    ----------
    optima : sequence of numpy.ndarray
        Optimal weights, all positive, on coarser domains: the last array has weights for every
        second entry, the previous array for every fourth entry, and so on. Each array has at least
        ``4 * _EDGE`` weights.
    size : int
        Number of weights to return.
    """
    last = optima[-1]
    if any(values.min() < _VANISHING * values.mean() for values in optima[-2:]):
        return resampled(last, size)
    if len(optima) == 1:
        return _refined(last, size)
    surprise = last / _refined(optima[-2], last.size)
    return _refined(last, size) * resampled(surprise, size)


def _refined(values: Array, size: int) -> Array:
    """Predict the weights of all entries from the weights of every second entry.

    Near an end of the domain, a weight is copied from the entry of ``values`` that is equally many
    positions away from this end, and rescaled. The reason is that on fine domains, such a weight
    depends only on the number of positions between it and the end, apart from a factor that all
    weights share. The other weights are interpolated.
    """
    half = size // 2
    ahead, behind = _from_start(values, half), _from_start(values[::-1], size - half)
    return np.concatenate([ahead, behind[::-1]])


def _from_start(values: Array, count: int) -> Array:
    refined = np.interp(np.arange(count) / 2, np.arange(values.size), values)
    refined[:_EDGE] = values[:_EDGE] * (refined[_EDGE] / values[_EDGE])
    return refined
