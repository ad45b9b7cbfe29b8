"""Grids: the cells of a group, and the axes that they lie on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sweep.experiment.canonical import Scalar
from sweep.grid.cell import REPLICATE
from sweep.grid.cells import Cells


@dataclass(frozen=True)
class Axis:
    """One dimension of a grid: distinct labels, and further coordinates (companions) along it."""

    name: str
    values: Sequence[Scalar]
    companions: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Grid:
    """The cells of one group of an experiment, and the axes that they lie on.

    Attributes
    ----------
    axes : tuple of Axis
        The dimensions, ``mechanism`` last.
    scalars : Mapping[str, Scalar]
        Coordinates without a dimension: the parameters that all cells share.
    cells : Cells
        Some or all points of the product of the axes.
    """

    group: str
    axes: tuple[Axis, ...]
    scalars: Mapping[str, Scalar]
    cells: Cells

    @property
    def relations(self) -> str:
        """Which databases are neighbours, in words; several where it is an axis."""
        return "; ".join(dict.fromkeys(family.first.relation for family in self.cells.used))


def positions_of(cells: Cells, axes: Sequence[Axis]) -> NDArray[np.int64]:
    """The flat position of every cell in the product of the axes."""
    place = np.zeros(len(cells), dtype=np.int64)
    for axis in axes:
        if axis.name == REPLICATE:
            known = np.array(axis.values)
            at = np.searchsorted(known, cells.replicate)
            here = np.where(known[at % len(known)] == cells.replicate, at, 0)
        else:
            index = {value: number for number, value in enumerate(axis.values)}
            of_family = [index[family.first.coords[axis.name]] for family in cells.families]
            here = np.array(of_family)[cells.family]
        place = place * len(axis.values) + here
    return place


def distinct(grids: Iterable[Grid]) -> Cells:
    """The cells of all grids; one that two grids share counts once."""
    return Cells.joined(grid.cells for grid in grids)
