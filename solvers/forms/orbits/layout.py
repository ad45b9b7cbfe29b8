"""The orbits of cells and queries, and the conversion of values between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from solvers.dual.programs import Weights
from solvers.forms.orbits.products import Attribute, Group, Index, Products
from solvers.problem import Problem
from workloads.operators import Array
from workloads.workload import LARGEST_LISTED


@dataclass(frozen=True, eq=False)
class Layout:
    """The orbits of equivalent cells and of equivalent queries."""

    problem: Problem
    products: Products
    attributes: tuple[Attribute, ...]

    @cached_property
    def cells(self) -> Array:
        """n_o: number of cells of each orbit, shape (n,)."""
        return _kron([attribute.sizes for attribute in self.attributes])

    @cached_property
    def copies(self) -> Array:
        """N_r: number of queries of each orbit, shape (r,), group by group."""
        copies = []
        for group in self.products.groups:
            pairs = zip(group.axes, self.group_shape(group), strict=True)
            sizes = [
                self.attributes[axis].sizes if axis in group.kept else np.ones(rows)
                for axis, rows in pairs
            ]
            copies.append(_kron(sizes))
        return np.concatenate(copies)

    @property
    def log_copies(self) -> Array:
        """Natural logarithms of the N_r."""
        return np.asarray(np.log(self.copies))

    @property
    def copy_shares(self) -> Array:
        """Every N_r divided by the largest N_r."""
        return np.asarray(self.copies / self.copies.max())

    @property
    def cell_shares(self) -> Array:
        """Every n_o divided by the largest n_o."""
        return np.asarray(self.cells / self.cells.max())

    @property
    def cell_shape(self) -> list[int]:
        """Number of classes of each attribute; the orbits of cells are products of classes."""
        return [attribute.sizes.size for attribute in self.attributes]

    @cached_property
    def group_sizes(self) -> tuple[int, ...]:
        """Number of orbits of queries of each group."""
        return tuple(prod(self.group_shape(group)) for group in self.products.groups)

    def group_shape(self, group: Group) -> tuple[int, ...]:
        """Number of orbits along each of the group's axes."""
        return group.shape(self.cell_shape)

    @property
    def ordered_axes(self) -> list[int]:
        """The attributes over which some query is neither total nor identity."""
        return self.products.ordered_axes

    def per_query(self, values: Array) -> Array:
        """Values of all queries, (m,), from those of their orbits.

        If the queries are not listed, the largest value for each target.
        """
        if self.problem.workload.listed:
            return values[self.orbit_of_query]
        parts = np.split(values, np.cumsum(self.group_sizes)[:-1])
        if self.problem.targets.size == len(parts):
            return np.array([part.max() for part in parts])
        largest = []
        for group, part in zip(self.products.groups, parts, strict=True):
            kept = tuple(i for i, axis in enumerate(group.axes) if axis in group.kept)
            largest.append(part.reshape(self.group_shape(group)).max(axis=kept).ravel())
        return np.concatenate(largest)

    def per_cell(self, values: Array) -> Array:
        """Values of all cells, (d,), from those of orbits; unchanged above 10^7 cells."""
        return values if self.problem.workload.d > LARGEST_LISTED else values[self.orbit_of_cell]

    def of_cells(self, values: Array) -> Array | None:
        """Values of the orbits of cells, given one for each orbit or one for each cell.

        None if cells of the same orbit have different values.
        """
        if values.size == self.cells.size:
            return values
        orbit, sums = self.orbit_of_cell, np.empty(self.cells.size)
        sums[orbit] = values
        return sums if np.array_equal(sums[orbit], values) else None

    def weights(self, p: Array, q: Array) -> Weights:
        """Weights of all cells and queries; weights of orbits if there are more than 10^7."""
        workload = self.problem.workload
        if not workload.listed or workload.d > LARGEST_LISTED:
            return Weights(p, q)
        return Weights(self.per_cell(p / self.cells), self.per_query(q / self.copies))

    def nearest(self, given: Weights) -> Weights:
        """Weights of all orbits, derived from a similar problem's weights, resized if needed."""
        workload, n, r = self.problem.workload, self.cells.size, self.copies.size
        if given.p.size != workload.d or not given.q.size == workload.target_count == workload.m:
            return given.resized(n, r)
        p = np.bincount(self.orbit_of_cell, given.p, minlength=n)
        q = np.bincount(self.orbit_of_query, given.q, minlength=r)
        return Weights(p.astype(np.float64), q.astype(np.float64))

    @property
    def orbit_of_query(self) -> Index:
        """The orbit of every query, shape (m,)."""
        first = np.cumsum([0, *self.group_sizes])
        orbits = []
        for group, start, size in zip(self.products.groups, first, self.group_sizes, strict=False):
            shape = self.group_shape(group)
            numbers = start + np.arange(size).reshape(shape)
            along = [
                self.attributes[axis].of if axis in group.kept else np.arange(rows)
                for axis, rows in zip(group.axes, shape, strict=True)
            ]
            orbits.append(numbers[np.ix_(*along)].ravel())
        return np.concatenate(orbits)

    @property
    def orbit_of_cell(self) -> Index:
        """The orbit of every cell, shape (d,)."""
        orbits = np.zeros(1, dtype=np.intp)
        for attribute in self.attributes:
            orbits = (orbits[:, None] * attribute.sizes.size + attribute.of).ravel()
        return orbits


def _kron(vectors: Sequence[Array | Index]) -> Array:
    total = np.ones(1)
    for vector in vectors:
        total = np.asarray(np.kron(total, vector), dtype=np.float64)
    return total
