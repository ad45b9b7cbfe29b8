"""The noise on marginals: what it is added to, subsets of attributes, domain cells or queries."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain, combinations, product
from math import exp, inf, log
from typing import Any, Protocol

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from solvers.budget import GaussianBudget
from solvers.errors import NotApplicableError
from solvers.marginals.sampling import draw_errors
from solvers.marginals.structure import Structure
from solvers.problem import readable
from solvers.release import gaussian_record
from workloads.operators import Array, Matrix
from workloads.workload import LARGEST_LISTED

LARGEST_EXPANDED = 4096
"""Most cells and queries of a mechanism that is written out as B, L and Σ."""


class Source(Protocol):
    """What independent noise is added to, scaled so that the targets are just met."""

    @property
    def squared_privacy_cost(self) -> float:
        """Every entry of the privacy profile."""
        ...

    @property
    def marginal_variances(self) -> Array:
        """Variance of every query of each marginal, shape (number of marginals,)."""
        ...

    def expanded(self, structure: Structure) -> "Expanded":
        """B, L and Σ of Definition 3 of arXiv v1, for a domain that fits."""
        ...

    def draw(self, structure: Structure, n: int, rng: np.random.Generator) -> Array:
        """N vectors of the errors of all queries, shape (n, m); the workload is listed."""
        ...


@dataclass(frozen=True, eq=False)
class Expanded:
    """A mechanism written out: `solvers.release.Coordinates`.

    Attributes
    ----------
    basis : numpy.ndarray, shape (k, d)
        B.
    representation : numpy.ndarray or scipy.sparse.csr_array, shape (m, k)
        L.
    covariance : numpy.ndarray, shape (k, k)
        Σ.
    """

    basis: Array
    representation: Matrix
    covariance: Array


@dataclass(frozen=True, eq=False)
class MarginalsNoise:
    """Noise on marginals, for a domain of any size: a `solvers.release.Release`.

    All domain cells have the same privacy cost and all queries of a marginal the same
    variance.

    Attributes
    ----------
    structure : Structure
        The marginals and their targets.
    source : SubsetNoise, CellNoise or QueryNoise
        What independent noise is added to, and how much.
    """

    structure: Structure
    source: Source

    gaussian = True

    @property
    def squared_privacy_cost(self) -> float:
        """Δ² when all targets are met: every entry of the privacy profile."""
        return self.source.squared_privacy_cost

    @property
    def marginal_variances(self) -> Array:
        """Variance of every query of each marginal, shape (number of marginals,)."""
        return self.source.marginal_variances

    @cached_property
    def query_variances(self) -> Array:
        """Shape (m,); where the workload is not listed, one for each marginal."""
        workload = self.structure.problem.workload
        if not workload.listed:
            return self.marginal_variances
        return np.repeat(self.marginal_variances, workload.group_sizes)

    @cached_property
    def privacy_profile(self) -> Array:
        """Shape (d,), all entries equal; a single entry for more than 10^7 cells."""
        d = self.structure.problem.workload.d
        return np.full(d if d <= LARGEST_LISTED else 1, self.squared_privacy_cost)

    @property
    def total_variance(self) -> float:
        """Sum of the query variances when the targets are just met; infinite beyond floats."""
        logs = np.log(self.marginal_variances) + self.structure.log_sizes
        return _exponential(float(np.logaddexp.reduce(logs)))

    @property
    def fisher_information(self) -> float:
        """Trace of the Fisher information about x, d Δ²; infinite beyond floats."""
        return _exponential(log(self.structure.problem.workload.d) + log(self.squared_privacy_cost))

    @cached_property
    def coordinates(self) -> Expanded:
        """B, L and Σ, for at most `LARGEST_EXPANDED` cells and queries."""
        m, d = self.structure.problem.workload.shape
        if not self._fits:
            raise NotApplicableError(
                f"the mechanism is not written out for {readable(m)} queries over "
                f"{readable(d)} cells (at most {LARGEST_EXPANDED} of either); use "
                "noise.marginal_variances, privacy_profile and noise.source, which describe it "
                "entirely"
            )
        return self.source.expanded(self.structure)

    @property
    def curve(self) -> GaussianBudget:
        """By the privacy cost alone."""
        return GaussianBudget(self.squared_privacy_cost)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n vectors of the errors of all queries, without the domain, shape (n, m).

        Raises
        ------
        NotApplicableError
            If the queries are too many to be listed.
        """
        workload = self.structure.problem.workload
        if not workload.listed:
            raise NotApplicableError(
                f"simulate: {readable(workload.m)} queries are too many to draw the error of each "
                f"(at most {LARGEST_LISTED}); leave simulate out, or ask for fewer marginals"
            )
        return self.source.draw(self.structure, n, rng)

    def record(self) -> dict[str, Any]:
        """Privacy cost, total variance and Fisher information."""
        return gaussian_record(self)

    def arrays(self) -> dict[str, Array]:
        """Variances and profile; the covariance only where it fits."""
        arrays = {
            "query_variances": self.query_variances,
            "privacy_profile": self.privacy_profile,
        }
        return arrays | ({"covariance": self.coordinates.covariance} if self._fits else {})

    @property
    def _fits(self) -> bool:
        return max(self.structure.problem.workload.shape) <= LARGEST_EXPANDED


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

    def expanded(self, structure: Structure) -> Expanded:
        """An orthonormal basis of the row space, in which Σ is diagonal."""
        workload = structure.problem.workload
        spans = [
            np.vstack([_span(structure.operator.sizes, chosen) for chosen in _chosen(structure, s)])
            for s in range(self.subset_variances.size)
        ]
        basis = np.vstack(spans)
        variances = np.repeat(self.subset_variances / workload.d, [len(span) for span in spans])
        return Expanded(basis, np.asarray(workload.matrix @ basis.T), np.diag(variances))

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

    def expanded(self, structure: Structure) -> Expanded:
        """B = I, L = W."""
        workload = structure.problem.workload
        identity = np.eye(workload.d)
        return Expanded(identity, workload.matrix, identity / self.squared_privacy_cost)

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

    def expanded(self, structure: Structure) -> Expanded:
        """B = W, L = I."""
        workload = structure.problem.workload
        covariance = self.marginal_variances[0] * np.eye(workload.m)
        return Expanded(workload.dense, sp.eye_array(workload.m, format="csr"), covariance)

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


def _exponential(power: float) -> float:
    try:
        return exp(power)
    except OverflowError:
        return inf
