"""Marginals with a target for each: all cells are one orbit, and the dual's matrices are numbers.

Relabelling the values of every attribute moves any cell to any other, and any query of a marginal
T to any other of its N_T. The choices of contrasts are subsets S of attributes
(`solvers.orbits.closure`), w_S times each, and what queries see of them is a single number: with

    A_TS = (w_S / N_T)² / c_T   for S within T,

f(q) is the sum of sqrt((Aᵀq)_S), and noise of variance s_S / d along every contrast of S,
v_S = s_S / w_S, has

    every profile entry            = sum(1 / v),
    variance ratio of marginal T   = (A v)_T.

So all matrices are solved as one vector (`solvers.optimiser.scalar_blocks`), alike subsets as one
(`solvers.optimiser.scalar_classes`). Every entry of A is at most 1/c_T, and all numbers that grow
with the domain are logarithms: no domain is too large.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import exp, log, prod
from typing import Any

import numpy as np
import scipy.sparse as sp

from solvers.dual import scalars
from solvers.dual.programs import Weights
from solvers.errors import SolveFailedError
from solvers.gaussian.factorisation import Factorisation, InBasis
from solvers.optimiser import Progress, ScalarBlocks, ScalarPoint
from solvers.optimiser.scalar_classes import ScalarClasses, collapse
from solvers.orbits.closure import Closure, closure, pair_count
from solvers.orbits.structure import INDICATORS, Component, Span
from solvers.orbits.symmetry import Attribute, Group, Products, products
from solvers.problem import Problem
from solvers.stopping import Deadline, Stopping
from workloads import TargetsError
from workloads.operators import Array, Explicit, Kronecker, Marginals
from workloads.targets import by_group
from workloads.workload import LARGEST_LISTED

_SMALLEST_LOG = -650.0
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
    """All matrices of the dual, one number each, as one part.

    Attributes
    ----------
    orbits : SingleOrbit
        Whose matrices they are.
    """

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

    def on_cells(self, mechanism: str) -> tuple[SubsetNoise, Array]:
        """Noise of unit variance on every cell, of which a query sums d / N_T.

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
        return SubsetNoise(np.exp(logs), np.ones(1), log_cells), np.ones(1)

    def on_queries(self, deviation: float) -> SubsetNoise:
        """Noise of one variance on every query, of which a cell is in one for each marginal."""
        count = self.orbits.targets.size
        variances = np.full(count, deviation**2)
        return SubsetNoise(variances, np.array([count / deviation**2]), np.nan)

    def inverse_trace(self, found: Any) -> float:
        """Trace of the pseudo-inverse of the Fisher information: the sum of w_S s_S / d."""
        logs = self.orbits.closure.log_ranks + found.log_variances
        return float(np.exp(np.logaddexp.reduce(logs) - log(self.orbits.problem.workload.d)))


@dataclass(frozen=True, eq=False)
class SingleOrbit:
    """Marginals and their targets.

    Attributes
    ----------
    problem : Problem
        The whole.
    operator : Marginals
        Its queries.
    targets : numpy.ndarray, shape (r,)
        The variance bound of every query of each marginal.
    divisor : float
        What the queries' columns are divided by; 1 but for a personal bound on the profile.
    """

    problem: Problem
    operator: Marginals
    targets: Array
    divisor: float = 1.0

    finest = 1e-9
    ordered_axes = ()

    @cached_property
    def closure(self) -> Closure:
        """The subsets of attributes that the marginals contain."""
        return closure(self.operator)

    @cached_property
    def log_copies(self) -> Array:
        """Natural logarithms of N_T, the number of queries of each marginal."""
        return np.array([log(size) for size in self.operator.marginal_sizes])

    @property
    def copies(self) -> Array:
        """N_T, infinite beyond floats."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(self.log_copies))

    @property
    def copy_shares(self) -> Array:
        """N_T over the largest of them."""
        return np.asarray(np.exp(self.log_copies - self.log_copies.max()))

    @cached_property
    def cells(self) -> Array:
        """The number of cells, shape (1,), infinite beyond floats."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp([log(self.problem.workload.d)]))

    @property
    def cell_shares(self) -> Array:
        """One."""
        return np.ones(1)

    @property
    def parts(self) -> tuple[Subsets]:
        """The matrices of the dual."""
        return (Subsets(self),)

    @property
    def matrix_count(self) -> int:
        """How many they are."""
        return self.closure.log_ranks.size

    @cached_property
    def pair_count(self) -> int:
        """Number of pairs of a marginal and a subset of it."""
        return pair_count(self.operator)

    @cached_property
    def matrix(self) -> ScalarBlocks:
        """A."""
        known = self.closure
        incidence = known.incidence
        scale = np.log(self.targets) + 2 * self.log_copies + 2 * log(self.divisor)
        logs = 2 * known.log_ranks[incidence.indices] - np.repeat(scale, np.diff(incidence.indptr))
        data = np.exp(np.maximum(logs, _SMALLEST_LOG))
        matrix = sp.csr_array((data, incidence.indices, incidence.indptr), shape=incidence.shape)
        return ScalarBlocks(matrix, np.zeros(self.targets.size))

    @cached_property
    def blocks(self) -> ScalarClasses:
        """A, and what is alike in it."""
        known = self.closure
        row_keys = np.column_stack([np.log(self.targets), self.log_copies])
        return collapse(self.matrix, row_keys, known.log_ranks[:, None])

    def optimum(
        self, *, tol: float, max_iterations: int, time_limit: float | None, start: object = None
    ) -> Progress[ScalarPoint]:
        """The least Δ² that meets every target; ``start`` is not used."""
        stopping = Stopping(tol, max_iterations, Deadline.after(time_limit))
        return scalars.optimum(self.blocks, stopping)

    def hybrid(
        self,
        weight: float,
        *,
        tol: float,
        max_iterations: int,
        time_limit: float | None,
        start: object = None,
    ) -> Progress[ScalarPoint]:
        """The least objective with a weight on the total variance; ``start`` is not used."""
        stopping = Stopping(tol, max_iterations, Deadline.after(time_limit))
        blocks = self.blocks.with_offset(weight * self.targets * self.copies)
        return scalars.hybrid(blocks, stopping)

    def least_total_error(
        self, weights: Array, *, tol: float, max_iterations: int, time_limit: float | None
    ) -> Progress[ScalarPoint]:
        """In closed form: equal weights of all cells are the best there are."""
        return scalars.least_total_error(self.matrix, weights)

    def at(self, weights: Weights) -> ScalarPoint:
        """The dual at these weights."""
        return ScalarPoint(self.matrix, weights.q)

    @property
    def start(self) -> Weights:
        """Equal weights of all marginals."""
        r = self.targets.size
        return Weights(np.ones(1), np.full(r, 1 / r))

    def with_columns_divided(self, divisor: Array) -> "SingleOrbit":
        """The same with the queries' columns divided by a number, shape (1,)."""
        return replace(self, divisor=self.divisor * float(divisor[0]))

    def nearest(self, given: Weights) -> Weights:
        """Those to start from: no iteration here uses them."""
        return self.start

    def per_query(self, values: Array) -> Array:
        """Of all queries, (m,), from those of the marginals; these where m is not listed."""
        workload = self.problem.workload
        return np.repeat(values, workload.group_sizes) if workload.listed else values

    def per_cell(self, values: Array) -> Array:
        """Of all cells, (d,), from that of their orbit; this itself above 10^7 cells."""
        d = self.problem.workload.d
        return np.repeat(values, d) if d <= LARGEST_LISTED else values

    def of_cells(self, values: Array) -> Array | None:
        """The number of all cells, shape (1,); None if they differ."""
        return values[:1] if np.all(values == values[0]) else None

    def weights(self, p: Array, q: Array) -> Weights:
        """Of all cells and queries, or of their orbits where there are over 10^7 of either."""
        d = self.problem.workload.d
        shares = self.per_query(q / self.copies) if self.problem.workload.listed else q
        return Weights(self.per_cell(p / d) if d <= LARGEST_LISTED else p, shares)

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """One orbit of queries for each marginal."""
        return (1,) * self.targets.size

    def group_shape(self, group: Group) -> tuple[int, ...]:
        """One along each of its axes."""
        return (1,) * len(group.axes)

    @cached_property
    def products(self) -> Products:
        """The marginals as a union of products."""
        found = products(self.operator)
        assert found is not None
        return found

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """All values of each attribute alike; one value of those too large for any listed query."""
        sizes = (size if size <= LARGEST_LISTED else 1 for size in self.operator.sizes)
        return tuple(Attribute(np.zeros(size, dtype=np.intp)) for size in sizes)

    def spans(self, parts: Sequence[Any]) -> Iterator[tuple[Span, Factorisation]]:
        """Every subset by itself, and its mechanism in orthonormal contrasts."""
        (found,) = parts
        known, d = self.closure, self.problem.workload.d
        by_subset = sp.csc_array(known.incidence)
        logs = np.broadcast_to(found.log_variances, known.log_ranks.shape)
        for at, (log_rank, log_variance) in enumerate(zip(known.log_ranks, logs, strict=True)):
            rows = by_subset.indices[by_subset.indptr[at] : by_subset.indptr[at + 1]]
            queries = np.exp(log_rank - self.log_copies[rows])[:, None] / self.divisor
            span = self._span(rows, [known.blocks[block] for block in known.subset(at)], queries)
            deviation = exp((log_variance - log_rank) / 2)
            unit = exp(max(log_rank - log(d), _SMALLEST_LOG) / 2)
            basis, root = np.array([[unit]]), np.array([[unit * deviation]])
            own = InBasis(Explicit(basis), Explicit(queries / unit), root)
            right = np.array([[1 / deviation]])
            yield span, Factorisation(Explicit(deviation * queries), Explicit(right), own)

    def _span(self, rows: Any, blocks: Sequence[tuple[int, ...]], queries: Array) -> Span:
        chosen = set(chain.from_iterable(blocks))
        choice = tuple(0 if i in chosen else INDICATORS for i in range(len(self.operator.sizes)))
        sizes = (prod(self.operator.sizes[i] for i in block) for block in blocks)
        component = Component(choice, float(prod(size - 1 for size in sizes)), tuple(blocks))
        groups, columns = tuple(map(int, rows)), np.zeros(1, dtype=np.intp)
        return Span(rows, columns, groups, (component,), Explicit(queries))


def single_orbit(problem: Problem) -> SingleOrbit | None:
    """The problem if it is one of marginals, each once, with one target for each; else None."""
    workload, operator = problem.workload, as_marginals(problem)
    if operator is None or not workload.group_sizes:
        return None
    try:
        targets = by_group(workload, problem.targets)
    except TargetsError:
        return None
    return SingleOrbit(problem, operator, np.asarray(targets, dtype=np.float64))


def as_marginals(problem: Problem) -> Marginals | None:
    """The queries as marginals: products of identities and totals, each once, are some too."""
    operator = problem.workload.operator
    if isinstance(operator, Marginals):
        return operator
    found = products(operator) if isinstance(operator, Kronecker) else None
    if found is None or any(group.matrices for group in found.groups):
        return None
    subsets = tuple(tuple(sorted(group.kept)) for group in found.groups)
    return Marginals(found.sizes, subsets) if len(set(subsets)) == len(subsets) else None
