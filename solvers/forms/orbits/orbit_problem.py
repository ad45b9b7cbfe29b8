"""A problem on its orbits: its targets, the matrices into which its dual splits, and its optima.

The symmetry of the problem is found first; arrays over the orbits are computed when they are used.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import prod
from typing import Any

import numpy as np
import scipy

from solvers.dual import programs as dual
from solvers.dual.interior_point import Progress
from solvers.dual.iteration import Stopping
from solvers.dual.matrix_blocks import Block, BlocksPoint, MatrixBlocks
from solvers.dual.programs import Weights
from solvers.forms.orbits.products import (
    INDICATORS,
    Attribute,
    Choice,
    Component,
    Group,
    Index,
    Products,
    components,
    products,
)
from solvers.noise.factorisation import Factorisation, InBasis, identity
from solvers.noise.verification import from_root
from solvers.problem import Problem
from solvers.strategy import inner_unscaled
from workloads import Workload
from workloads.operators import (
    Array,
    Explicit,
    Kronecker,
    Marginals,
    QueryOperator,
    Scaled,
    Stacked,
    dense,
)
from workloads.operators.protocol import kron
from workloads.workload import LARGEST_LISTED

LARGEST_NUMBER = 1e300
"""Largest number of domain cells for which `Orbits` are used: a number that fits into a float."""

LARGEST_CHOICES = 20_000
"""Largest number of choices (of indicators or contrasts in each attribute) that are listed."""


@dataclass(frozen=True, eq=False)
class Span:
    """Some contrasts and the orbits of queries that depend on them.

    Attributes
    ----------
    rows : numpy.ndarray of int
        Indices of the orbits of queries, ascending.
    columns : numpy.ndarray of int
        Indices of the orbits of cells that the contrasts involve, ascending.
    groups : tuple of int
        Indices of the groups of queries.
    components : tuple of Component
        The sets of contrasts.
    """

    rows: Index
    columns: Index
    groups: tuple[int, ...]
    components: tuple[Component, ...]

    @property
    def rank(self) -> float:
        """ν: the number of contrasts in all components."""
        return sum(component.rank for component in self.components)


@dataclass(frozen=True, eq=False)
class Part(Span):
    """One of the matrices into which the dual splits.

    Attributes
    ----------
    problem : Problem
        The matrix as a workload, with the targets of its rows.
    cells : numpy.ndarray
        n_o: number of cells in the orbit of each column.
    copies : numpy.ndarray
        N_r: number of queries in the orbit of each row.
    """

    problem: Problem
    cells: Array
    copies: Array

    def inner(self, mechanism: str, p: Array, spectrum: Any) -> Factorisation:
        """The unscaled inner solution at column weights ``p``, from the part's spectrum.

        Raises
        ------
        SolveFailedError
            If the product of the solution's factors is not the query matrix.
        """
        return inner_unscaled(mechanism, self.problem, p, spectrum)

    def from_root(self, mechanism: str, root: Array) -> Factorisation:
        """The unscaled mechanism with covariance ``root @ root.T``; raises the error of `inner`."""
        own = self.problem
        return from_root(mechanism, own, own.basis, own.queries, root)

    def on_cells(self, mechanism: str) -> Factorisation:
        """Noise of unit variance on every cell, restricted to the part's contrasts."""
        shares = self.rank / self.cells
        cells = Explicit(scipy.sparse.csr_array(scipy.sparse.diags_array(np.sqrt(shares))))
        matrix = scipy.sparse.csr_array(self.problem.workload.operator.matrix())
        queries = Explicit(scipy.sparse.csr_array(matrix @ scipy.sparse.diags_array(shares**-0.5)))
        return Factorisation(queries, cells, InBasis(cells, queries, 1.0))

    def on_queries(self, deviation: float) -> Factorisation:
        """Noise of standard deviation ``deviation`` on each query, restricted to the contrasts."""
        queries, own = identity(self.rows.size), self.problem.workload.operator
        roots = deviation * np.sqrt(self.rank / self.copies)
        coordinates = InBasis(own, queries, 1.0)
        return Factorisation(Scaled(queries, roots), Scaled(own, 1 / roots), coordinates)

    def inverse_trace(self, noise: Any) -> float:
        """Trace of the pseudo-inverse of the Fisher information about the part's contrasts."""
        strategy = dense(noise.right) * np.sqrt(self.cells / self.rank)
        return self.rank * float(np.square(np.linalg.pinv(strategy)).sum())


@dataclass(frozen=True, eq=False)
class Orbits:
    """A problem on the orbits of its equivalent cells and the orbits of its equivalent queries.

    Attributes
    ----------
    problem : Problem
        The original problem.
    products : Products
        The problem's queries as a union of products.
    attributes : tuple of Attribute
        The classes of values of each attribute; the orbits of cells are products of classes.
    group_targets : list of numpy.ndarray
        For each group, its targets in an array with one axis for each of `Group.axes`.
    cell_scale : numpy.ndarray, shape (n,), or float
        Divisors of the queries' columns: 1 unless the profile has personal bounds.
    """

    problem: Problem
    products: Products
    attributes: tuple[Attribute, ...]
    group_targets: list[Array]
    cell_scale: Array | float = 1.0

    finest = 1e-11

    @cached_property
    def cell_shape(self) -> list[int]:
        """Number of classes of each attribute."""
        return [attribute.sizes.size for attribute in self.attributes]

    @cached_property
    def cells(self) -> Array:
        """n_o: number of cells of each orbit, shape (n,)."""
        return kron([attribute.sizes for attribute in self.attributes])

    @property
    def cell_shares(self) -> Array:
        """Every n_o divided by the largest n_o."""
        return np.asarray(self.cells / self.cells.max())

    @property
    def ordered_axes(self) -> list[int]:
        """The attributes for which some product's factor is neither the total nor the identity."""
        return self.products.ordered_axes

    def group_shape(self, group: Group) -> tuple[int, ...]:
        """Number of orbits of queries along each of the group's axes."""
        return group.shape(self.cell_shape)

    @cached_property
    def starts(self) -> Index:
        """The index of each group's first orbit of queries, followed by the number of orbits r."""
        sizes = [prod(self.group_shape(group)) for group in self.products.groups]
        return np.cumsum([0, *sizes])

    @cached_property
    def copies(self) -> Array:
        """N_r: number of queries of each orbit, shape (r,), group by group."""
        copies = []
        for group in self.products.groups:
            along = zip(group.axes, self.group_shape(group), strict=True)
            sizes = [
                self.attributes[axis].sizes if axis in group.kept else np.ones(rows)
                for axis, rows in along
            ]
            copies.append(kron([np.ones(1), *sizes]))
        return np.concatenate(copies)

    @property
    def log_copies(self) -> Array:
        """Natural logarithm of every N_r."""
        return np.asarray(np.log(self.copies))

    @property
    def copy_shares(self) -> Array:
        """Every N_r divided by the largest N_r."""
        return np.asarray(self.copies / self.copies.max())

    @cached_property
    def targets(self) -> Array:
        """The variance bound of the queries in each orbit, group by group, shape (r,)."""
        listed = []
        for group, targets in zip(self.products.groups, self.group_targets, strict=True):
            firsts = [
                self.attributes[axis].first if axis in group.kept and size > 1 else np.arange(size)
                for axis, size in zip(group.axes, targets.shape, strict=True)
            ]
            own = targets[np.ix_(*firsts)]
            listed.append(np.broadcast_to(own, self.group_shape(group)).ravel())
        return np.concatenate(listed)

    def per_query(self, values: Array) -> Array:
        """Copy values of orbits to all queries in the orbits, shape (m,).

        If the workload is not listed, return one value for each target instead: the largest value
        of the orbits to which the target applies.
        """
        if self.problem.workload.listed:
            return values[self.orbit_of_query]
        parts = np.split(values, self.starts[1:-1])
        if self.problem.targets.size == len(parts):
            return np.array([part.max() for part in parts])
        largest = []
        for group, part in zip(self.products.groups, parts, strict=True):
            kept = tuple(i for i, axis in enumerate(group.axes) if axis in group.kept)
            largest.append(part.reshape(self.group_shape(group)).max(axis=kept).ravel())
        return np.concatenate(largest)

    def per_cell(self, values: Array) -> Array:
        """Copy values of orbits to all their cells, shape (d,); unchanged above 10^7 cells."""
        return values if self.problem.workload.d > LARGEST_LISTED else values[self.orbit_of_cell]

    def of_cells(self, values: Array) -> Array | None:
        """Convert values of all cells to values of the orbits of cells.

        Values that are already values of orbits are returned unchanged. None if cells of the same
        orbit have different values.
        """
        if values.size == self.cells.size:
            return values
        orbit, sums = self.orbit_of_cell, np.empty(self.cells.size)
        sums[orbit] = values
        return sums if np.array_equal(sums[orbit], values) else None

    def weights(self, p: Array, q: Array) -> Weights:
        """Divide the weights of orbits among their cells and queries.

        If there are more than 10^7 cells or queries, the weights of orbits are returned.
        """
        workload = self.problem.workload
        if not workload.listed or workload.d > LARGEST_LISTED:
            return Weights(p, q)
        return Weights(self.per_cell(p / self.cells), self.per_query(q / self.copies))

    def nearest(self, given: Weights) -> Weights:
        """Convert the weights of a similar problem to weights of this problem's orbits.

        If the numbers of cells and queries agree, the weights are summed over each orbit;
        otherwise they are interpolated.
        """
        workload, n, r = self.problem.workload, self.cells.size, self.copies.size
        if given.p.size != workload.d or not given.q.size == workload.target_count == workload.m:
            return given.resized(n, r)
        p = np.bincount(self.orbit_of_cell, given.p, minlength=n)
        q = np.bincount(self.orbit_of_query, given.q, minlength=r)
        return Weights(p.astype(np.float64), q.astype(np.float64))

    @property
    def orbit_of_query(self) -> Index:
        """The index of the orbit of every query, shape (m,)."""
        orbits = []
        for group, start in zip(self.products.groups, self.starts, strict=False):
            shape = self.group_shape(group)
            numbers = start + np.arange(prod(shape)).reshape(shape)
            along = [
                self.attributes[axis].of if axis in group.kept else np.arange(rows)
                for axis, rows in zip(group.axes, shape, strict=True)
            ]
            orbits.append(numbers[np.ix_(*along)].ravel())
        return np.concatenate(orbits)

    @property
    def orbit_of_cell(self) -> Index:
        """The index of the orbit of every cell, shape (d,)."""
        numbers = np.arange(prod(self.cell_shape)).reshape(self.cell_shape)
        return numbers[np.ix_(*(attribute.of for attribute in self.attributes))].ravel()

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The matrices of the dual; components with the same groups and orbits share a matrix."""
        alike: dict[tuple[Choice, tuple[int, ...]], list[Component]] = {}
        for component in components(self.products, self.attributes):
            # contrasts of an attribute's only class involve the same orbits as its indicator
            selection = tuple(
                INDICATORS if size == 1 else k
                for size, k in zip(self.cell_shape, component.choice, strict=True)
            )
            seen = tuple(
                at
                for at, group in enumerate(self.products.groups)
                if group.kept.issuperset(component.chosen)
            )
            alike.setdefault((selection, seen), []).append(component)
        return tuple(self._part(*key, tuple(own)) for key, own in alike.items())

    def _part(self, selection: Choice, seen: tuple[int, ...], own: tuple[Component, ...]) -> Part:
        rank = sum(component.rank for component in own)
        operators: list[tuple[QueryOperator, Array]] = []
        numbers: list[Index] = []
        for at in seen:
            group = self.products.groups[at]
            along = [selection[axis] for axis in group.axes]
            numbers.append(self.starts[at] + _chosen(self.group_shape(group), along))
            # a factor for each attribute that is ordered, or that has several classes of which
            # the indicators are chosen
            factors = [
                group.factor(axis, size)
                for axis, (size, k) in enumerate(zip(self.cell_shape, selection, strict=True))
                if (k == INDICATORS and size > 1) or axis in self.ordered_axes
            ]
            scale = rank / self.copies[numbers[-1]]
            operators.append((self.products.product(factors), scale))
        rows, columns = np.concatenate(numbers), _chosen(self.cell_shape, selection)
        whole = _stacked(operators)
        divisors = np.broadcast_to(self.cell_scale, self.cells.size)[columns]
        if np.any(divisors != 1):
            whole = Explicit(dense(whole.matrix()) / divisors)
        problem = Problem(Workload("orbits", whole), self.targets[rows])
        cells, copies = self.cells[columns], self.copies[rows]
        return Part(rows, columns, seen, own, problem, cells, copies)

    @property
    def matrix_count(self) -> int:
        """Number of matrices into which the dual splits."""
        return len(self.parts)

    @property
    def layout(self) -> "Orbits":
        """The orbits of cells and queries from which errors are drawn: this problem itself."""
        return self

    def spans(self, parts: Sequence[Any]) -> Iterator[tuple[Span, Factorisation]]:
        """Pair each part of the problem with its factorisation; ``parts`` has these in order."""
        return zip(self.parts, parts, strict=True)

    @cached_property
    def blocks(self) -> MatrixBlocks:
        """The matrices of all parts, as blocks for the optimiser in `solvers.dual`."""
        blocks = tuple(Block(part.problem.factors, part.rows, part.columns) for part in self.parts)
        return MatrixBlocks(blocks, self.cells.size, np.zeros(self.targets.size), free_queries=True)

    @property
    def start(self) -> Weights:
        """The initial weights: equal for all cells, and equal for all orbits of queries."""
        r = self.targets.size
        return Weights(self.cells / self.cells.sum(), np.full(r, 1 / r))

    def optimum(self, stopping: Stopping, start: Weights | None = None) -> Progress[BlocksPoint]:
        """Compute the least Δ² at which every target can be met (`dual.optimum`)."""
        return dual.optimum(self.blocks, stopping, start or self.start)

    def hybrid(self, weight: float, stopping: Stopping, start: Weights) -> Progress[BlocksPoint]:
        """Compute the least hybrid objective with this weight of total variance (`dual.hybrid`)."""
        weights = weight * self.targets * self.copies
        return dual.hybrid(self.blocks, weights, stopping, start)

    def least_total_error(self, weights: Array, stopping: Stopping) -> Progress[BlocksPoint]:
        """Compute the least weighted sum of variance ratios (`dual.least_total_error`)."""
        return dual.least_total_error(self.blocks, weights, stopping, self.start.p)

    def at(self, weights: Weights) -> BlocksPoint:
        """Evaluate the dual's function f at these weights."""
        return self.blocks.at(np.concatenate([weights.p, weights.q]))

    def with_columns_divided(self, divisor: Array) -> "Orbits":
        """A copy with the queries' columns divided by numbers, one for each orbit of cells."""
        return replace(self, cell_scale=self.cell_scale * divisor)


def _stacked(operators: Sequence[tuple[QueryOperator, Array]]) -> QueryOperator:
    """Stack operators with their row scales; a run of the same operator is stored once."""
    runs = [list(run) for _, run in groupby(operators, key=lambda pair: id(pair[0]))]
    scaled = [Scaled(run[0][0], np.concatenate([own for _, own in run])) for run in runs]
    return scaled[0] if len(scaled) == 1 else Stacked(tuple(scaled))


def _chosen(shape: Sequence[int], selection: Sequence[int]) -> Index:
    """Flat indices of the selected entries of an array: along each axis, one entry or all."""
    numbers = np.zeros(1, dtype=np.intp)
    for size, k in zip(shape, selection, strict=True):
        own = np.arange(size) if k == INDICATORS else np.array([k])
        numbers = (numbers[:, None] * size + own).ravel()
    return numbers


def orbit_problem(problem: Problem) -> Orbits | None:
    """Convert a problem to its orbits; None if its queries are not a union of products."""
    operator = problem.workload.operator
    if not isinstance(operator, Kronecker | Marginals):
        return None
    read = products(operator)
    targets = read.targets(problem.workload, problem.targets)
    return Orbits(problem, read, read.attributes(targets), targets)
