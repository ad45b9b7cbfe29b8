"""Replace-one neighbours: problems with differences of columns in place of columns.

The columns of W are replaced by their differences w_i - w_j: Problem 1 is solved for W D, where D
has one column e_i - e_j for each pair (i, j) of neighbouring cells.

A query that is constant over the cells between which records can move has zero differences, so its
answer is public and costs nothing. For instance, if all cells are neighbouring, the answer is a
multiple of the number of records. The part of each query that is public in this sense is
subtracted from W first.

Only a few pairs determine the privacy cost. If there are many pairs, the dual is solved on a
working set of pairs, to which the pairs with the highest cost are added in each round. Weights on
the working set, with zeros for the other pairs, are weights on all pairs. So the lower bound of
every round holds for all pairs; the upper bound is evaluated on all pairs. Cells with equal columns
are one cell in the working set: otherwise it holds each difference several times, every Newton step
takes longer, and the weights, no longer determined, converge more slowly.

A mechanism that minimises its objective over differences, or computes its own sensitivity, has the
method ``on_differences``. All others choose their noise as under add-remove, and the privacy cost
of this noise is computed over all pairs. In both cases the query matrix is written out.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import scipy
from numpy.typing import NDArray

from solvers.dual import programs
from solvers.dual.iteration import Stop, Stopping
from solvers.dual.matrix_blocks import BlocksPoint
from solvers.dual.predictor_corrector import Optimum
from solvers.dual.programs import Weights
from solvers.errors import NotApplicableError
from solvers.forms.dense import QueryMatrix
from solvers.forms.reduction import Reduction
from solvers.mechanism import Mechanism, OnMatrix, ProblemSize, Work
from solvers.noise import verification
from solvers.noise.factorisation import Factorisation
from solvers.privacy.budget import NoBudget
from solvers.problem import Problem
from solvers.problem.factors import Factors
from solvers.problem.neighbours import ADD_REMOVE, Neighbours, Pairs
from solvers.solution import Solution
from workloads import from_matrix
from workloads.operators import LARGEST_MATRIX_BYTES, Array, Explicit, dense
from workloads.operators.blas import product

ALL_AT_ONCE = 9000
"""Largest number of pairs for which no working set is chosen: those of 134 cells.

With the 19 900 pairs of 200 cells, to a gap of 1e-4, prefixes take 6 s of CPU at once and 13 s on
working sets, but ranges 8.6 and 7.1 s, and ranges with different targets 17 and 8.6 s. Memory
grows with the number of pairs times the rank: at once they take 40 to 180 MB more.
"""
_LEAST_CORRECTED = 1e-7
"""Smallest singular value that is used to correct L, relative to the norm of B.

The singular values are those of the matrix of differences of B's columns. With this limit, the
rounding errors of B cause a relative error of at most 1e-9 in L.
"""


@dataclass(frozen=True, eq=False)
class Differences(Reduction):
    """A problem under replace-one neighbours, with and without its public part.

    Attributes
    ----------
    problem : Problem
        The original problem.
    """

    problem: Problem

    @classmethod
    def of(cls, problem: Problem) -> "Differences | None":
        """Accept problems under replace-one neighbours."""
        return None if problem.neighbours.add_remove else cls(problem)

    @cached_property
    def centred(self) -> Problem:
        """The problem without the public part of W, as a problem under add-remove.

        Raises
        ------
        NotApplicableError
            If the query matrix is too large to write out, or all answers are public.
        """
        workload, neighbours = self.problem.workload, self.problem.neighbours
        m, d = workload.shape
        if 8 * d * max(m, d) > LARGEST_MATRIX_BYTES:
            raise NotApplicableError(
                f"{neighbours.title} on {self.problem.size}: replace-one neighbours need the query "
                "matrix, which is too large to write out; leave neighbours at add-remove"
            )
        centred = self.relative(workload.dense)
        if not centred.any():
            raise NotApplicableError(
                f"all queries of workload {workload.name!r} are constant over the cells that a "
                f"record moves between ({neighbours.title}): their answers are public and need no "
                "noise"
            )
        return Problem(from_matrix(centred, "differences"), self.problem.targets)

    def relative(self, columns: Array) -> Array:
        """Subtract from each column the first column of its component (`Neighbours.components`)."""
        labels = self.problem.neighbours.components(columns.shape[1])
        _, first = np.unique(labels, return_index=True)
        return columns - columns[:, first][:, labels]

    def unbiased(self, noise: Factorisation) -> Factorisation:
        """Return noise that was chosen under add-remove, with L corrected where necessary.

        L is corrected if ``L B`` and W disagree on the differences of columns: the rounding error
        of ``L B`` is proportional to the lengths of B's columns, and the differences of these
        columns can be much shorter.
        """
        left, right = dense(noise.left), dense(noise.right)
        differences = self.relative(right)
        missing = self.centred.workload.dense - product(left, differences)
        units = np.sqrt(noise.query_variances * noise.squared_privacy_cost)
        if np.all(np.abs(missing) <= verification.LARGEST_RESIDUAL * units[:, None]):
            return noise
        least = _LEAST_CORRECTED * np.linalg.norm(right) / np.linalg.norm(differences, 2)
        left = left + missing @ np.linalg.pinv(differences, rcond=least)
        return replace(noise, decoder=Explicit(left))

    @property
    def at_once(self) -> bool:
        """Whether there are few enough pairs to solve for all of them together."""
        return self.problem.neighbours.count(self.problem.workload.d) <= ALL_AT_ONCE

    @cached_property
    def first_alike(self) -> NDArray[np.intp]:
        """For each cell, the first cell of its block with the same column of W, shape (d,).

        A pair of cells costs as much as the pair of the first cells alike. With listed pairs, every
        cell is its own first cell, because the pair of the first cells may not be listed.
        """
        neighbours, d = self.problem.neighbours, self.problem.workload.d
        if neighbours.pairs is not None:
            return np.arange(d)
        columns, first = self.centred.workload.dense.T, np.empty(d, dtype=np.intp)
        for block in neighbours.blocks(d):
            _, places, group = np.unique(
                columns[block], axis=0, return_index=True, return_inverse=True
            )
            first[block] = block.start + places[group]
        return first

    @property
    def pairs(self) -> Pairs:
        """All pairs of neighbouring cells."""
        return self.problem.neighbours.all_pairs(self.problem.workload.d)

    def noise(self, mechanism: str, root: Array) -> Factorisation:
        """Return noise on the basis of `private_part`, scaled to just meet the targets.

        Up to scale, the covariance of the noise is ``root @ root.T``. The product L B is W without
        its public part.

        Raises
        ------
        SolveFailedError
            If L B is inaccurate.
        """
        basis, targets = self.private_part.basis, self.centred.targets
        queries = np.zeros((len(targets), len(basis)))
        queries[self.private] = self.private_part.representation
        own = Explicit(queries)
        inner = verification.noise_from_root(mechanism, self.centred, basis, own, root)
        return replace(inner.met(mechanism, targets), neighbours=self.problem.neighbours)

    @property
    def private(self) -> NDArray[np.bool_]:
        """Mask of the queries whose answers are not public, shape (m,)."""
        return np.asarray(self.centred.workload.dense.any(axis=1))

    def weights(self, p: Array, q: Array, pairs: Pairs) -> Weights:
        """Convert weights of ``pairs`` and of private queries to weights of all pairs and queries.

        Missing weights are zero. The pairs of the result are in the order of `all_pairs`.
        """
        d = self.problem.workload.d
        every = self.pairs @ (d, 1)
        of_pairs, of_queries = np.zeros(len(every)), np.zeros(self.problem.workload.m)
        of_pairs[np.searchsorted(every, pairs @ (d, 1))] = p
        of_queries[self.private] = q
        return Weights(of_pairs, of_queries)

    @cached_property
    def private_part(self) -> Problem:
        """The centred problem without the public queries."""
        matrix, private = self.centred.workload.dense, self.private
        return Problem(from_matrix(matrix[private]), self.centred.targets[private])

    def check(self, mechanism: Mechanism) -> None:
        """There is no obstacle: what cannot be solved this way cannot be solved at all."""

    def solve(self, mechanism: Mechanism) -> Solution:
        """Solve by the mechanism's own way, or compute the privacy cost of its add-remove noise."""
        _ = self.centred  # also checks the problem, for mechanisms that do not use it
        if isinstance(mechanism, OnDifferences):
            return mechanism.on_differences(self)
        if not isinstance(mechanism, OnMatrix):
            raise NotApplicableError(
                f"{mechanism.name} on {self.problem.size}: {mechanism.without_matrix}"
            )
        solution = QueryMatrix(replace(self.problem, neighbours=ADD_REMOVE)).solve(mechanism)
        noise, neighbours = solution.noise, self.problem.neighbours
        if isinstance(noise, Factorisation):
            noise = self.unbiased(replace(noise, neighbours=neighbours))
        elif not isinstance(noise.curve, NoBudget):
            raise NotApplicableError(
                f"{mechanism.name}: the cost of its noise under {neighbours.title} is not known; "
                "leave neighbours at add-remove"
            )
        return replace(solution, problem=self.problem, noise=noise, known_lower_bound=None)

    def lower_bound(self, stopping: Stopping) -> float:
        """Return the bound of the dual over all pairs."""
        return optimum_over_pairs(self, stopping).result.lower

    def work(self, mechanism: Mechanism) -> Work:
        """Estimate the work; for ``on_differences``, each pair of neighbours has a column."""
        m, d = self.problem.workload.shape
        if isinstance(mechanism, OnDifferences):
            d = self.problem.neighbours.count(d)
        return mechanism.work(ProblemSize(m, d))


_MOST_ROUNDS = 40
"""Largest number of working sets; 200 cells take 8 to 14."""
_FIRST_TOL = 1e-2
"""Gap to which the first working set is solved.

With 1e-1, prefixes of 200 cells take 28 s instead of 21, ranges 8.5 instead of 13.8. With 1e-3,
random signs take 2.6 s instead of 1.7, and ranges with different targets 10.4 instead of 7.7.
"""
_MORE_PER_CELL = 4
"""Number of pairs for each cell that a round adds, besides each cell's farthest partner.

With 1, ranges of 200 cells take 14 rounds instead of 10, and 6.3 s instead of 8.7; random signs
take 2.1 s instead of 1.7. With 16, they take 6 rounds, but 10.7 and 2.1 s.
"""
_LEAST_WEIGHT = 1e-8
"""Share of the mean weight below which a pair leaves the working set.

With 1e-4 the sets have 6 to 30 % fewer pairs, and solves take 90 to 100 % of the time.
"""
_NEW_SHARE = 0.05
"""Total weight of the new pairs at the start of a solve, beside 1 for those of the last set.

With 0.005, prefixes of 200 cells take 65 Newton steps instead of 59, and with 0.5 they take 75.
"""


@dataclass(frozen=True, eq=False)
class PairsOptimum:
    """A solution with bounds that hold for all pairs of neighbouring cells.

    Attributes
    ----------
    root : numpy.ndarray, shape (k, k)
        ``root @ root.T`` is the covariance of the noise on the basis, up to scale.
    weights : Weights
        Weights of all pairs and queries that prove the lower bound.
    result : Optimum
        Certified bounds on Δ², or on the square of half the hybrid objective; the number of Newton
        steps over all working sets; and the optimum on the last working set.
    pairs : int
        Size of the last working set.
    rounds : int
        Number of working sets.
    """

    root: Array
    weights: Weights
    result: Optimum[BlocksPoint]
    pairs: int
    rounds: int


def optimum_over_pairs(
    transformed: Differences,
    stopping: Stopping,
    total_error_weight: float = 0.0,
    bounds: Array | None = None,
) -> PairsOptimum:
    """Compute the least Δ², or the least hybrid objective, with a certificate for all pairs.

    Δ² is the largest cost of a pair. If the weight of total error is positive, the hybrid objective
    ``2 sqrt(Δ² (1 + weight * total variance))`` of `programs.hybrid` is minimised, and the result
    has bounds on ``(hybrid / 2)**2``. ``bounds`` has one number for each pair, by which the pair's
    cost is divided; it requires ``transformed.at_once``.
    """
    part, neighbours = transformed.private_part, transformed.problem.neighbours
    basis, at_once = part.basis, transformed.at_once
    omega = total_error_weight * part.targets
    tol, deadline = stopping.tol, stopping.deadline
    alike = transformed.first_alike
    first = pairs = transformed.pairs if at_once else _first_pairs(neighbours, basis, alike)
    # lower: of the best weights so far, extended by zeros; upper: the cost of ``best`` on all pairs
    lower, upper, best = 0.0, np.inf, np.eye(len(basis))
    start: Weights | None = None
    rounds = iterations = 0
    while True:
        # 1. solve on the working set, to a tenth of the gap that other pairs leave open
        gap = upper / lower - 1 if lower > 0 else np.inf
        inner_tol = tol / 4 if at_once else max(tol / 4, min(_FIRST_TOL, gap / 10))
        columns = basis[:, pairs[:, 0]] - basis[:, pairs[:, 1]]
        if bounds is not None:
            columns = columns / np.sqrt(bounds)
        within = replace(stopping, tol=inner_tol)
        result, root, scale = _solve_on_pairs(part.factors, columns, omega, within, start)
        rounds, iterations = rounds + 1, iterations + result.iterations
        if result.lower > lower:
            lower, proof, proven = result.lower, result.proof, pairs
        # 2. the cost of every pair: the squared length of its column of B = R⁻¹ basis, O(k d²)
        strategy = scipy.linalg.solve(root, columns if at_once else basis)
        if at_once:
            distance = np.square(strategy).sum(axis=0)
        else:
            distance, partner = neighbours.partners(strategy)
        cost = scale * float(distance.max())
        if cost < upper:
            upper, best = cost, root
        converged = upper <= lower * (1 + tol)
        ended = rounds >= _MOST_ROUNDS or stopping.max_iterations <= 3 or deadline.passed
        if at_once or converged or ended:
            break
        # 3. add each cell's farthest partner, and more of the pairs that cost too much
        allowed = lower * (1 + tol / 2)
        violated = np.flatnonzero(distance * scale > allowed)
        joined = _join(pairs, alike[np.column_stack([violated, partner[violated]])])
        more = neighbours.farthest_pairs(strategy, allowed / scale, _MORE_PER_CELL * basis.shape[1])
        joined = _join(joined, alike[more])
        if len(joined) == len(pairs) and inner_tol <= tol / 4:
            break
        pairs, start = _next_working_set(pairs, joined, first, result)
    stop = Stop.CONVERGED if converged else Stop.TIMED_OUT if deadline.passed else Stop.STALLED
    result = replace(result, lower=lower, upper=upper, iterations=iterations, stop=stop)
    weights = transformed.weights(proof.p, proof.q, proven)
    return PairsOptimum(best, weights, result, len(pairs), rounds)


def _first_pairs(neighbours: Neighbours, basis: Array, alike: NDArray[np.intp]) -> Pairs:
    """Return the first working set.

    It consists of all pairs if the relation lists them. Otherwise it consists of the pairs of
    consecutive cells in each block, and of the pairs of each cell and the neighbouring cell whose
    column of the whitened basis is farthest away, with `Differences.first_alike` for each cell.
    """
    d = basis.shape[1]
    if neighbours.pairs is not None:
        return neighbours.all_pairs(d)
    chains = [
        np.column_stack([np.arange(b.start, b.stop - 1), np.arange(b.start + 1, b.stop)])
        for b in neighbours.blocks(d)
    ]
    # the whitened basis, up to a rotation
    _, partner = neighbours.partners(np.linalg.qr(basis.T)[0].T)
    pairs = np.concatenate([*chains, np.column_stack([np.arange(d), partner])])
    return _join(np.empty((0, 2), dtype=np.intp), alike[pairs])


def _join(pairs: Pairs, more: Pairs) -> Pairs:
    """Append to ``pairs`` the pairs in ``more`` that it does not contain."""
    both = np.concatenate([pairs, np.sort(more, axis=1)])
    both = both[both[:, 0] < both[:, 1]]  # a cell and itself are no pair
    _, first = np.unique(both, axis=0, return_index=True)
    return both[np.sort(first)]


def _next_working_set(
    pairs: Pairs, joined: Pairs, first: Pairs, result: Optimum[BlocksPoint]
) -> tuple[Pairs, Weights]:
    """Return the next working set, and the weights from which its solve starts.

    The set consists of all pairs of the ``first`` working set, the other current pairs whose
    weights are not negligible, and the new pairs, which follow ``pairs`` in ``joined``.
    """
    p = result.best.p / result.best.p.sum()
    needed = p > _LEAST_WEIGHT / len(pairs)
    needed[: len(first)] = True
    old, new = pairs[needed], joined[len(pairs) :]
    weights = np.concatenate([p[needed], np.full(len(new), _NEW_SHARE / max(len(new), 1))])
    return np.concatenate([old, new]), Weights(weights, result.best.q)


def _solve_on_pairs(
    factors: Factors, columns: Array, omega: Array, stopping: Stopping, start: Weights | None
) -> tuple[Optimum[BlocksPoint], Array, float]:
    """Return the optimum for the differences ``columns``, a root of its covariance, and a scale.

    The scale is the largest ratio of a variance to its target, plus the sum of all ratios weighted
    by ``omega``. If ``omega`` is not zero, the hybrid objective is minimised; the bounds are then
    bounds on the square of half this objective, which has the units of Δ².
    """
    whole = Factors(factors.operator, columns)
    if omega.any():
        result = programs.hybrid(whole, omega, stopping, start)
        lower, upper = (result.lower / 2) ** 2, (result.upper / 2) ** 2
        result = replace(result, lower=lower, upper=upper)
    else:
        result = programs.optimum(whole, stopping, start)
    spectrum = result.best.spectrum
    inverse = np.sqrt(result.best.p)[:, None] * spectrum.columns / np.sqrt(spectrum.singular)
    # Σ = R Rᵀ, the inner solution (`Spectrum.covariance`), with R = columns diag(p)^½ Z λ^-½
    root: Array = columns @ inverse
    ratios = np.square(factors.representation @ root).sum(axis=1)
    return result, root, float(ratios.max() + omega @ ratios)


@runtime_checkable
class OnDifferences(Protocol):
    """A mechanism with its own way to solve problems under replace-one neighbours."""

    def on_differences(self, differences: Differences) -> Solution:
        """Solve the problem."""
