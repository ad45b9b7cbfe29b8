"""What the noise on marginals is added to: subsets of attributes, domain cells or queries."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import chain, combinations, product
from typing import Protocol

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from solvers.marginals.sampling import draw_errors
from solvers.marginals.structure import Structure
from workloads.operators import Array, Matrix


class Noise(Protocol):
    """The noise of a mechanism, scaled so that the targets are just met."""

    @property
    def squared_privacy_cost(self) -> float:
        """Every entry of the privacy profile."""
        ...

    @property
    def marginal_variances(self) -> Array:
        """Variance of every query of each marginal, shape (number of marginals,)."""
        ...

    def expanded(self, structure: Structure) -> tuple[Array, Matrix, Array]:
        """B, L and Σ of Definition 3 of arXiv v1, for a domain that fits."""
        ...

    def draw(self, structure: Structure, n: int, rng: np.random.Generator) -> Array:
        """N vectors of the errors of all queries, shape (n, m); the workload is listed."""
        ...


@dataclass(frozen=True, eq=False)
class SubsetNoise:
    """Independent noise in the span of each P_S: Σ is the sum of s_S/d P_S.

    Attributes
    ----------
    squared_privacy_cost : float
        ``sum(w_S / s_S)``.
    marginal_variances : numpy.ndarray, shape (number of marginals,)
        ``sum over S within T of w_S s_S / N_T²``.
    subset_variances : numpy.ndarray, shape (number of subsets,)
        s_S, in the order of the closure.
    """

    squared_privacy_cost: float
    marginal_variances: Array
    subset_variances: Array

    def expanded(self, structure: Structure) -> tuple[Array, Matrix, Array]:
        """An orthonormal basis of the row space, in which Σ is diagonal."""
        workload = structure.problem.workload
        spans = [
            np.vstack([_span(structure.operator.sizes, chosen) for chosen in _chosen(structure, s)])
            for s in range(self.subset_variances.size)
        ]
        basis = np.vstack(spans)
        variances = np.repeat(self.subset_variances / workload.d, [len(span) for span in spans])
        return basis, np.asarray(workload.matrix @ basis.T), np.diag(variances)

    def draw(self, structure: Structure, n: int, rng: np.random.Generator) -> Array:
        """Table by table."""
        return draw_errors(structure, self.subset_variances, n, rng)


@dataclass(frozen=True, eq=False)
class CellNoise:
    """Independent noise of one variance on every cell of the domain.

    Attributes
    ----------
    squared_privacy_cost : float
        One over the variance.
    marginal_variances : numpy.ndarray, shape (number of marginals,)
        Of a query: the cells that it sums, times the variance.
    """

    squared_privacy_cost: float
    marginal_variances: Array

    def expanded(self, structure: Structure) -> tuple[Array, Matrix, Array]:
        """B = I, L = W."""
        workload = structure.problem.workload
        identity = np.eye(workload.d)
        return identity, workload.matrix, identity / self.squared_privacy_cost

    def draw(self, structure: Structure, n: int, rng: np.random.Generator) -> Array:
        """What the queries see of it: all s_S equal, N_T times the variance of marginal T."""
        seen = self.marginal_variances[0] * structure.operator.marginal_sizes[0]
        return draw_errors(structure, np.full(structure.closure.log_ranks.size, seen), n, rng)


@dataclass(frozen=True, eq=False)
class QueryNoise:
    """Independent noise of one variance on every query.

    Attributes
    ----------
    squared_privacy_cost : float
        The number of marginals over the variance: every cell is in one query of each.
    marginal_variances : numpy.ndarray, shape (number of marginals,)
        All equal.
    """

    squared_privacy_cost: float
    marginal_variances: Array

    def expanded(self, structure: Structure) -> tuple[Array, Matrix, Array]:
        """B = W, L = I."""
        workload = structure.problem.workload
        covariance = self.marginal_variances[0] * np.eye(workload.m)
        return workload.dense, sp.eye_array(workload.m, format="csr"), covariance

    def draw(self, structure: Structure, n: int, rng: np.random.Generator) -> Array:
        """Independent errors."""
        size = (n, structure.problem.workload.m)
        return rng.normal(scale=float(self.marginal_variances[0]) ** 0.5, size=size)


def _chosen(structure: Structure, subset: int) -> Iterator[frozenset[int]]:
    """The subsets of the original attributes that a subset of blocks stands for."""
    closure = structure.closure
    parts = (_non_empty(closure.blocks[block]) for block in closure.subset(subset))
    return (frozenset(chain.from_iterable(one)) for one in product(*parts))


def _non_empty(items: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [part for size in range(1, len(items) + 1) for part in combinations(items, size)]


def _span(sizes: tuple[int, ...], chosen: frozenset[int]) -> Array:
    """Orthonormal rows: contrasts of the chosen attributes, means of the others."""
    factors = (
        sla.helmert(size) if attribute in chosen else np.full((1, size), size**-0.5)
        for attribute, size in enumerate(sizes)
    )
    return reduce(np.kron, factors)
