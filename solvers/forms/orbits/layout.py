"""How the cells and the queries of a union of products are divided into orbits."""

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from solvers.forms.orbits.products import Attribute, Component, Group, Index, Products
from workloads.operators import Array
from workloads.operators.protocol import kron


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
        """Number of orbits of queries along each of the group's axes."""
        return group.shape(self.cell_shape)

    @cached_property
    def starts(self) -> Index:
        """The index of each group's first orbit of queries, followed by the number of orbits r."""
        sizes = [prod(self.group_shape(group)) for group in self.products.groups]
        return np.cumsum([0, *sizes])

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
