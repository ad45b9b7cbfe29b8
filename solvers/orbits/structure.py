"""A problem on its orbits: targets, numbers of copies, and the matrices of its dual."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from math import prod
from typing import Any

import numpy as np
import scipy.sparse as sp

from solvers.dual import programs as dual
from solvers.dual.programs import Weights
from solvers.gaussian.checked import inner_unscaled
from solvers.gaussian.factorisation import Factorisation, InBasis, dense, identity
from solvers.gaussian.verified import unscaled_from_root
from solvers.optimiser import Block, BlocksPoint, MatrixBlocks, Progress
from solvers.orbits.symmetry import Attribute, Group, Index, Products, products
from solvers.problem import Problem
from workloads import Workload
from workloads.operators import (
    Array,
    Explicit,
    Kronecker,
    Matrix,
    QueryOperator,
    Scaled,
    Stacked,
    cumulative,
)
from workloads.workload import LARGEST_LISTED

LARGEST_NUMBER = 1e300
"""Most cells of a domain; beyond, their number is no float."""

LARGEST_CHOICES = 20_000
"""Most choices of indicators and contrasts that are listed."""

INDICATORS = -1

Choice = tuple[int, ...]
"""For every attribute `INDICATORS`, or the class whose contrasts are meant."""


@dataclass(frozen=True, eq=False)
class Component:
    """The contrasts of some attributes.

    Attributes
    ----------
    choice : tuple of int
        For every attribute the class whose contrasts are meant, or `INDICATORS`.
    rank : float
        How many they are: the product of the classes' sizes, less one each.
    joint : tuple of tuple of int
        Attributes whose contrasts are those of their product: all that is not constant over them.
    """

    choice: Choice
    rank: float
    joint: tuple[tuple[int, ...], ...] = ()

    @property
    def chosen(self) -> list[int]:
        """The attributes whose contrasts are meant."""
        return [axis for axis, k in enumerate(self.choice) if k != INDICATORS]

    @property
    def apart(self) -> Iterator[Choice]:
        """The choices that it is made of: any but none of the attributes that are joint."""
        parts = [
            [set(p) for n in range(len(axes)) for p in combinations(axes, n)] for axes in self.joint
        ]
        for left_out in product(*parts):
            without = set().union(*left_out)
            yield tuple(INDICATORS if i in without else k for i, k in enumerate(self.choice))


@dataclass(frozen=True, eq=False)
class Span:
    """What some orbits of queries see of some contrasts.

    Attributes
    ----------
    rows : numpy.ndarray of int
        The orbits of queries, ascending.
    columns : numpy.ndarray of int
        The orbits of their cells, ascending.
    groups : tuple of int
        The groups of queries.
    components : tuple of Component
        The contrasts.
    queries : QueryOperator
        ``(ν / N_r) M``: the queries on sums of orbits, over columns and rows.
    """

    rows: Index
    columns: Index
    groups: tuple[int, ...]
    components: tuple[Component, ...]
    queries: QueryOperator

    @property
    def rank(self) -> float:
        """ν: the number of contrasts."""
        return sum(component.rank for component in self.components)


@dataclass(frozen=True, eq=False)
class Part(Span):
    """One of the matrices that the dual falls into.

    Attributes
    ----------
    problem : Problem
        Its queries, and the targets of their orbits.
    cells : numpy.ndarray
        n_o: number of cells of each of its columns' orbits.
    copies : numpy.ndarray
        N_r: number of queries of each of its rows' orbits.
    """

    problem: Problem
    cells: Array
    copies: Array

    def inner(self, mechanism: str, p: Array, found: Any) -> Factorisation:
        """The inner solution at dual weights, not scaled, from the spectrum there.

        Raises
        ------
        SolveFailedError
            If the factors do not give the queries.
        """
        return inner_unscaled(mechanism, self.problem, p, found)

    def from_root(self, mechanism: str, root: Array) -> Factorisation:
        """The mechanism of a covariance, not scaled, from its square root; errors as of `inner`."""
        own = self.problem
        return unscaled_from_root(mechanism, own, own.basis, own.queries, root)

    def on_cells(self, mechanism: str) -> tuple[Factorisation, Array]:
        """Noise of unit variance on every cell, and the profile that the queries see of it."""
        shares = self.rank / self.cells
        cells = Explicit(sp.csr_array(sp.diags_array(np.sqrt(shares))))
        matrix = sp.csr_array(self.problem.workload.operator.matrix())
        queries = Explicit(sp.csr_array(matrix @ sp.diags_array(shares**-0.5)))
        return Factorisation(queries, cells, InBasis(cells, queries, 1.0)), shares

    def on_queries(self, deviation: float) -> Factorisation:
        """Noise of one variance on every query."""
        queries, own = identity(self.rows.size), self.problem.workload.operator
        roots = deviation * np.sqrt(self.rank / self.copies)
        coordinates = InBasis(own, queries, 1.0)
        return Factorisation(Scaled(queries, roots), Scaled(own, 1 / roots), coordinates)

    def inverse_trace(self, found: Any) -> float:
        """Trace of the pseudo-inverse of the Fisher information about its contrasts."""
        strategy = dense(found.right) * np.sqrt(self.cells / self.rank)
        return self.rank * float(np.square(np.linalg.pinv(strategy)).sum())


@dataclass(frozen=True, eq=False)
class Orbits:
    """A problem on the orbits of its cells and queries.

    Attributes
    ----------
    problem : Problem
        The whole.
    products : Products
        Its queries.
    attributes : tuple of Attribute
        The classes of values.
    targets : numpy.ndarray, shape (r,)
        The variance bound of every orbit of queries, group by group.
    cell_scale : numpy.ndarray, shape (n,)
        What the queries' columns are divided by; ones but for personal bounds on the profile.
    """

    problem: Problem
    products: Products
    attributes: tuple[Attribute, ...]
    targets: Array
    cell_scale: Array

    finest = 1e-11

    @cached_property
    def group_sizes(self) -> tuple[int, ...]:
        """Number of orbits of queries of each group."""
        return tuple(prod(self.group_shape(group)) for group in self.products.groups)

    def group_shape(self, group: Group) -> tuple[int, ...]:
        """Orbits along each of the group's axes."""
        return group.shape([attribute.sizes.size for attribute in self.attributes])

    @cached_property
    def cells(self) -> Array:
        """n_o: number of cells of each orbit, shape (n,)."""
        return _kron([attribute.sizes for attribute in self.attributes])

    @cached_property
    def copies(self) -> Array:
        """N_r: number of queries of each orbit, shape (r,)."""
        return np.concatenate([self._copies(group) for group in self.products.groups])

    @property
    def log_copies(self) -> Array:
        """Natural logarithms of the N_r."""
        return np.asarray(np.log(self.copies))

    @property
    def copy_shares(self) -> Array:
        """N_r over the largest of them."""
        return np.asarray(self.copies / self.copies.max())

    @property
    def cell_shares(self) -> Array:
        """n_o over the largest of them."""
        return np.asarray(self.cells / self.cells.max())

    def _copies(self, group: Group) -> Array:
        sizes = [
            self.attributes[axis].sizes if axis in group.kept else np.ones(rows)
            for axis, rows in zip(group.axes, self.group_shape(group), strict=True)
        ]
        return _kron(sizes)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The matrices of the dual."""
        alike: dict[tuple[Choice, tuple[int, ...]], list[Component]] = {}
        for choice in choices(self.products, self.attributes):
            seen = tuple(at for at, g in enumerate(self.products.groups) if _sees(g, choice))
            component = Component(choice, self._rank(choice))
            alike.setdefault((self._selection(choice), seen), []).append(component)
        return tuple(
            self._part(selection, seen, tuple(found)) for (selection, seen), found in alike.items()
        )

    @property
    def matrix_count(self) -> int:
        """How many they are."""
        return len(self.parts)

    def spans(self, parts: Sequence[Any]) -> Iterator[tuple[Span, Factorisation]]:
        """What each part sees, and its mechanism."""
        return zip(self.parts, parts, strict=True)

    def optimum(self, *, start: Weights | None = None, **limits: Any) -> Progress[BlocksPoint]:
        """The least Δ² that meets every target (`solvers.dual.programs.optimum`)."""
        return dual.optimum(self.blocks, start=start or self.start, **limits)

    def hybrid(self, weight: float, *, start: Weights, **limits: Any) -> Progress[BlocksPoint]:
        """The least objective with a weight on the total variance (`dual.hybrid`)."""
        return dual.hybrid(self.blocks, weight * self.targets * self.copies, start=start, **limits)

    def least_total_error(self, weights: Array, **limits: Any) -> Progress[BlocksPoint]:
        """The least weighted sum of variances over targets (`dual.least_total_error`)."""
        return dual.least_total_error(self.blocks, weights, start=self.start.p, **limits)

    def at(self, weights: Weights) -> BlocksPoint:
        """The dual at these weights."""
        return self.blocks.at(np.concatenate([weights.p, weights.q]))

    @cached_property
    def blocks(self) -> MatrixBlocks:
        """The matrices as the optimiser takes them."""
        found = tuple(Block(part.problem.factors, part.rows, part.columns) for part in self.parts)
        return MatrixBlocks(found, self.cells.size, np.zeros(self.targets.size), free_queries=True)

    @cached_property
    def ordered_axes(self) -> list[int]:
        """The attributes over which some query is neither total nor identity."""
        matrices = (group.matrices for group in self.products.groups)
        return sorted({axis for of_group in matrices for axis in of_group})

    @property
    def ordered(self) -> Problem:
        """The queries over the cells of the ordered attributes alone, for noise in every copy.

        A query that sums s copies of such cells has the noise of s of them: its target is
        divided by s. Of queries that differ in their copies alone the least target counts.
        """
        operators: list[QueryOperator] = []
        targets: list[Array] = []
        starts = np.cumsum([0, *self.group_sizes])
        for at, group in enumerate(self.products.groups):
            axes = self.ordered_axes
            factors = [self._ordered_factor(group, axis) for axis in axes]
            shape = self.group_shape(group)
            others = tuple(i for i, axis in enumerate(group.axes) if axis not in axes)
            least = self.targets[starts[at] : starts[at + 1]].reshape(shape).min(axis=others)
            summed = [a.of.size for i, a in enumerate(self.attributes) if i not in group.kept]
            ordered = [self.attributes[i].of.size for i in axes if i not in group.kept]
            targets.append(least.ravel() * (prod(ordered) / prod(summed)))
            operators.append(
                self._single(factors[0]) if len(factors) == 1 else Kronecker((tuple(factors),))
            )
        whole = Stacked(tuple(operators))
        return Problem(Workload("ordered cells", whole), np.concatenate(targets))

    def _ordered_factor(self, group: Group, axis: int) -> Matrix:
        size = self.attributes[axis].of.size
        if axis in group.matrices:
            return group.matrices[axis]
        return sp.eye_array(size, format="csr") if axis in group.kept else np.ones((1, size))

    @property
    def ordered_first(self) -> Index:
        """The number of each orbit if the ordered attributes came before the others."""
        shape = [attribute.sizes.size for attribute in self.attributes]
        order = [*self.ordered_axes]
        order += [axis for axis in range(len(shape)) if axis not in order]
        numbers = np.arange(prod(shape)).reshape([shape[axis] for axis in order])
        return numbers.transpose(np.argsort(order)).ravel()

    @property
    def start(self) -> Weights:
        """Equal weights of all cells, and of all orbits of queries."""
        r = self.targets.size
        return Weights(self.cells / self.cells.sum(), np.full(r, 1 / r))

    def with_columns_divided(self, divisor: Array) -> "Orbits":
        """The same with the queries' column of every orbit divided by a number."""
        return replace(self, cell_scale=self.cell_scale * divisor)

    def per_query(self, values: Array) -> Array:
        """Of all queries, (m,), from those of their orbits.

        Where the queries are not listed the largest for each target.
        """
        parts = np.split(values, np.cumsum(self.group_sizes)[:-1])
        pairs = list(zip(self.products.groups, parts, strict=True))
        if not self.problem.workload.listed:
            if self.problem.targets.size == len(parts):
                return np.array([part.max() for part in parts])
            return np.concatenate([self._largest(group, part) for group, part in pairs])
        return np.concatenate([self._spread(group, part).ravel() for group, part in pairs])

    def _largest(self, group: Group, values: Array) -> Array:
        """Of every row of a group, of all orbits of the attributes that it keeps."""
        kept = tuple(i for i, axis in enumerate(group.axes) if axis in group.kept)
        largest: Array = values.reshape(self.group_shape(group)).max(axis=kept)
        return largest.ravel()

    def _spread(self, group: Group, values: Array) -> Array:
        shape = self.group_shape(group)
        at = [
            self.attributes[axis].of if axis in group.kept else np.arange(rows)
            for axis, rows in zip(group.axes, shape, strict=True)
        ]
        return values.reshape(shape)[np.ix_(*at)]

    def per_cell(self, values: Array) -> Array:
        """Of all cells, (d,), from those of their orbits; these themselves above 10^7 cells."""
        if self.problem.workload.d > LARGEST_LISTED:
            return values
        varied = [attribute.of for attribute in self.attributes if attribute.of.size > 1]
        shape = [int(of.max()) + 1 for of in varied]
        return values.reshape(shape)[np.ix_(*varied)].ravel()

    def of_cells(self, values: Array) -> Array | None:
        """Of the orbits of cells, from one number for each of them or for each cell.

        None if the cells of an orbit differ.
        """
        if values.size == self.cells.size:
            return values
        varied = [attribute for attribute in self.attributes if attribute.of.size > 1]
        first = np.ix_(*(attribute.first for attribute in varied))
        found = values.reshape([attribute.of.size for attribute in varied])[first].ravel()
        return found if np.array_equal(self.per_cell(found), values) else None

    def weights(self, p: Array, q: Array) -> Weights:
        """Of all cells and queries, if there are at most 10^7 of either; of orbits otherwise."""
        workload = self.problem.workload
        if not workload.listed or workload.d > LARGEST_LISTED:
            return Weights(p, q)
        return Weights(self.per_cell(p / self.cells), self.per_query(q / self.copies))

    def nearest(self, given: Weights) -> Weights:
        """The weights of all orbits, from those of a neighbour of any size."""
        workload = self.problem.workload
        if given.p.size == workload.d and given.q.size == workload.target_count == workload.m:
            return Weights(self._cell_sums(given.p), self._query_sums(given.q))
        return given.resized(self.cells.size, self.targets.size)

    def _cell_sums(self, p: Array) -> Array:
        numbers = self.per_cell(np.arange(self.cells.size, dtype=np.float64)).astype(np.intp)
        return np.bincount(numbers, p, minlength=self.cells.size).astype(np.float64)

    def _query_sums(self, q: Array) -> Array:
        numbers = self.per_query(np.arange(self.targets.size, dtype=np.float64)).astype(np.intp)
        return np.bincount(numbers, q, minlength=self.targets.size).astype(np.float64)

    def _rank(self, choice: Choice) -> float:
        pairs = zip(self.attributes, choice, strict=True)
        return float(prod(int(a.sizes[k]) - 1 for a, k in pairs if k != INDICATORS))

    def _selection(self, choice: Choice) -> Choice:
        """The choice as far as it decides about orbits: an attribute of one class has one."""
        return tuple(
            INDICATORS if attribute.sizes.size == 1 else k
            for attribute, k in zip(self.attributes, choice, strict=True)
        )

    def _part(
        self, selection: Choice, seen: tuple[int, ...], components: tuple[Component, ...]
    ) -> Part:
        rank = sum(component.rank for component in components)
        columns = _chosen([a.sizes.size for a in self.attributes], selection)
        starts = np.cumsum([0, *self.group_sizes])
        operators: list[QueryOperator] = []
        rows: list[Index] = []
        for at in seen:
            group = self.products.groups[at]
            along = [selection[axis] for axis in group.axes]
            own = starts[at] + _chosen(self.group_shape(group), along)
            operators.append(Scaled(self._operator(group, selection), rank / self.copies[own]))
            rows.append(own)
        numbers = np.concatenate(rows)
        whole = operators[0] if len(operators) == 1 else Stacked(tuple(operators))
        scale = self.cell_scale[columns]
        if np.any(scale != 1):
            whole = Explicit(_dense(whole.matrix()) / scale)
        problem = Problem(Workload("orbits", whole), self.targets[numbers])
        cells, copies = self.cells[columns], self.copies[numbers]
        return Part(numbers, columns, seen, components, whole, problem, cells, copies)

    def _operator(self, group: Group, selection: Choice) -> QueryOperator:
        """The group's queries on sums of orbits."""
        factors: list[Matrix] = []
        for axis, (attribute, k) in enumerate(zip(self.attributes, selection, strict=True)):
            classes = attribute.sizes.size
            if axis in group.matrices:
                factors.append(group.matrices[axis])
            elif k == INDICATORS and classes > 1:
                kept = axis in group.kept
                factors.append(
                    sp.eye_array(classes, format="csr") if kept else np.ones((1, classes))
                )
        if len(factors) > 1:
            return Kronecker((tuple(factors),))
        return self._single(factors[0]) if factors else Explicit(np.ones((1, 1)))

    @cached_property
    def _operators(self) -> dict[int, QueryOperator]:
        return {}

    def _single(self, matrix: Matrix) -> QueryOperator:
        found = self._operators.get(id(matrix))
        if found is None:
            found = cumulative(matrix) or Explicit(matrix)
            self._operators[id(matrix)] = found
        return found


def orbits(problem: Problem) -> Orbits | None:
    """The problem on its orbits; None where its queries are no products."""
    found = symmetry(problem)
    return None if found is None else found.orbits


@dataclass(frozen=True, eq=False)
class Symmetry:
    """What is alike in a problem, nothing of its size built yet.

    Attributes
    ----------
    problem : Problem
        The whole.
    products : Products
        Its queries.
    attributes : tuple of Attribute
        The classes of values.
    targets : list of numpy.ndarray
        Of each group, by axes.
    """

    problem: Problem
    products: Products
    attributes: tuple[Attribute, ...]
    targets: list[Array]

    @property
    def cells(self) -> int:
        """Number of orbits of cells."""
        return prod(attribute.sizes.size for attribute in self.attributes)

    @property
    def coordinates(self) -> int:
        """The most of them, or of their combinations, that the queries see (`solvers.unions`)."""
        shape = [attribute.sizes.size for attribute in self.attributes]
        seen = sum(prod(shape[axis] for axis in group.axes) for group in self.products.groups)
        return min(seen, self.cells)

    @property
    def orbits(self) -> Orbits:
        """The problem on them."""
        groups = zip(self.products.groups, self.targets, strict=True)
        targets = np.concatenate([_of_orbits(g, self.attributes, t) for g, t in groups])
        ones = np.broadcast_to(1.0, self.cells)
        return Orbits(self.problem, self.products, self.attributes, targets, ones)

    @property
    def told_apart(self) -> dict[int, list[int]]:
        """By group the attributes whose values its targets alone tell apart."""
        found: dict[int, list[int]] = {}
        groups = zip(self.products.groups, self.targets, strict=True)
        for at, (group, values) in enumerate(groups):
            for i, axis in enumerate(group.axes):
                ordered = any(axis in other.matrices for other in self.products.groups)
                if axis in group.kept and not ordered and np.ptp(values, axis=i).any():
                    found.setdefault(at, []).append(axis)
        return found


def symmetry(problem: Problem) -> Symmetry | None:
    """What is alike in a problem; None where its queries are no products."""
    found = products(problem.workload.operator)
    if found is None:
        return None
    targets = found.targets(problem.workload, problem.targets)
    return Symmetry(problem, found, found.attributes(targets), targets)


def _of_orbits(group: Group, attributes: Sequence[Attribute], targets: Array) -> Array:
    """One target for each orbit of a group's queries."""
    if all(targets.shape[i] == 1 for i, axis in enumerate(group.axes) if axis in group.kept):
        shape = group.shape([attribute.sizes.size for attribute in attributes])
        return np.broadcast_to(targets, shape).ravel()
    at = [
        attributes[axis].first if axis in group.kept else np.arange(targets.shape[i])
        for i, axis in enumerate(group.axes)
    ]
    return targets[np.ix_(*at)].ravel()


def choices(found: Products, attributes: Sequence[Attribute]) -> Iterator[Choice]:
    """Every choice of indicators and contrasts that some group of queries sees."""
    listed: dict[Choice, None] = {}
    for group in found.groups:
        options = [
            [INDICATORS, *_with_contrasts(attribute)] if axis in group.kept else [INDICATORS]
            for axis, attribute in enumerate(attributes)
        ]
        listed.update(dict.fromkeys(product(*options)))
    return iter(listed)


def choice_count(found: Products, attributes: Sequence[Attribute]) -> int:
    """At most so many choices there are."""
    options = [1 + len(_with_contrasts(attribute)) for attribute in attributes]
    return sum(prod(options[axis] for axis in group.kept) for group in found.groups)


def _with_contrasts(attribute: Attribute) -> list[int]:
    return [int(k) for k in np.flatnonzero(attribute.sizes > 1)]


def _sees(group: Group, choice: Choice) -> bool:
    return all(k == INDICATORS or axis in group.kept for axis, k in enumerate(choice))


def _chosen(shape: Sequence[int], selection: Sequence[int]) -> Index:
    """Numbers of the entries whose coordinates are those of the selection."""
    at = [
        np.arange(size) if k == INDICATORS else np.array([k])
        for size, k in zip(shape, selection, strict=True)
    ]
    numbers = np.zeros(1, dtype=np.intp)
    for size, own in zip(shape, at, strict=True):
        numbers = (numbers[:, None] * size + own).ravel()
    return numbers


def _kron(vectors: Sequence[Array | Index]) -> Array:
    total = np.ones(1)
    for vector in vectors:
        total = np.asarray(np.kron(total, vector), dtype=np.float64)
    return total


def _dense(matrix: Matrix) -> Array:
    return matrix.toarray() if sp.issparse(matrix) else matrix
