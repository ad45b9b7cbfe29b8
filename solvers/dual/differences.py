"""Problem 1 under replace-one: the least privacy cost over all pairs of neighbouring cells.

The columns of W give way to their differences w_i - w_j, so that Problem 1 of W D is solved, D
with one column e_i - e_j for each pair. Few pairs bind: the dual is solved on a working set of
them, and those that the answer violates most are added. Weights on some pairs are weights on
all, so every round's lower bound holds for all pairs; the upper bound is read over all pairs.

What is constant over the cells that a record moves between has difference zero: its answer is
public (with all pairs: a multiple of the number of records). It is taken off W first, and
costs nothing.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray

from solvers.dual import programs as dual
from solvers.dual.programs import Weights
from solvers.dual.working_set import following, joined
from solvers.errors import NotApplicableError
from solvers.factors import Factors, factorise
from solvers.gaussian import verified
from solvers.gaussian.factorisation import Factorisation
from solvers.neighbours import Pairs
from solvers.optimiser import BlocksPoint, Progress
from solvers.problem import Problem
from solvers.stopping import Deadline
from workloads import from_matrix
from workloads.operators import Array, Explicit, dense

_ALL_AT_ONCE = 9000
_MOST_ROUNDS = 40
_FIRST_TOL = 1e-2
_MORE_PER_CELL = 4


@dataclass(frozen=True, eq=False)
class DifferencesOptimum:
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


@dataclass(frozen=True, eq=False)
class Differences:
    """A problem under replace-one, what is public taken off.

    Attributes
    ----------
    problem : Problem
        The problem as asked.
    centred : Problem
        W less its column of one cell of each component of neighbours, under add-remove.
    """

    problem: Problem
    centred: Problem

    @property
    def public(self) -> int:
        """How many queries have a public answer."""
        return int(np.sum(~self.centred.workload.dense.any(axis=1)))

    @property
    def at_once(self) -> bool:
        """Whether all pairs are solved for together."""
        return self.problem.neighbours.count(self.problem.workload.d) <= _ALL_AT_ONCE

    def optimum(
        self,
        tol: float,
        max_iterations: int,
        time_limit: float | None,
        total_error_weight: float = 0.0,
        bounds: Array | None = None,
    ) -> DifferencesOptimum:
        """The least Δ² over all pairs, or the least hybrid with total error, with its certificate.

        As of `dual.hybrid`, whose objective is ``2 sqrt(Δ² (1 + weight * total variance))``. With
        a bound for every pair, which takes all of them `at_once`, the cost of each is over its own.
        """
        deadline = Deadline.after(time_limit)
        factors = self._factors()
        basis = factors.basis
        assert basis is not None
        omega = total_error_weight * self.centred.targets[self._asked]
        if self.at_once:
            return self._of_all_pairs(factors, omega, bounds, tol, max_iterations, deadline)
        neighbours, d = self.problem.neighbours, basis.shape[1]
        kept = pairs = self._first_pairs(basis)
        lower, upper, best = 0.0, np.inf, np.eye(len(basis))
        start: Weights | None = None
        rounds = iterations = 0
        while True:
            gap = upper / lower - 1 if lower > 0 else np.inf
            inner = max(tol / 4, min(_FIRST_TOL, gap / 10))
            moved = basis[:, pairs[:, 0]] - basis[:, pairs[:, 1]]
            limits = {"max_iterations": max_iterations, "time_limit": deadline.remaining}
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
            found = joined(pairs, np.column_stack([violated, partner[violated]]))
            more = neighbours.farthest_pairs(strategy, allowed / scale, _MORE_PER_CELL * d)
            found = joined(found, more)
            stuck = len(found) == len(pairs) and inner <= tol / 4
            ended = rounds >= _MOST_ROUNDS or max_iterations <= 3
            if converged or stuck or ended or deadline.passed:
                break
            pairs, start = following(pairs, found, kept, result)
        return DifferencesOptimum(
            best,
            lower,
            upper,
            self._weights(proof.p, proof.q, proven),
            result,
            len(pairs),
            rounds,
            iterations,
            converged,
            timed_out=deadline.passed and not converged,
        )

    def _of_all_pairs(
        self,
        factors: Factors,
        omega: Array,
        bounds: Array | None,
        tol: float,
        max_iterations: int,
        deadline: Deadline,
    ) -> DifferencesOptimum:
        """As `optimum`, with a column for each pair, divided by the root of its bound."""
        pairs = self._pairs
        assert factors.basis is not None
        moved = self._over_bounds(factors.basis, bounds)
        limits = {"max_iterations": max_iterations, "time_limit": deadline.remaining}
        result, root, scale = _solved(factors, moved, omega, tol=tol / 4, **limits)
        upper = scale * float(np.square(sla.solve(root, moved)).sum(axis=0).max())
        converged = upper <= result.lower * (1 + tol)
        return DifferencesOptimum(
            root,
            result.lower,
            upper,
            self._weights(result.proof.p, result.proof.q, pairs),
            result,
            len(pairs),
            1,
            result.iterations,
            converged,
            timed_out=deadline.passed and not converged,
        )

    def bounds_of_pairs(self, bounds: Array) -> Array:
        """Of every pair the lesser of its cells' bounds: the record may be in either."""
        return np.asarray(bounds[self._pairs].min(axis=1))

    def largest_over_bounds(self, noise: Factorisation, bounds: Array) -> float:
        """The largest squared privacy cost of any pair over its bound."""
        moved = self._over_bounds(dense(noise.right), bounds)
        return float(np.square(moved).sum(axis=0).max())

    @property
    def _pairs(self) -> Pairs:
        return self.problem.neighbours.all_pairs(self.problem.workload.d)

    def _over_bounds(self, columns: Array, bounds: Array | None) -> Array:
        """The differences of columns over all pairs, over the roots of their bounds."""
        first, second = self._pairs.T
        moved: Array = columns[:, first] - columns[:, second]
        return moved if bounds is None else moved / np.sqrt(bounds)

    def noise(self, mechanism: str, root: Array) -> Factorisation:
        """The mechanism of a root of a covariance, checked: ``L (B x + z)`` and the public part.

        Raises
        ------
        SolveFailedError
            If its factors do not give the workload.
        """
        factors = self._factors()
        basis = factors.basis
        assert basis is not None
        targets = self.centred.targets
        queries = np.zeros((len(targets), len(basis)))
        asked = self._asked
        queries[asked] = np.sqrt(targets[asked])[:, None] * factors.left
        made = verified.from_root(mechanism, self.centred, basis, Explicit(queries), root)
        return replace(made.met(mechanism, targets), neighbours=self.problem.neighbours)

    @property
    def _asked(self) -> NDArray[np.bool_]:
        """Which queries are not public."""
        return np.asarray(self.centred.workload.dense.any(axis=1))

    def _weights(self, p: Array, q: Array, pairs: Pairs) -> Weights:
        """Of all pairs, in the order of `Neighbours.all_pairs`, and of all queries."""
        d = self.problem.workload.d
        every = self.problem.neighbours.all_pairs(d) @ (d, 1)
        of_pairs, of_queries = np.zeros(len(every)), np.zeros(self.problem.workload.m)
        of_pairs[np.searchsorted(every, pairs @ (d, 1))] = p
        of_queries[self._asked] = q
        return Weights(of_pairs, of_queries)

    def _factors(self) -> Factors:
        matrix, targets, asked = self.centred.workload.dense, self.centred.targets, self._asked
        return factorise(matrix[asked] / np.sqrt(targets[asked])[:, None])

    def _first_pairs(self, basis: Array) -> Pairs:
        """A chain through the cells of each component, and every cell with its farthest partner."""
        neighbours, d = self.problem.neighbours, basis.shape[1]
        if neighbours.pairs is not None:
            return neighbours.all_pairs(d)
        chains = [
            np.column_stack([np.arange(b.start, b.stop - 1), np.arange(b.start + 1, b.stop)])
            for b in neighbours.blocks(d)
        ]
        gram = basis @ basis.T
        whitened = sla.solve_triangular(sla.cholesky(gram, lower=True), basis, lower=True)
        _, partner = neighbours.partners(whitened)
        return joined(np.concatenate(chains), np.column_stack([np.arange(d), partner]))


def differences(problem: Problem) -> Differences:
    """The problem in differences.

    Raises
    ------
    NotApplicableError
        If all answers are public.
    """
    neighbours, matrix = problem.neighbours, problem.workload.dense
    neighbours.check(problem.workload.d)
    labels = neighbours.components(problem.workload.d)
    _, first = np.unique(labels, return_index=True)
    centred = matrix - matrix[:, first][:, labels]
    if not centred.any():
        raise NotApplicableError(
            f"all queries of workload {problem.workload.name!r} are constant over the cells that a "
            f"record moves between ({neighbours.title}): their answers are public and need no noise"
        )
    return Differences(problem, Problem(from_matrix(centred, "differences"), problem.targets))


def _dual(moved: Factors, omega: Array, **limits: Any) -> Progress[BlocksPoint]:
    """Problem 1, or its hybrid in the units of Δ²: the square of half the objective."""
    if not omega.any():
        return dual.optimum(moved, **limits)
    found = dual.hybrid(moved, omega, **limits)
    lower, upper = (found.lower / 2) ** 2, (found.upper / 2) ** 2
    return replace(found, lower=lower, upper=upper)


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
