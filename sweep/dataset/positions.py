"""The position of every cell in its dataset, and the cells that it is compared with."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import solvers
from sweep.experiment.canonical import Scalar
from sweep.grid.cells import Cell
from sweep.grid.grids import Grid, positions_of
from sweep.store.keys import Keys, texts
from workloads.family import Kind

Column = NDArray[Any]
"""One value for every cell of a grid, in the order of its cells."""


@dataclass(frozen=True, eq=False)
class Positions:
    """The positions of a grid's cells, each kind computed when it is first asked for.

    ``reference`` is the label of the mechanism that the variance ratios refer to.
    """

    grid: Grid
    reference: str

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The names of the axes."""
        return tuple(axis.name for axis in self.grid.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return tuple(len(axis.values) for axis in self.grid.axes)

    @property
    def kind(self) -> Kind:
        """The kind of its workloads, by that of its first cell."""
        return self.grid.cells[0].workload.kind

    @property
    def names(self) -> frozenset[str]:
        """The names of all coordinates."""
        companions = (name for axis in self.grid.axes for name in axis.companions)
        return frozenset((*self.dimensions, *companions, *self.grid.scalars))

    @cached_property
    def coordinates(self) -> dict[str, tuple[tuple[str, ...], Column]]:
        """Dimensions and values of every coordinate."""
        coords: dict[str, tuple[tuple[str, ...], Column]] = {}
        for axis in self.grid.axes:
            coords[axis.name] = ((axis.name,), labels(axis.values))
            for name, values in axis.companions.items():
                coords[name] = ((axis.name,), labels(values))
        for name, value in self.grid.scalars.items():
            coords[name] = ((), labels([value]).reshape(()))
        return coords

    @property
    def ids(self) -> Keys:
        """Every cell's id."""
        return self.grid.cells.ids

    @cached_property
    def problems(self) -> tuple[list[str], NDArray[np.int32]]:
        """The keys of all problems, and the place of every cell's among them."""
        keys, number = self.grid.cells.problems
        return texts(keys), number

    @cached_property
    def reference_cells(self) -> NDArray[np.int32]:
        """For every cell, the number of the reference mechanism's cell of its problem, or -1."""
        return self._partner(self._labelled(lambda cell: self.reference))

    @cached_property
    def baseline_cells(self) -> NDArray[np.int32]:
        """For every cell, the number of the cell of least total error of its problem, or -1.

        A mechanism under its own name comes before one with options under another label.
        """
        known = solvers.all_mechanisms()
        least = self.grid.cells.by_family(
            lambda cell: (
                cell.mechanism.name in known and known[cell.mechanism.name].least_total_error
            )
        )
        own = self._labelled(lambda cell: cell.mechanism.name)
        return np.where((found := self._partner(least & own)) < 0, self._partner(least), found)

    def _labelled(self, label: Callable[[Cell], str]) -> NDArray[np.bool_]:
        """Which cells bear this label along ``mechanism``."""
        return self.grid.cells.by_family(lambda cell: cell.coords.get("mechanism") == label(cell))

    def scattered(self, column: Column, fill: Any) -> Column:
        """The column on the grid's axes, its trailing dimensions kept; ``fill`` without a cell."""
        if self._positions is None:
            return column.reshape(*self.shape, *column.shape[1:])
        flat = np.full((math.prod(self.shape), *column.shape[1:]), fill, dtype=column.dtype)
        flat[self._positions] = column
        return flat.reshape(*self.shape, *column.shape[1:])

    @cached_property
    def _positions(self) -> NDArray[np.int64] | None:
        """The place of every cell on the grid; None if they are all there, one after the other."""
        positions = positions_of(self.grid.cells, self.grid.axes)
        full = np.arange(math.prod(self.shape)) if len(positions) == math.prod(self.shape) else ()
        return None if np.array_equal(positions, full) else positions

    @cached_property
    def _compared_by(self) -> NDArray[np.int64]:
        """Equal for cells that may be compared: of one problem and one replicate."""
        replicates = self.grid.cells.replicate
        pairs = self.problems[1] * (replicates.max(initial=0) + np.int64(1)) + replicates
        return np.unique(pairs, return_inverse=True)[1]

    def _partner(self, chosen: NDArray[np.bool_]) -> NDArray[np.int32]:
        """For every cell, the number of the first chosen one that it is compared with, or -1.

        Of its own replicate, or else of its problem: a block may solve that once.
        """
        own = _first(chosen, self._compared_by)
        return np.where(own < 0, _first(chosen, self.problems[1]), own)


def _first(chosen: NDArray[np.bool_], of: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
    """For every cell, the number of the first chosen one of the same class, or -1."""
    first = np.full(of.max(initial=-1) + 1, -1, dtype=np.int32)
    numbers = np.flatnonzero(chosen)[::-1]
    first[of[numbers]] = numbers
    found: NDArray[np.int32] = first[of]
    return found


def labels(values: Sequence[Scalar]) -> Column:
    """The values as a coordinate: numbers of one type, or texts."""
    if isinstance(values, range):
        return np.arange(values.start, values.stop)
    kinds = {type(value) for value in values}
    if kinds <= {int, float} or kinds == {bool}:
        labels = np.array(values)
        if labels.dtype != object:
            return labels
    return np.array([str(value) for value in values], dtype=np.str_)
