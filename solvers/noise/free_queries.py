"""Further queries that cost no privacy: section 3.2.1 of PVLDB 14(10).

The squared privacy cost Δ² is the largest entry of the privacy profile. The room of a domain cell
is Δ² minus the cell's entry. A further query w that is answered with independent noise of variance
v adds ``w_i² / v`` to the entry of cell i. The query changes neither ε nor δ if no entry rises
above Δ²:

    v >= max_i w_i² / (Δ² - profile_i).

A query in the row space of the mechanism's strategy B can also be derived from the noisy answers to
B, without new noise. If both answers cost no privacy, they are averaged with weights inverse to
their variances.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from solvers.errors import NotApplicableError
from solvers.noise.noise import GaussianNoise
from solvers.problem import GraphProblem, Problem
from workloads import Workload, WorkloadError
from workloads.operators import Array, dense

LEAST_ROOM = 1e-6
"""Smallest room that is used, as a share of Δ².

A smaller room can be an effect of a solver's tolerance.
"""

_SPANNED = 1e-9
"""Largest part of a query outside the row space of B, relative to the query, that is rounding."""

_LARGEST_ENTRIES = 2**26
"""Most entries of the differences of all neighbours: 512 MiB."""


@dataclass(frozen=True, eq=False)
class FreeQueries:
    """The variances of n further queries that are answered at no privacy cost.

    All variances hold when the targets are just met. At a budget they are multiplied by
    `AtBudget.variance_ratio_at_budget`, like the variances of the workload.

    Attributes
    ----------
    queries : numpy.ndarray, shape (n, d)
        The further queries. Under replace-one, d is the number of pairs of neighbouring cells, and
        an entry is the difference of the query's coefficients for the two cells of a pair.
    room : numpy.ndarray, shape (d,)
        ``Δ² - profile`` of every cell, or of every pair under replace-one; 0 if the difference is
        less than `LEAST_ROOM` of Δ².
    fresh : numpy.ndarray, shape (n,)
        Least variance of new noise that costs no privacy, if no other further query is added;
        infinite if new noise always costs privacy.
    derived : numpy.ndarray, shape (n,)
        Variance of the answer derived from the noisy answers to the mechanism's strategy; infinite
        if the query is not in the strategy's row space.
    """

    queries: Array
    room: Array
    fresh: Array
    derived: Array

    @property
    def free(self) -> Array:
        """Mask, shape (n,), of the queries that new noise can answer at no privacy cost."""
        return np.isfinite(self.fresh)

    @property
    def variances(self) -> Array:
        """Variance of each query, added alone, at the best average of its two answers."""
        with np.errstate(divide="ignore"):
            return np.asarray(1 / (1 / self.fresh + 1 / self.derived))

    @cached_property
    def together(self) -> Array:
        """Variances of new noise if all free queries are added together, shape (n,).

        They are ``fresh`` times a common factor: the least for which every cell has enough room.
        """
        noisy = np.isfinite(self.fresh) & (self.fresh > 0)
        queries = self.queries[noisy]
        if not queries.size:
            return self.fresh
        seen = np.any(queries != 0, axis=0)
        used = (np.square(queries) / self.fresh[noisy, None]).sum(axis=0)
        return np.asarray(self.fresh * float((used[seen] / self.room[seen]).max(initial=0.0)))


def find_free_queries(
    noise: GaussianNoise, problem: Problem | GraphProblem, further: Workload
) -> FreeQueries:
    """Find the variances of further queries at no privacy cost, for `Solution.free_queries`.

    Under replace-one, each pair of neighbouring cells has its own room. A query that is constant
    over the cells between which a record moves has a public answer, so its variance is 0.
    """
    strategy = dense(noise.right)
    d = strategy.shape[1]
    if further.d != d:
        raise WorkloadError(
            f"free queries over {further.d} cells; the workload has {d}: give one column "
            "for each of its cells"
        )
    queries, profile = further.dense, np.broadcast_to(noise.privacy_profile, (d,))
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
    # section 3.2.1: v >= max_i w_i² / room_i keeps every entry of the profile at most Δ²
    largest = float(profile.max())
    room = np.where(profile < (1 - LEAST_ROOM) * largest, largest - profile, 0.0)
    needed = np.zeros(queries.shape)
    with np.errstate(divide="ignore"):
        np.divide(np.square(queries), room, out=needed, where=queries != 0)
    # w = uᵀB is answered with the variance |u|² of uᵀz, for the u of least norm
    weights = scipy.linalg.lstsq(strategy.T, queries.T)[0].T
    missing = np.linalg.norm(queries - weights @ strategy, axis=1)
    spanned = missing <= _SPANNED * np.linalg.norm(queries, axis=1)
    derived = np.where(spanned, np.square(weights).sum(axis=1), np.inf)
    return FreeQueries(queries, room, needed.max(axis=1), derived)
