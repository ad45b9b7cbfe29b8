"""The optimum under replace-one: the least privacy cost over all pairs of neighbouring cells.

Few pairs bind: the dual is solved on a working set of pairs, to which those that the answer
violates most are added. Weights on some pairs are weights on all, so every round's lower bound
holds for all pairs; the upper bound is evaluated on all pairs.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg as sla

from solvers.dual import programs as dual
from solvers.dual.differences import Differences
from solvers.dual.interior_point import Progress
from solvers.dual.iteration import Deadline
from solvers.dual.matrix_blocks import BlocksPoint
from solvers.dual.programs import Weights
from solvers.problem.factors import Factors
from solvers.problem.neighbours import Neighbours, Pairs
from workloads.operators import Array

_MOST_ROUNDS = 40
_FIRST_TOL = 1e-2
_MORE_PER_CELL = 4
_LEAST_WEIGHT = 1e-8
_NEW_SHARE = 0.05


@dataclass(frozen=True, eq=False)
class PairsOptimum:
    """A certified solution over all pairs.

    Attributes
    ----------
    root : numpy.ndarray, shape (k, k)
        ``root @ root.T`` is the covariance of the noise on the basis, up to scale.
    lower, upper : float
        Certified bounds on Δ², or on the square of half the hybrid objective.
    weights : Weights
        Of all pairs and queries; they prove ``lower``.
    last : Progress
        Of the last working set.
    pairs : int
        Size of the last working set.
    rounds, iterations : int
        Working sets, and Newton steps over all of them.
    converged, timed_out : bool
        Whether the gap reached ``tol``; whether time ran out before.
    """

    root: Array
    lower: float
    upper: float
    weights: Weights
    last: Progress[BlocksPoint]
    pairs: int
    rounds: int
    iterations: int
    converged: bool
    timed_out: bool


def optimum(
    smaller: Differences,
    tol: float,
    max_iterations: int,
    deadline: Deadline,
    total_error_weight: float = 0.0,
    bounds: Array | None = None,
) -> PairsOptimum:
    """The least Δ² over all pairs, or the least hybrid with total error, with its certificate.

    The hybrid is that of `dual.hybrid`: ``2 sqrt(Δ² (1 + weight * total variance))``. With a bound
    for every pair, which takes all of them ``at_once``, the cost of each is divided by its own.
    """
    omega = total_error_weight * smaller.centred.targets[smaller.asked]
    if smaller.at_once:
        return _of_all_pairs(smaller, omega, bounds, tol, max_iterations, deadline)
    return _in_rounds(smaller, omega, tol, max_iterations, deadline)


def _of_all_pairs(
    smaller: Differences,
    omega: Array,
    bounds: Array | None,
    tol: float,
    max_iterations: int,
    deadline: Deadline,
) -> PairsOptimum:
    """The optimum with a column for each pair, divided by the root of its bound."""
    factors, pairs = smaller.factors, smaller.pairs
    assert factors.basis is not None
    moved = smaller.over_bounds(factors.basis, bounds)
    limits = {"max_iterations": max_iterations, "deadline": deadline}
    result, root, scale = _solved(factors, moved, omega, tol=tol / 4, **limits)
    upper = scale * float(np.square(sla.solve(root, moved)).sum(axis=0).max())
    converged = upper <= result.lower * (1 + tol)
    return PairsOptimum(
        root,
        result.lower,
        upper,
        smaller.weights(result.proof.p, result.proof.q, pairs),
        result,
        len(pairs),
        1,
        result.iterations,
        converged,
        timed_out=deadline.passed and not converged,
    )


def _in_rounds(
    smaller: Differences, omega: Array, tol: float, max_iterations: int, deadline: Deadline
) -> PairsOptimum:
    """The optimum on working sets of pairs."""
    factors, neighbours = smaller.factors, smaller.problem.neighbours
    basis = factors.basis
    assert basis is not None
    limits = {"max_iterations": max_iterations, "deadline": deadline}
    kept = pairs = _first_pairs(neighbours, basis)
    lower, upper, best = 0.0, np.inf, np.eye(len(basis))
    start: Weights | None = None
    rounds = iterations = 0
    while True:
        gap = upper / lower - 1 if lower > 0 else np.inf
        inner = max(tol / 4, min(_FIRST_TOL, gap / 10))
        moved = basis[:, pairs[:, 0]] - basis[:, pairs[:, 1]]
        result, root, scale = _solved(factors, moved, omega, tol=inner, start=start, **limits)
        rounds, iterations = rounds + 1, iterations + result.iterations
        if result.lower > lower:
            lower, proof, proven = result.lower, result.proof, pairs
        strategy = sla.solve(root, basis)
        distance, partner = neighbours.partners(strategy)
        cost = scale * float(distance.max())
        if cost < upper:
            upper, best = cost, root
        converged = upper <= lower * (1 + tol)
        allowed = lower * (1 + tol / 2)
        violated = np.flatnonzero(distance * scale > allowed)
        added = _joined(pairs, np.column_stack([violated, partner[violated]]))
        more = neighbours.farthest_pairs(strategy, allowed / scale, _MORE_PER_CELL * basis.shape[1])
        added = _joined(added, more)
        stuck = len(added) == len(pairs) and inner <= tol / 4
        ended = rounds >= _MOST_ROUNDS or max_iterations <= 3
        if converged or stuck or ended or deadline.passed:
            break
        pairs, start = _following(pairs, added, kept, result)
    return PairsOptimum(
        best,
        lower,
        upper,
        smaller.weights(proof.p, proof.q, proven),
        result,
        len(pairs),
        rounds,
        iterations,
        converged,
        timed_out=deadline.passed and not converged,
    )


def _first_pairs(neighbours: Neighbours, basis: Array) -> Pairs:
    """A chain through the cells of each component, and every cell with its farthest partner."""
    d = basis.shape[1]
    if neighbours.pairs is not None:
        return neighbours.all_pairs(d)
    chains = [
        np.column_stack([np.arange(b.start, b.stop - 1), np.arange(b.start + 1, b.stop)])
        for b in neighbours.blocks(d)
    ]
    gram = basis @ basis.T
    whitened = sla.solve_triangular(sla.cholesky(gram, lower=True), basis, lower=True)
    _, partner = neighbours.partners(whitened)
    return _joined(np.concatenate(chains), np.column_stack([np.arange(d), partner]))


def _joined(pairs: Pairs, more: Pairs) -> Pairs:
    """The pairs, and those of the others that are not among them, behind them."""
    ordered = np.sort(more, axis=1)
    ordered = ordered[ordered[:, 0] < ordered[:, 1]]
    known = set(map(tuple, pairs.tolist()))
    fresh = [pair for pair in dict.fromkeys(map(tuple, ordered.tolist())) if pair not in known]
    return np.concatenate([pairs, np.array(fresh, dtype=np.intp).reshape(-1, 2)])


def _following(
    pairs: Pairs, added: Pairs, kept: Pairs, result: Progress[BlocksPoint]
) -> tuple[Pairs, Weights | None]:
    """The next working set, without pairs of no weight, and the weights to begin with."""
    p = result.best.p / result.best.p.sum()
    needed = p > _LEAST_WEIGHT / len(pairs)
    needed[: len(kept)] = True
    old, new = pairs[needed], added[len(pairs) :]
    weights = np.concatenate([p[needed], np.full(len(new), _NEW_SHARE / max(len(new), 1))])
    return np.concatenate([old, new]), Weights(weights, result.best.q)


def _dual(moved: Factors, omega: Array, **limits: Any) -> Progress[BlocksPoint]:
    """Problem 1, or its hybrid in the units of Δ²: the square of half the objective."""
    if not omega.any():
        return dual.optimum(moved, **limits)
    result = dual.hybrid(moved, omega, **limits)
    lower, upper = (result.lower / 2) ** 2, (result.upper / 2) ** 2
    return replace(result, lower=lower, upper=upper)


def _solved(
    factors: Factors, moved: Array, omega: Array, **limits: Any
) -> tuple[Progress[BlocksPoint], Array, float]:
    """The dual of some differences of the basis, a root of its covariance, and its variances.

    Of the variances over their targets the largest, and ``omega`` of each.
    """
    result = _dual(Factors(factors.operator, moved), omega, **limits)
    spectrum = result.best.spectrum
    inverse = np.sqrt(result.best.p)[:, None] * spectrum.columns / np.sqrt(spectrum.singular)
    root: Array = moved @ inverse
    ratios = np.square(factors.left @ root).sum(axis=1)
    return result, root, float(ratios.max() + omega @ ratios)
