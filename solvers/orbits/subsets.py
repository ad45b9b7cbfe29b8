"""Noise on the contrasts of subsets of attributes: the one part of a single orbit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import exp, log, prod
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from solvers.errors import SolveFailedError
from solvers.noise.factorisation import Factorisation, InBasis
from solvers.orbits.contrasts import INDICATORS, Component
from solvers.orbits.parts import Span
from workloads.operators import Array, Explicit

if TYPE_CHECKING:
    from solvers.orbits.single import SingleOrbit

SMALLEST_LOG = -650.0
_LARGEST_LOG = 700.0


@dataclass(frozen=True, eq=False)
class SubsetNoise:
    """Noise on the contrasts of all subsets, independent of each other.

    Attributes
    ----------
    query_variances : numpy.ndarray, shape (r,)
        Of a query of each marginal.
    privacy_profile : numpy.ndarray, shape (1,)
        That of every cell.
    log_variances : numpy.ndarray, shape (number of subsets,), or float
        Natural logarithms of s_S, in the order of the closure; a number stands for all.
    """

    query_variances: Array
    privacy_profile: Array
    log_variances: Array | float

    def divided(self, scale: float) -> "SubsetNoise":
        """The same with its noise divided by a number."""
        return SubsetNoise(
            self.query_variances / scale**2,
            self.privacy_profile * scale**2,
            self.log_variances - 2 * log(scale),
        )

    def with_cells_scaled(self, factors: Array) -> "SubsetNoise":
        """The same errors, of the queries with all columns multiplied by a number, shape (1,)."""
        return SubsetNoise(
            self.query_variances,
            self.privacy_profile * np.square(factors),
            self.log_variances - 2 * float(np.log(factors[0])),
        )


@dataclass(frozen=True, eq=False)
class Subsets:
    """All matrices of the dual, one number each, as one part."""

    orbits: "SingleOrbit"

    rows = slice(None)
    columns = slice(None)

    def inner(self, mechanism: str, p: Array, v: Any) -> SubsetNoise:
        """The noise of some variables v; its factors are the numbers themselves."""
        ratios = self.orbits.matrix.ratios(v)
        logs = np.log(v) + self.orbits.closure.log_ranks
        return SubsetNoise(self.orbits.targets * ratios, np.array([(1 / v).sum()]), logs)

    def from_root(self, mechanism: str, root: Array) -> SubsetNoise:
        """The noise of the squares of the variables v."""
        return self.inner(mechanism, np.ones(1), np.square(root))

    def on_cells(self, mechanism: str) -> SubsetNoise:
        """Noise of unit variance on every cell; a query sums d / N_T of them.

        Raises
        ------
        SolveFailedError
            If the least variance that meets the targets is beyond floats.
        """
        log_cells = log(self.orbits.problem.workload.d)
        logs = log_cells - self.orbits.log_copies
        largest = float((logs - np.log(self.orbits.targets)).max())
        if largest > _LARGEST_LOG:
            raise SolveFailedError(
                f"{mechanism}: its squared privacy cost is about 10^{largest / log(10):.0f}, "
                "beyond floats; raise the targets or ask for marginals of a higher order"
            )
        return SubsetNoise(np.exp(logs), np.ones(1), log_cells)

    def on_queries(self, deviation: float) -> SubsetNoise:
        """Noise of one variance on every query; each cell is in one query of each marginal."""
        count = self.orbits.targets.size
        variances = np.full(count, deviation**2)
        return SubsetNoise(variances, np.array([count / deviation**2]), np.nan)

    def inverse_trace(self, noise: Any) -> float:
        """Trace of the pseudo-inverse of the Fisher information: the sum of w_S s_S / d."""
        logs = self.orbits.closure.log_ranks + noise.log_variances
        return float(np.exp(np.logaddexp.reduce(logs) - log(self.orbits.problem.workload.d)))

    def spans(self, noise: SubsetNoise) -> Iterator[tuple[Span, Factorisation]]:
        """Every subset by itself, and its mechanism in orthonormal contrasts."""
        orbits = self.orbits
        known, d = orbits.closure, orbits.problem.workload.d
        by_subset = sp.csc_array(known.incidence)
        logs = np.broadcast_to(noise.log_variances, known.log_ranks.shape)
        for at, (log_rank, log_variance) in enumerate(zip(known.log_ranks, logs, strict=True)):
            rows = by_subset.indices[by_subset.indptr[at] : by_subset.indptr[at + 1]]
            queries = np.exp(log_rank - orbits.log_copies[rows])[:, None] / orbits.divisor
            span = self._span(rows, [known.blocks[block] for block in known.subset(at)], queries)
            deviation = exp((log_variance - log_rank) / 2)
            unit = exp(max(log_rank - log(d), SMALLEST_LOG) / 2)
            basis, root = np.array([[unit]]), np.array([[unit * deviation]])
            own = InBasis(Explicit(basis), Explicit(queries / unit), root)
            right = np.array([[1 / deviation]])
            yield span, Factorisation(Explicit(deviation * queries), Explicit(right), own)

    def _span(self, rows: Any, blocks: Sequence[tuple[int, ...]], queries: Array) -> Span:
        sizes = self.orbits.operator.sizes
        chosen = set(chain.from_iterable(blocks))
        choice = tuple(0 if i in chosen else INDICATORS for i in range(len(sizes)))
        rank = prod(prod(sizes[i] for i in block) - 1 for block in blocks)
        component = Component(choice, float(rank), tuple(blocks))
        groups, columns = tuple(map(int, rows)), np.zeros(1, dtype=np.intp)
        return Span(rows, columns, groups, (component,), Explicit(queries))
