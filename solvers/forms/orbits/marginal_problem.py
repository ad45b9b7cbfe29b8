"""Marginals with one target each: all cells are one orbit, and the dual's matrices are numbers.

Relabelling the values of every attribute maps any cell to any other, and any query of a marginal T
to any other of its N_T queries. Every subset S of the attributes of some marginal has a space of
contrasts. For attributes with n_i values, P_S is the Kronecker product of I - J/n over the
attributes in S and of J/n over the others (J all ones). It is a projection, whose rank w_S is the
product of n_i - 1 over S. The queries of marginal T lie in the span of the P_S with S within T, so
only the downward closure of the marginals matters, not the domain. Attributes that occur in exactly
the same marginals are merged into one, whose values are all combinations of theirs; this leaves W
unchanged. Attributes with one value or in no marginal are dropped.

A query's variance depends on each space of contrasts through a single number. Let c_T be the
target of marginal T, and

    A_TS = (w_S / N_T)² / c_T   for S within T.

At weights q of the marginals, the dual's function f(q) is the sum of sqrt((Aᵀq)_S). Let the noise
along every contrast of S have variance s_S / d, and let v_S = s_S / w_S. This noise has

    every profile entry            = sum(1 / v),
    variance ratio of marginal T   = (A v)_T.

So all matrices together are one vector of numbers, in which equivalent subsets are merged
(`solvers.dual.scalar_blocks`). Every entry of A is at most 1/c_T, and numbers that grow with the
domain are stored as logarithms, so no domain is too large.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations
from math import exp, log, prod
from typing import Protocol, Self, runtime_checkable

import numpy as np
import scipy
from numpy.typing import NDArray

from solvers.dual.iteration import Deadline, Stopping, traced
from solvers.dual.predictor_corrector import Optimum
from solvers.dual.programs import Weights
from solvers.dual.scalar_blocks import (
    LARGEST_FACTORISED,
    ScalarBlocks,
    ScalarClasses,
    ScalarPoint,
    collapse,
)
from solvers.errors import SolveFailedError
from solvers.forms.orbits.orbits import LEAST_FLOPS, OnOrbits, Orbits
from solvers.forms.orbits.products import (
    INDICATORS,
    Attribute,
    Component,
    Index,
    Layout,
    Span,
    products,
)
from solvers.forms.reduction import ObstacleError
from solvers.mechanism import Mechanism, Work
from solvers.noise.factorisation import Factorisation, InBasis
from solvers.problem import Problem, as_float
from solvers.solution import Solution
from workloads import TargetsError
from workloads.operators import Array, Explicit, Kronecker, Marginals
from workloads.targets import by_group
from workloads.workload import LARGEST_LISTED

Numbers = NDArray[np.int64]
Blocks = tuple[tuple[int, ...], ...]

_LARGEST_CLOSURE = 40_000_000
"""Largest number of pairs (marginal, subset of its attributes) that are listed.

That many take 12 GB, by `_BYTES_PER_PAIR`.
"""
_BYTES_PER_PAIR = 300.0
"""Peak memory of a solve for each such pair, as measured."""
_FINEST = 1e-9
"""The gap to which the optimum is solved if the refined ordering is asked for."""


@dataclass(frozen=True, eq=False)
class Closure:
    """The downward closure of some marginals: all subsets of their attributes.

    Attributes
    ----------
    blocks : tuple of tuple of int
        For each block, the original attributes that are merged into it.
    block_sizes : tuple of int
        Number of combinations of values in each block, as Python integers of any size.
    members : numpy.ndarray of int, shape (number of subsets, largest order)
        The indices of the blocks in each subset, ascending, padded with -1.
    incidence : scipy.sparse.csr_array, shape (number of marginals, number of subsets)
        1 where the marginal contains the subset.
    log_ranks : numpy.ndarray, shape (number of subsets,)
        Natural logarithms of w_S.
    """

    blocks: tuple[tuple[int, ...], ...]
    block_sizes: tuple[int, ...]
    members: Numbers
    incidence: "scipy.sparse.csr_array"
    log_ranks: Array


def _merge_attributes(operator: Marginals) -> tuple[Blocks, list[tuple[int, ...]]]:
    """Return the blocks of merged attributes, and the marginals as tuples of block indices.

    Attributes with more than one value are merged if the same marginals contain them.
    """
    containing: dict[int, list[int]] = {}
    for position, subset in enumerate(operator.subsets):
        for attribute in subset:
            if operator.sizes[attribute] > 1:
                containing.setdefault(attribute, []).append(position)
    together: dict[tuple[int, ...], list[int]] = {}
    for attribute in sorted(containing):
        together.setdefault(tuple(containing[attribute]), []).append(attribute)
    blocks = tuple(map(tuple, together.values()))
    first = {block[0]: position for position, block in enumerate(blocks)}
    return blocks, [tuple(first[i] for i in subset if i in first) for subset in operator.subsets]


def _list_subsets(marginals: list[tuple[int, ...]]) -> tuple[Numbers, Numbers]:
    """For every subset of every marginal, the marginal's index and the blocks padded with -1."""
    widest = max(map(len, marginals))
    by_order: dict[int, list[int]] = {}
    for position, marginal in enumerate(marginals):
        by_order.setdefault(len(marginal), []).append(position)
    owners, listed = [], []
    for order, positions in by_order.items():
        attributes = np.array([marginals[p] for p in positions], dtype=np.int64)
        orders = range(order + 1)
        for kept in chain.from_iterable(combinations(range(order), size) for size in orders):
            padded = np.full((len(positions), widest), -1, dtype=np.int64)
            padded[:, : len(kept)] = attributes.reshape(len(positions), order)[:, list(kept)]
            owners.append(np.array(positions, dtype=np.int64))
            listed.append(padded)
    return np.concatenate(owners), np.concatenate(listed)


def _find_distinct(rows: Numbers, largest: int) -> tuple[Numbers, Numbers]:
    """Return the distinct rows, and the index of every row among the distinct rows."""
    ids = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        _, ids = np.unique(ids * (largest + 1) + column + 1, return_inverse=True)
    _, positions = np.unique(ids, return_index=True)
    return rows[positions], ids


_SMALLEST_LOG = -650.0
"""Least logarithm that is not rounded up.

exp(-708) is the least normal float; exp(-650) leaves room for products with weights.
"""
_LARGEST_LOG = 700.0
"""Largest exponent of a squared privacy cost that is still a float: exp(709) is the largest."""


@dataclass(frozen=True, eq=False)
class SubsetNoise:
    """Independent noise on the contrasts of each subset.

    Attributes
    ----------
    query_variances : numpy.ndarray, shape (r,)
        Variance of the queries of each marginal.
    privacy_profile : numpy.ndarray, shape (1,)
        The profile entry of every cell.
    log_variances : numpy.ndarray, shape (number of subsets,), or float
        Natural logarithms of s_S, in the order of the closure; one number if all are equal; NaN
        for independent noise on every query, which is drawn without them.
    """

    query_variances: Array
    privacy_profile: Array
    log_variances: Array | float

    def divided(self, scale: float) -> "SubsetNoise":
        """Return the noise divided by a number."""
        return SubsetNoise(
            self.query_variances / scale**2,
            self.privacy_profile * scale**2,
            self.log_variances - 2 * log(scale),
        )

    def with_cells_scaled(self, factors: Array) -> "SubsetNoise":
        """Return noise of the same errors for queries with columns times ``factors[0]``."""
        return SubsetNoise(
            self.query_variances,
            self.privacy_profile * np.square(factors),
            self.log_variances - 2 * float(np.log(factors[0])),
        )


@runtime_checkable
class OnMarginals(Protocol):
    """A mechanism that solves marginals with one target each."""

    def on_marginals(self, marginals: "SingleOrbit") -> Solution:
        """Solve the problem, with the results of the query matrix."""


@dataclass(frozen=True, eq=False)
class SingleOrbit(Orbits[ScalarPoint, SubsetNoise]):
    """Marginals with one target each, whose cells form a single orbit.

    The matrices of the dual are numbers, which together form a single part.

    Attributes
    ----------
    marginal_targets : numpy.ndarray, shape (r,)
        The variance bound of every query of each marginal.
    divisor : float
        Divisor of the queries' columns: 1 unless the profile has a personal bound.
    """

    operator: Marginals
    marginal_targets: Array
    divisor: float = 1.0

    forms = (OnMarginals, OnOrbits)
    finest = _FINEST
    ordered_axes = ()
    places = ((slice(None), slice(None)),)

    @classmethod
    def of(cls, problem: Problem) -> "SingleOrbit | None":
        """Convert distinct marginals with one target each; None for other problems.

        A product of identities and totals is a marginal.

        Raises
        ------
        ObstacleError
            If the marginals have too many subsets of attributes.
        """
        workload, operator = problem.workload, problem.workload.operator
        if isinstance(operator, Kronecker):
            union = products(operator)
            subsets = tuple(tuple(sorted(group.kept)) for group in union.groups)
            if any(group.matrices for group in union.groups) or len(set(subsets)) < len(subsets):
                return None
            operator = Marginals(union.sizes, subsets)
        if not isinstance(operator, Marginals) or not workload.group_sizes:
            return None
        try:
            targets = by_group(workload, problem.targets)
        except TargetsError:
            return None
        orbits = cls(problem, operator, np.asarray(targets, dtype=np.float64))
        marginals, pairs = operator.subsets, orbits.pair_count
        if pairs > _LARGEST_CLOSURE:
            raise ObstacleError(
                f"the {len(marginals)} marginals, up to {max(map(len, marginals))} attributes "
                f"each, have {pairs} subsets of attributes, more than the limit of "
                f"{_LARGEST_CLOSURE}; ask for fewer marginals or for lower orders"
            )
        return orbits

    def solve(self, mechanism: Mechanism) -> Solution:
        """Solve by the mechanism's form on marginals, or else on orbits."""
        if isinstance(mechanism, OnMarginals):
            return mechanism.on_marginals(self)
        assert isinstance(mechanism, OnOrbits)
        return mechanism.on_orbits(self)

    def work(self, mechanism: Mechanism) -> Work:
        """Estimate the work without arrays over the domain, however large it is."""
        dense = min(self.targets.size, LARGEST_FACTORISED) ** 2
        flops = LEAST_FLOPS + mechanism.flops_per_pair * self.pair_count
        return Work(flops, _BYTES_PER_PAIR * self.pair_count + 16.0 * dense)

    @property
    def targets(self) -> Array:
        """The variance bound of every query of each marginal, shape (r,)."""
        return self.marginal_targets

    @cached_property
    def closure(self) -> Closure:
        """All subsets of the marginals' attributes. There may be many: check `pair_count` first."""
        blocks, marginals = _merge_attributes(self.operator)
        sizes = tuple(prod(self.operator.sizes[i] for i in block) for block in blocks)
        owners, listed = _list_subsets(marginals)
        members, ids = _find_distinct(listed, len(blocks))
        incidence = scipy.sparse.csr_array(
            (np.ones(ids.size), (owners, ids)), shape=(len(marginals), len(members))
        )
        ranks = np.append([log(size - 1) for size in sizes], 0.0)
        return Closure(blocks, sizes, members, incidence, ranks[members].sum(axis=1))

    @cached_property
    def log_copies(self) -> Array:
        """Natural logarithms of N_T, the number of queries of each marginal."""
        return np.array([log(size) for size in self.operator.marginal_sizes])

    @property
    def copies(self) -> Array:
        """N_T, the number of queries of each marginal; infinite if too large for a float."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(self.log_copies))

    @cached_property
    def cells(self) -> Array:
        """The number of cells, shape (1,); infinite if too large for a float."""
        return np.array([as_float(self.problem.workload.d)])

    @property
    def cell_shares(self) -> Array:
        """Sizes of the orbits of cells over the largest size: 1 for the only orbit, shape (1,)."""
        return np.ones(1)

    def noise(self, v: Array) -> SubsetNoise:
        """Return the noise whose variance along every contrast of S is ``v_S * w_S / d``."""
        logs = np.log(v) + self.closure.log_ranks
        return SubsetNoise(self.targets * self.matrix.ratios(v), np.array([(1 / v).sum()]), logs)

    def inner(self, mechanism: str, point: ScalarPoint) -> tuple[SubsetNoise]:
        """Return the unscaled inner solution at a point of the dual."""
        return (self.noise(point.v),)

    def refine(
        self, mechanism: str, result: Optimum[ScalarPoint], tol: float, deadline: Deadline
    ) -> tuple[tuple[SubsetNoise], int, Optimum[ScalarPoint]]:
        """Return the optimum itself: with a single orbit, it is least in the refined ordering.

        The profile is constant, and that of any other optimum, averaged over all relabellings, is
        no lower.
        """
        return self.inner(mechanism, result.best), 1, result

    def on_cells(self, mechanism: str) -> tuple[SubsetNoise]:
        """Return noise of unit variance on every cell; a query sums the noise of d / N_T cells.

        Raises
        ------
        SolveFailedError
            If the squared privacy cost is too large for a float.
        """
        log_cells = log(self.problem.workload.d)
        logs = log_cells - self.log_copies
        largest = float((logs - np.log(self.targets)).max())
        if largest > _LARGEST_LOG:
            raise SolveFailedError(
                f"{mechanism}: its squared privacy cost is about 10^{largest / log(10):.0f}, "
                "beyond floats; raise the targets or ask for marginals of a higher order"
            )
        return (SubsetNoise(np.exp(logs), np.ones(1), log_cells),)

    def on_queries(self, deviation: float) -> tuple[SubsetNoise]:
        """Return noise of standard deviation ``deviation`` on every query.

        Every cell contributes to one query of each marginal.
        """
        count = self.targets.size
        variances = np.full(count, deviation**2)
        return (SubsetNoise(variances, np.array([count / deviation**2]), np.nan),)

    def mean_inverse(self, point: ScalarPoint) -> float:
        """Sum the inverse squares of B's singular values, per cell, at a point of the dual."""
        logs = 2 * self.closure.log_ranks + np.log(point.v)
        return float(np.exp(np.logaddexp.reduce(logs) - log(self.problem.workload.d)))

    @cached_property
    def pair_count(self) -> int:
        """Number of pairs of a marginal and a subset of its attributes.

        Attributes that are in the same marginals are merged and count as one. The number without
        merging is an upper bound. If this bound is at most `_LARGEST_CLOSURE`, it is returned
        instead.
        """
        if self.operator.contained_count <= _LARGEST_CLOSURE:
            return self.operator.contained_count
        return sum(1 << len(marginal) for marginal in _merge_attributes(self.operator)[1])

    @cached_property
    def matrix(self) -> ScalarBlocks:
        """The matrix A, with zero offset."""
        closure = self.closure
        incidence = closure.incidence
        scale = np.log(self.targets) + 2 * self.log_copies + 2 * log(self.divisor)
        logs = 2 * closure.log_ranks[incidence.indices] - np.repeat(
            scale, np.diff(incidence.indptr)
        )
        data = np.exp(np.maximum(logs, _SMALLEST_LOG))
        matrix = scipy.sparse.csr_array(
            (data, incidence.indices, incidence.indptr), shape=incidence.shape
        )
        return ScalarBlocks(matrix, np.zeros(self.targets.size))

    @cached_property
    def blocks(self) -> ScalarClasses:
        """The matrix A, with its equivalent rows and columns merged into classes."""
        row_keys = np.column_stack([np.log(self.targets), self.log_copies])
        return collapse(self.matrix, row_keys, self.closure.log_ranks[:, None])

    def optimum(
        self, stopping: Stopping, start: Weights | None = None, total_error_weight: float = 0.0
    ) -> Optimum[ScalarPoint]:
        """Compute the least Δ² at which every target can be met, or the least hybrid objective."""
        first = None if start is None else start.q
        if total_error_weight == 0:
            return self.blocks.optimum(stopping, first)
        blocks = self.blocks.with_offset(total_error_weight * self.targets * self.copies)
        result = blocks.optimum(stopping, first)
        # the hybrid objective is twice the square root of the minimum that the blocks find
        lower, upper = (2 * float(np.sqrt(bound)) for bound in (result.lower, result.upper))
        squares = result.trace
        reached, proven = 2 * np.sqrt(squares.objective), 2 * np.sqrt(squares.lower_bound)
        trace = replace(squares, objective=reached, lower_bound=proven)
        return replace(result, lower=lower, upper=upper, trace=trace)

    def least_total_error(self, weights: Array, stopping: Stopping) -> Optimum[ScalarPoint]:
        """Compute the least total error in closed form: equal weights of all cells are optimal."""
        total = float(weights.sum())
        given = replace(self.matrix, offset=weights / total)
        point = ScalarPoint(given, np.zeros(weights.size))
        value = point.nuclear_norm**2 * total
        return Optimum(value, value, point, point, traced([value], [value]))

    def at(self, weights: Weights) -> ScalarPoint:
        """Evaluate the dual's function f at these weights."""
        return ScalarPoint(self.matrix, weights.q)

    def weights_at(self, point: ScalarPoint) -> Weights:
        """Return the weights of all cells and queries at a point of the dual; cells' are equal."""
        return self.spread(Weights(np.ones(1), point.q))

    def with_columns_divided(self, divisor: Array) -> Self:
        """Return a copy with the queries' columns divided by the only entry of ``divisor``."""
        return replace(self, divisor=self.divisor * float(divisor[0]))

    @property
    def orbit_of_cell(self) -> Index:
        """The index of the only orbit, 0, for every cell, shape (d,)."""
        return np.zeros(self.problem.workload.d, dtype=np.intp)

    @property
    def orbit_of_query(self) -> Index:
        """The index of the marginal of every query, shape (m,)."""
        sizes = self.problem.workload.group_sizes
        return np.repeat(np.arange(self.targets.size), sizes)

    def per_target(self, values: Array) -> Array:
        """Return the values themselves: there is one target for each marginal."""
        return values

    @cached_property
    def layout(self) -> Layout:
        """The marginals as products; an attribute of more than 10^7 values has one value here."""
        sizes = (size if size <= LARGEST_LISTED else 1 for size in self.operator.sizes)
        alike = tuple(Attribute(np.zeros(size, dtype=np.intp)) for size in sizes)
        return Layout(products(self.operator), alike)

    def spans(self, noises: Sequence[SubsetNoise]) -> Iterator[tuple[Span, Factorisation]]:
        """Yield a span for each subset, with the mechanism on its orthonormal contrasts."""
        (noise,), closure, d = noises, self.closure, self.problem.workload.d
        by_subset = scipy.sparse.csc_array(closure.incidence)
        logs = np.broadcast_to(noise.log_variances, closure.log_ranks.shape)
        for number, (log_rank, log_variance) in enumerate(
            zip(closure.log_ranks, logs, strict=True)
        ):
            first, last = by_subset.indptr[number : number + 2]
            rows = by_subset.indices[first:last].astype(np.intp)
            queries = np.exp(log_rank - self.log_copies[rows])[:, None] / self.divisor
            blocks = tuple(closure.blocks[block] for block in closure.members[number] if block >= 0)
            chosen, sizes = set(chain.from_iterable(blocks)), self.operator.sizes
            choice = tuple(0 if i in chosen else INDICATORS for i in range(len(sizes)))
            rank = prod(prod(sizes[i] for i in block) - 1 for block in blocks)
            component, column = Component(choice, float(rank), blocks), np.zeros(1, dtype=np.intp)
            span = Span(rows, column, tuple(map(int, rows)), (component,))
            deviation = exp((log_variance - log_rank) / 2)
            unit = exp(max(log_rank - log(d), _SMALLEST_LOG) / 2)
            basis, root = np.array([[unit]]), np.array([[unit * deviation]])
            in_basis = InBasis(Explicit(basis), Explicit(queries / unit), root)
            right = np.array([[1 / deviation]])
            yield span, Factorisation(Explicit(deviation * queries), Explicit(right), in_basis)
