"""Further queries that cost no privacy: section 3.2.1 of PVLDB 14(10).

The privacy cost is the largest entry of the privacy profile. A cell with a smaller entry has room:
a further query w with independent noise of variance v adds ``w_i² / v`` to cell i, and
changes neither ε nor δ as long as no entry rises above the largest,

    v >= max_i w_i² / (Δ² - profile_i).

A query in the row space of the workload can be derived from the existing answers without new noise.
If a new answer is free as well, both answers are combined, weighted inversely to their variances.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from solvers.errors import NotApplicableError
from solvers.noise.factorisation import Factorisation
from solvers.noise.release import Release
from solvers.problem import GraphProblem, Problem
from workloads import Workload, WorkloadError
from workloads.operators import Array, dense

LEAST_ROOM = 1e-6
"""Least share of Δ² that counts as room; smaller shares can be due to a solver's tolerance."""

_SPANNED = 1e-9
_LARGEST_ENTRIES = 2**26


@dataclass(frozen=True, eq=False)
class FreeQueries:
    """The accuracy of n further queries at no privacy cost.

    All variances hold when the targets are just met; at a budget they grow like the
    variances of the workload (`AtBudget.variance_ratio_at_budget`).

    Attributes
    ----------
    queries : numpy.ndarray, shape (n, d)
        The further queries; under replace-one their differences over all pairs of neighbours.
    room : numpy.ndarray, shape (d,)
        Room of every cell, or under replace-one of every pair: ``Δ² - profile``, 0 if it is less
        than `LEAST_ROOM` of Δ².
    fresh : numpy.ndarray, shape (n,)
        Least variance of independent noise if the query is added alone; infinite if it is not free.
    derived : numpy.ndarray, shape (n,)
        Variance of an answer derived from the workload's; infinite if the query is not derivable.
    """

    queries: Array
    room: Array
    fresh: Array
    derived: Array

    @property
    def free(self) -> Array:
        """Mask of the queries that new noise can answer at no privacy cost, shape (n,)."""
        return np.isfinite(self.fresh)

    @property
    def variances(self) -> Array:
        """Variances of the best answers, new and old combined, if each query is added alone."""
        with np.errstate(divide="ignore"):
            return np.asarray(1 / (1 / self.fresh + 1 / self.derived))

    @cached_property
    def together(self) -> Array:
        """Variances of independent noise if all free queries are added at once, shape (n,).

        All exceed ``fresh`` by the same factor, the least for which every cell has enough room.
        """
        noisy = np.isfinite(self.fresh) & (self.fresh > 0)
        queries = self.queries[noisy]
        if not queries.size:
            return self.fresh
        seen = np.any(queries != 0, axis=0)
        used = (np.square(queries) / self.fresh[noisy, None]).sum(axis=0)
        return np.asarray(self.fresh * float((used[seen] / self.room[seen]).max(initial=0.0)))


def beside(
    noise: Release, profile: Array, problem: Problem | GraphProblem, further: Workload
) -> FreeQueries:
    """The variances of further queries at no privacy cost; implements `Solution.free_queries`.

    Under replace-one, each pair of neighbouring cells has its own room. A query that is constant
    over the cells between which a record moves is public: its variance is 0.
    """
    if isinstance(noise, Factorisation):
        strategy = dense(noise.right)
    elif noise.coordinates is not None:
        root = scipy.linalg.cholesky(noise.coordinates.covariance, lower=True)
        strategy = scipy.linalg.solve_triangular(root, noise.coordinates.basis, lower=True)
    else:
        raise NotApplicableError(
            f"free queries need Gaussian noise; this is {type(noise).__name__}"
        )
    d = strategy.shape[1]
    if further.d != d:
        raise WorkloadError(
            f"free queries over {further.d} cells; the workload has {d}: give one column "
            "for each of its cells"
        )
    queries, profile = further.dense, np.broadcast_to(profile, (d,))
    empty = np.flatnonzero(~np.any(queries, axis=1))
    if empty.size:
        raise WorkloadError(
            f"query {empty[0]} (counted from 0) of the free queries is zero: leave it out"
        )
    if isinstance(problem, Problem) and not problem.neighbours.add_remove:
        both, pairs = np.vstack([queries, strategy]), problem.neighbours.count(d)
        if len(both) * pairs > _LARGEST_ENTRIES:
            raise NotApplicableError(
                f"free queries under {problem.neighbours.title}: {pairs} pairs of neighbours are "
                "too many to list; ask for fewer queries at once"
            )
        moved = np.concatenate(list(problem.neighbours.differences(both)), axis=1)
        queries, strategy = moved[: further.m], moved[further.m :]
        profile = np.square(strategy).sum(axis=0)
    largest = float(profile.max())
    room = np.where(profile < (1 - LEAST_ROOM) * largest, largest - profile, 0.0)
    needed = np.zeros(queries.shape)
    with np.errstate(divide="ignore"):
        np.divide(np.square(queries), room, out=needed, where=queries != 0)
    weights = scipy.linalg.lstsq(strategy.T, queries.T)[0].T
    missing = np.linalg.norm(queries - weights @ strategy, axis=1)
    spanned = missing <= _SPANNED * np.linalg.norm(queries, axis=1)
    derived = np.where(spanned, np.square(weights).sum(axis=1), np.inf)
    return FreeQueries(queries, room, needed.max(axis=1), derived)
