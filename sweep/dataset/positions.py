"""The position of every cell in its dataset, and the cells that it is compared with."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import solvers
from sweep.experiment.canonical import Scalar
from sweep.grid.cells import Cell, Grid
from workloads.family import Kind

Column = NDArray[Any]
"""One value for every cell of a grid, in the order of its cells."""


@dataclass(frozen=True, eq=False)
class Positions:
    """The positions of a grid's cells, computed once and used for every version of the dataset.

    Attributes
    ----------
    grid : Grid
        The axes and the cells.
    reference : str
        The label of the mechanism that the variance ratios refer to.
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
        found: dict[str, tuple[tuple[str, ...], Column]] = {}
        for axis in self.grid.axes:
            found[axis.name] = ((axis.name,), labels(axis.values))
            for name, values in axis.companions.items():
                found[name] = ((axis.name,), labels(values))
        for name, value in self.grid.scalars.items():
            found[name] = ((), labels([value]).reshape(()))
        return found

    @cached_property
    def ids(self) -> list[str]:
        """Every cell's id."""
        return [cell.id for cell in self.grid.cells]

    @cached_property
    def problems(self) -> list[str]:
        """Every cell's problem key."""
        return [cell.problem_key for cell in self.grid.cells]

    @cached_property
    def solves(self) -> list[str]:
        """Every cell's solve key."""
        return [cell.solve_key for cell in self.grid.cells]

    @cached_property
    def reference_cells(self) -> NDArray[np.int64]:
        """For every cell, the number of the reference mechanism's cell of its problem, or -1."""
        return self._partner(
            number
            for number, cell in enumerate(self.grid.cells)
            if cell.coords.get("mechanism") == self.reference
        )

    @cached_property
    def baseline_cells(self) -> NDArray[np.int64]:
        """For every cell, the number of the cell of least total error of its problem, or -1.

        A mechanism under its own name comes before one with options under another label.
        """
        cells = self.grid.cells
        known = solvers.all_mechanisms()
        found = [
            number
            for number, cell in enumerate(cells)
            if cell.mechanism.name in known and known[cell.mechanism.name].least_total_error
        ]
        return self._partner(
            sorted(found, key=lambda n: cells[n].coords.get("mechanism") != cells[n].mechanism.name)
        )

    def scattered(self, column: Column, fill: Any) -> Column:
        """The column on the grid's axes, its trailing dimensions kept; ``fill`` without a cell."""
        flat = np.full((math.prod(self.shape), *column.shape[1:]), fill, dtype=column.dtype)
        flat[self._positions] = column
        return flat.reshape(*self.shape, *column.shape[1:])

    @cached_property
    def _positions(self) -> NDArray[np.int64]:
        if not self.grid.axes:
            return np.zeros(len(self.grid.cells), dtype=np.int64)
        where = [
            [index[cell.coords[axis.name]] for cell in self.grid.cells]
            for axis in self.grid.axes
            for index in [{value: number for number, value in enumerate(axis.values)}]
        ]
        found = np.ravel_multi_index(tuple(np.asarray(where, dtype=np.int64)), self.shape)
        return np.asarray(found, dtype=np.int64)

    def _partner(self, numbers: Iterable[int]) -> NDArray[np.int64]:
        cells = self.grid.cells
        partners: dict[tuple[str, int], int] = {}
        for number in numbers:
            partners.setdefault(_compared_by(cells[number]), number)
        return np.array([partners.get(_compared_by(cell), -1) for cell in cells], dtype=np.int64)


def labels(values: Sequence[Scalar]) -> Column:
    """The values as a coordinate: numbers of one type, or texts."""
    kinds = {type(value) for value in values}
    if kinds <= {int, float} or kinds == {bool}:
        found = np.array(values)
        if found.dtype != object:
            return found
    return np.array([str(value) for value in values], dtype=np.str_)


def _compared_by(cell: Cell) -> tuple[str, int]:
    """Problem and replicate, which two cells have to share to be compared."""
    return cell.problem_key, cell.replicate
