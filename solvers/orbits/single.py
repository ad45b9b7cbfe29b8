"""Marginals with one target each: all cells are one orbit, and the dual's matrices are numbers.

Relabelling the values of every attribute moves any cell to any other, and any query of a marginal
T to any other of its N_T. The choices of contrasts are subsets S of attributes
(`solvers.orbits.closure`), w_S times each, and what queries see of them is a single number: with

    A_TS = (w_S / N_T)² / c_T   for S within T,

f(q) is the sum of sqrt((Aᵀq)_S), and noise of variance s_S / d along every contrast of S,
v_S = s_S / w_S, has

    every profile entry            = sum(1 / v),
    variance ratio of marginal T   = (A v)_T.

So all matrices are solved as one vector, alike subsets as one (`solvers.dual.scalar_blocks`).
Every entry of A is at most 1/c_T, and all numbers that grow
with the domain are logarithms: no domain is too large.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log
from typing import Any

import numpy as np
import scipy.sparse as sp

from solvers.dual import scalar_blocks
from solvers.dual.interior_point import Progress
from solvers.dual.programs import Weights
from solvers.dual.scalar_blocks import ScalarBlocks, ScalarClasses, ScalarPoint, collapse
from solvers.noise.factorisation import Factorisation
from solvers.orbits.closure import Closure, closure, pair_count
from solvers.orbits.layout import Layout
from solvers.orbits.parts import Span
from solvers.orbits.products import Attribute, products
from solvers.orbits.subsets import SMALLEST_LOG, Subsets
from solvers.problem import Problem, as_float
from solvers.problem.problem import unit_of
from workloads import TargetsError
from workloads.operators import Array, Kronecker, Marginals
from workloads.targets import by_group
from workloads.workload import LARGEST_LISTED


@dataclass(frozen=True, eq=False)
class SingleOrbit:
    """Marginals and their targets.

    Attributes
    ----------
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
        return np.array([as_float(self.problem.workload.d)])

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
    def unit(self) -> float:
        """Of the targets, in which the dual is solved."""
        return unit_of(np.log(self.targets) + 2 * log(self.divisor))

    @property
    def relative(self) -> "SingleOrbit":
        """The same in that unit."""
        return self if self.unit == 1 else replace(self, targets=self.targets / self.unit)

    @cached_property
    def matrix(self) -> ScalarBlocks:
        """A."""
        known = self.closure
        incidence = known.incidence
        scale = np.log(self.targets) + 2 * self.log_copies + 2 * log(self.divisor)
        logs = 2 * known.log_ranks[incidence.indices] - np.repeat(scale, np.diff(incidence.indptr))
        data = np.exp(np.maximum(logs, SMALLEST_LOG))
        matrix = sp.csr_array((data, incidence.indices, incidence.indptr), shape=incidence.shape)
        return ScalarBlocks(matrix, np.zeros(self.targets.size))

    @cached_property
    def blocks(self) -> ScalarClasses:
        """A, with its classes of equal rows and columns."""
        known = self.closure
        row_keys = np.column_stack([np.log(self.targets), self.log_copies])
        return collapse(self.matrix, row_keys, known.log_ranks[:, None])

    def optimum(self, *, start: object = None, **limits: Any) -> Progress[ScalarPoint]:
        """The least Δ² that meets every target; ``start`` is not used."""
        return scalar_blocks.optimum(self.relative.blocks, **limits).scaled(1 / self.unit)

    def hybrid(self, weight: float, *, start: object, **limits: Any) -> Progress[ScalarPoint]:
        """The least objective with a weight on the total variance; ``start`` is not used."""
        blocks = self.relative.blocks.with_offset(weight * self.targets * self.copies)
        return scalar_blocks.hybrid(blocks, **limits).scaled(self.unit**-0.5)

    def least_total_error(self, weights: Array, **limits: Any) -> Progress[ScalarPoint]:
        """The least total error in closed form: equal weights of all cells are optimal."""
        return scalar_blocks.least_total_error(self.matrix, weights)

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
        """The weights to start from, which no iteration here uses."""
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

    @cached_property
    def layout(self) -> Layout:
        """The marginals as products; one value of attributes too large for any listed query."""
        read = products(self.operator)
        assert read is not None
        sizes = (size if size <= LARGEST_LISTED else 1 for size in self.operator.sizes)
        alike = tuple(Attribute(np.zeros(size, dtype=np.intp)) for size in sizes)
        return Layout(self.problem, read, alike)

    def spans(self, parts: Sequence[Any]) -> Iterator[tuple[Span, Factorisation]]:
        """Every subset by itself, and its mechanism in orthonormal contrasts."""
        (own,), (noise,) = self.parts, parts
        return own.spans(noise)


def single_orbit(problem: Problem) -> SingleOrbit | None:
    """The problem if it has distinct marginals with one target each; else None."""
    workload, operator = problem.workload, as_marginals(problem)
    if operator is None or not workload.group_sizes:
        return None
    try:
        targets = by_group(workload, problem.targets)
    except TargetsError:
        return None
    return SingleOrbit(problem, operator, np.asarray(targets, dtype=np.float64))


def as_marginals(problem: Problem) -> Marginals | None:
    """The queries as marginals, which distinct products of identities and totals are too."""
    operator = problem.workload.operator
    if isinstance(operator, Marginals):
        return operator
    found = products(operator) if isinstance(operator, Kronecker) else None
    if found is None or any(group.matrices for group in found.groups):
        return None
    subsets = tuple(tuple(sorted(group.kept)) for group in found.groups)
    return Marginals(found.sizes, subsets) if len(set(subsets)) == len(subsets) else None
