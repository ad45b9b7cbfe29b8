"""Queries as a union of products, and the orbits of cells and of queries.

Also the classes of interchangeable values, of which orbits are products, and their contrasts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from math import prod
from operator import is_

import numpy as np
import scipy
from numpy.typing import NDArray

from workloads import Workload
from workloads.operators import (
    Array,
    Explicit,
    Kronecker,
    Marginals,
    Matrix,
    QueryOperator,
    cumulative,
    kind_of,
)
from workloads.operators.protocol import kron

Index = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Group:
    """The queries of one Kronecker product.

    Attributes
    ----------
    kept : frozenset of int
        The attributes whose factor is the identity: each of their values has its own queries.
    matrices : Mapping[int, Matrix]
        The factors that are neither identities nor totals, by attribute.
    """

    kept: frozenset[int]
    matrices: Mapping[int, Matrix]

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """The attributes whose factor is not the total, ascending."""
        return tuple(sorted(self.kept | set(self.matrices)))

    def shape(self, values: Sequence[int]) -> tuple[int, ...]:
        """Return each factor's number of rows along ``axes``; ``values`` are all sizes."""
        return tuple(
            values[axis] if axis in self.kept else int(self.matrices[axis].shape[0])
            for axis in self.axes
        )

    def factor(self, axis: int, size: int) -> Matrix:
        """Return the factor of attribute ``axis``, with a column for each of ``size`` classes."""
        if axis in self.matrices:
            return self.matrices[axis]
        return _identity(size) if axis in self.kept else _total(size)


@dataclass(frozen=True, eq=False)
class Attribute:
    """An attribute, whose values are divided into classes of interchangeable values.

    Attributes
    ----------
    of : numpy.ndarray of int
        The index of the class of every value, counted from 0.
    """

    of: Index

    @cached_property
    def sizes(self) -> Array:
        """Number of values of each class."""
        return np.bincount(self.of).astype(np.float64)

    @cached_property
    def first(self) -> Index:
        """Index of the first value in each class."""
        return np.unique(self.of, return_index=True)[1]

    @cached_property
    def with_contrasts(self) -> list[int]:
        """Indices of the classes that have contrasts: those with more than one value."""
        return [int(k) for k in np.flatnonzero(self.sizes > 1)]

    def positions(self, number: int) -> Index:
        """Return each value's position within the class ``number``; -1 outside it."""
        inside = self.of == number
        return np.where(inside, np.cumsum(inside) - 1, -1)


@dataclass(frozen=True, eq=False)
class Products:
    """Queries as a union of Kronecker products, each described by a `Group`.

    Attributes
    ----------
    sizes : tuple of int
        Number of values of each attribute.
    groups : tuple of Group
        One group for each product, in the order of the queries.
    """

    sizes: tuple[int, ...]
    groups: tuple[Group, ...]

    @cached_property
    def ordered_axes(self) -> list[int]:
        """The attributes for which some product's factor is neither the total nor the identity."""
        return sorted({axis for group in self.groups for axis in group.matrices})

    def product(self, factors: Sequence[Matrix]) -> QueryOperator:
        """Multiply factors (Kronecker) and cache the product; a single factor keeps its structure.

        The same matrix objects always give the same operator object.
        """
        for cached, operator in self._operators:
            if len(cached) == len(factors) and all(map(is_, cached, factors)):
                return operator
        self._operators.append((tuple(factors), _structured(factors)))
        return self._operators[-1][1]

    @cached_property
    def _operators(self) -> list[tuple[Sequence[Matrix], QueryOperator]]:
        return []

    def targets(self, workload: Workload, targets: Array) -> list[Array]:
        """Split targets into one array for each group, with an axis for each of `Group.axes`.

        An axis may have length 1; the targets are then equal along it.
        """
        if workload.listed:
            shapes = [group.shape(self.sizes) for group in self.groups]
        elif targets.size == len(self.groups):
            shapes = [(1,) * len(group.axes) for group in self.groups]
        else:
            shapes = [group.shape([1] * len(self.sizes)) for group in self.groups]
        ends = np.cumsum([prod(shape) for shape in shapes])[:-1]
        parts = np.split(targets, ends)
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def attributes(self, targets: Sequence[Array]) -> tuple[Attribute, ...]:
        """Return the attributes; values that no factor or target distinguishes form a class."""
        return tuple(Attribute(self._classes(j, targets)) for j in range(len(self.sizes)))

    def _classes(self, attribute: int, targets: Sequence[Array]) -> Index:
        size = self.sizes[attribute]
        if attribute in self.ordered_axes:
            return np.arange(size)
        classes = np.zeros(size, dtype=np.intp)
        for group, values in zip(self.groups, targets, strict=True):
            if attribute in group.kept:
                axis = group.axes.index(attribute)
                if not np.all(values == values.take([0], axis)):
                    rows = np.moveaxis(values, axis, 0).reshape(size, -1)
                    codes = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
                    both = classes * (codes.max() + 1) + codes
                    classes = np.unique(both, return_inverse=True)[1]
        return classes


@cache
def _identity(size: int) -> Matrix:
    return scipy.sparse.eye_array(size, format="csr")


@cache
def _total(size: int) -> Matrix:
    return np.ones((1, size))


def _structured(factors: Sequence[Matrix]) -> QueryOperator:
    if len(factors) > 1:
        return Kronecker((tuple(factors),))
    only = factors[0] if factors else _total(1)
    return cumulative(only) or Explicit(only)


def products(operator: Kronecker | Marginals) -> Products:
    """Convert an operator to a union of products."""
    if isinstance(operator, Marginals):
        return Products(operator.sizes, tuple(Group(frozenset(s), {}) for s in operator.subsets))
    known: dict[int, str] = {}
    groups = []
    for term in operator.terms:
        kinds = [known.setdefault(id(factor), kind_of(factor)) for factor in term]
        kept = frozenset(j for j, kind in enumerate(kinds) if kind == "identity")
        matrices = {j: term[j] for j, kind in enumerate(kinds) if kind == "matrix"}
        groups.append(Group(kept, matrices))
    return Products(tuple(int(factor.shape[1]) for factor in operator.terms[0]), tuple(groups))


INDICATORS = -1

Choice = tuple[int, ...]
"""For every attribute, the index of the class whose contrasts are chosen, or `INDICATORS`."""


@dataclass(frozen=True, eq=False)
class Component:
    """The contrasts that belong to one choice.

    Attributes
    ----------
    choice : tuple of int
        For every attribute, the index of the class whose contrasts are chosen, or `INDICATORS`.
    rank : float
        Number of contrasts: the product of the classes' sizes, each minus one.
    joint : tuple of tuple of int
        Sets of attributes that are merged into one. The contrasts of a merged attribute are the
        functions of its combinations of values that sum to zero.
    """

    choice: Choice
    rank: float
    joint: tuple[tuple[int, ...], ...] = ()

    @property
    def chosen(self) -> list[int]:
        """The attributes for which the choice is a class rather than `INDICATORS`."""
        return [axis for axis, k in enumerate(self.choice) if k != INDICATORS]


def components(products: Products, attributes: Sequence[Attribute]) -> Iterator[Component]:
    """Yield a component for every choice on which at least one group of queries depends."""
    choices: dict[Choice, None] = {}
    for group in products.groups:
        options = [
            [INDICATORS, *attribute.with_contrasts] if axis in group.kept else [INDICATORS]
            for axis, attribute in enumerate(attributes)
        ]
        choices.update(dict.fromkeys(product(*options)))
    for choice in choices:
        pairs = zip(attributes, choice, strict=True)
        ranks = (int(attribute.sizes[k]) - 1 for attribute, k in pairs if k != INDICATORS)
        yield Component(choice, float(prod(ranks)))


def choice_count(products: Products, attributes: Sequence[Attribute]) -> int:
    """Return an upper bound on the number of components that `components` yields."""
    options = [1 + len(attribute.with_contrasts) for attribute in attributes]
    return sum(prod(options[axis] for axis in group.kept) for group in products.groups)


@dataclass(frozen=True, eq=False)
class Layout:
    """The orbits of cells and of queries.

    Attributes
    ----------
    products : Products
        The queries as a union of products.
    attributes : tuple of Attribute
        The classes of values of each attribute; the orbits of cells are products of classes.
    """

    products: Products
    attributes: tuple[Attribute, ...]

    @cached_property
    def cell_shape(self) -> list[int]:
        """Number of classes of each attribute."""
        return [attribute.sizes.size for attribute in self.attributes]

    @cached_property
    def cells(self) -> Array:
        """n_o: number of cells of each orbit, shape (n,)."""
        return kron([attribute.sizes for attribute in self.attributes])

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

    def group_shape(self, group: Group) -> tuple[int, ...]:
        """Return the number of orbits of queries along each of the group's axes."""
        return group.shape(self.cell_shape)

    @cached_property
    def starts(self) -> Index:
        """The index of each group's first orbit of queries, followed by the number of orbits r."""
        sizes = [prod(self.group_shape(group)) for group in self.products.groups]
        return np.cumsum([0, *sizes])

    @cached_property
    def first_queries(self) -> Index:
        """The index of each group's first query, followed by the number of queries m."""
        sizes = [prod(group.shape(self.products.sizes)) for group in self.products.groups]
        return np.cumsum([0, *sizes])

    def orbits_along(self, group: Group) -> list[Index]:
        """For each of the group's axes, the index of the orbit of every row of its factor."""
        return [
            self.attributes[axis].of if axis in group.kept else np.arange(rows)
            for axis, rows in zip(group.axes, self.group_shape(group), strict=True)
        ]

    @property
    def orbit_of_query(self) -> Index:
        """The index of the orbit of every query, shape (m,)."""
        orbits = []
        for group, start in zip(self.products.groups, self.starts, strict=False):
            shape = self.group_shape(group)
            numbers = start + np.arange(prod(shape)).reshape(shape)
            orbits.append(numbers[np.ix_(*self.orbits_along(group))].ravel())
        return np.concatenate(orbits)

    @property
    def orbit_of_cell(self) -> Index:
        """The index of the orbit of every cell, shape (d,)."""
        numbers = np.arange(prod(self.cell_shape)).reshape(self.cell_shape)
        return numbers[np.ix_(*(attribute.of for attribute in self.attributes))].ravel()


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
