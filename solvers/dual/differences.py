"""A problem under replace-one: the differences of columns over pairs of neighbouring cells.

The columns of W give way to their differences w_i - w_j, so that Problem 1 of W D is solved,
where D has one column e_i - e_j for each pair.

A query that is constant over the cells that a record moves between has differences of zero: its
answer is public (with all pairs: a multiple of the number of records) and costs nothing. This part
is subtracted from W first.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from solvers.dual.programs import Weights
from solvers.errors import NotApplicableError
from solvers.noise import verification
from solvers.noise.factorisation import Factorisation
from solvers.problem import Problem
from solvers.problem.factors import Factors, factorise
from solvers.problem.neighbours import Pairs
from workloads import from_matrix
from workloads.operators import Array, Explicit, dense

_ALL_AT_ONCE = 9000


@dataclass(frozen=True, eq=False)
class Differences:
    """A problem under replace-one, less its public part.

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
        return int(np.sum(~self.asked))

    @property
    def at_once(self) -> bool:
        """Whether all pairs are solved for together."""
        return self.problem.neighbours.count(self.problem.workload.d) <= _ALL_AT_ONCE

    def bounds_of_pairs(self, bounds: Array) -> Array:
        """The smaller bound of the two cells of every pair: the record may be in either."""
        return np.asarray(bounds[self.pairs].min(axis=1))

    def largest_over_bounds(self, noise: Factorisation, bounds: Array) -> float:
        """The largest squared privacy cost of any pair over its bound."""
        moved = self.over_bounds(dense(noise.right), bounds)
        return float(np.square(moved).sum(axis=0).max())

    @property
    def pairs(self) -> Pairs:
        """All pairs of neighbouring cells."""
        return self.problem.neighbours.all_pairs(self.problem.workload.d)

    def over_bounds(self, columns: Array, bounds: Array | None) -> Array:
        """The differences of columns over all pairs, over the roots of their bounds."""
        first, second = self.pairs.T
        moved: Array = columns[:, first] - columns[:, second]
        return moved if bounds is None else moved / np.sqrt(bounds)

    def noise(self, mechanism: str, root: Array) -> Factorisation:
        """The mechanism of a root of a covariance, checked: ``L (B x + z)`` and the public part.

        Raises
        ------
        SolveFailedError
            If its factors do not give the workload.
        """
        factors = self.factors
        basis = factors.basis
        assert basis is not None
        targets = self.centred.targets
        queries = np.zeros((len(targets), len(basis)))
        asked = self.asked
        queries[asked] = np.sqrt(targets[asked])[:, None] * factors.left
        inner = verification.from_root(mechanism, self.centred, basis, Explicit(queries), root)
        return replace(inner.met(mechanism, targets), neighbours=self.problem.neighbours)

    @property
    def asked(self) -> NDArray[np.bool_]:
        """Which queries are not public."""
        return np.asarray(self.centred.workload.dense.any(axis=1))

    def weights(self, p: Array, q: Array, pairs: Pairs) -> Weights:
        """The weights of all pairs, in the order of `Neighbours.all_pairs`, and of all queries."""
        d = self.problem.workload.d
        every = self.pairs @ (d, 1)
        of_pairs, of_queries = np.zeros(len(every)), np.zeros(self.problem.workload.m)
        of_pairs[np.searchsorted(every, pairs @ (d, 1))] = p
        of_queries[self.asked] = q
        return Weights(of_pairs, of_queries)

    @cached_property
    def factors(self) -> Factors:
        """W and a basis of it, without public queries, scaled by the targets."""
        matrix, targets, asked = self.centred.workload.dense, self.centred.targets, self.asked
        return factorise(matrix[asked] / np.sqrt(targets[asked])[:, None])


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
