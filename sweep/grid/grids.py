"""Grids: the cells of a group, and their axes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sweep.experiment.canonical import Scalar, label
from sweep.experiment.document import Location
from sweep.experiment.schema import Experiment
from sweep.grid.cells import REPLICATE, Cell, Cells
from sweep.store.keys import number_keys
from workloads.parameters import limit, raised_by, readable

MOST_POINTS = limit("MOST_POINTS", 2_000_000)
"""Largest number of points of a block or a group, including points that have no cell.

It is twice the largest number of cells with which stores and plans are tested.
"""


def check_points(lengths: Mapping[str, int], location: Location) -> None:
    """Refuse a product of axes that has more than `MOST_POINTS` points."""
    points = math.prod(lengths.values())
    if points > MOST_POINTS:
        axes = " x ".join(f"{readable(length)} {name}" for name, length in lengths.items())
        raise location.error(
            f"{axes} are {readable(points)} points; expected at most {MOST_POINTS:,}, the limit "
            f"{raised_by('MOST_POINTS')}: give fewer values"
        )


@dataclass(frozen=True)
class Axis:
    """One dimension of a grid, with distinct labels.

    Companions are further coordinates along this dimension, such as axes that are zipped with it.
    """

    name: str
    values: Sequence[Scalar]
    companions: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Grid:
    """The cells of one group of an experiment, and their axes.

    Attributes
    ----------
    axes : tuple of Axis
        The dimensions, ``mechanism`` last.
    scalars : Mapping[str, Scalar]
        Coordinates without a dimension: the parameters that all cells share.
    cells : Cells
        The cells, which lie at some or all points of the product of the axes.
    """

    group: str
    axes: tuple[Axis, ...]
    scalars: Mapping[str, Scalar]
    cells: Cells

    @property
    def relations(self) -> str:
        """The neighbour relations of all cells in words, separated by semicolons."""
        titles = (
            "adjacent answers of the query graph" if cell.kind == "graph" else cell.neighbours.title
            for cell in self.cells.used
        )
        return "; ".join(dict.fromkeys(titles))


def locate_cells(cells: Cells, axes: Sequence[Axis]) -> NDArray[np.int64]:
    """Return the index of every cell in the flattened product of the axes."""
    position = np.zeros(len(cells), dtype=np.int64)
    for axis in axes:
        if axis.name == REPLICATE:
            here = np.searchsorted(np.array(axis.values), cells.replicate)
        else:
            index = {value: number for number, value in enumerate(axis.values)}
            of_family = [index[cell.coords[axis.name]] for cell in cells.families]
            here = np.array(of_family)[cells.family]
        position = position * len(axis.values) + here
    return position


def list_labels(experiment: Experiment, grid: Grid) -> dict[str, Sequence[Scalar]]:
    """Return all coordinates of a group's dataset, including ε and δ, each with its labels."""
    labels: dict[str, Sequence[Scalar]] = {
        "epsilon": experiment.epsilon,
        "delta": experiment.delta,
        **{name: (value,) for name, value in grid.scalars.items()},
    }
    for axis in grid.axes:
        labels |= {axis.name: axis.values, **axis.companions}
    return labels


def unite_cells(grids: Sequence[Grid]) -> Cells:
    """Return the distinct cells of all grids, in order of first occurrence.

    If several grids contain the same cell, the last grid's copy is returned.
    """
    if len(grids) == 1:
        return grids[0].cells
    whole = Cells.concatenated([grid.cells for grid in grids])
    if whole.families_differ:
        return whole
    first = number_keys(whole.ids)
    last = np.empty(first.max(initial=-1) + 1, dtype=np.int64)
    last[first] = np.arange(len(whole))
    return whole.take(last)


_LAST = (REPLICATE, "mechanism")
"""The last dimensions of a grid, in this order."""


def merge_blocks(parts: Sequence[Grid], location: Location) -> Grid:
    """Merge the grids of a group's blocks; cells retain only their labels along the merged axes.

    A coordinate that a block zips to a dimension is a companion of this dimension, unless another
    block makes it an axis, or its label differs where the dimension's label is the same. Any other
    coordinate is a dimension if a block gives it a list of values, or if the blocks give it
    different values; otherwise it is a scalar. If a block omits a parameter that another block
    sets, the cells of the omitting block have the parameter's default.

    Parameters
    ----------
    parts : sequence of Grid
        The grid of every block.
    location : Location
        Location of the first block.

    Raises
    ------
    ExperimentError
        If there are no cells, two different cells lie at one point, one cell lies at two points, or
        a block has neither a label nor a default for a coordinate of another block.
    """
    group, cells = parts[0].group, Cells.concatenated([part.cells for part in parts])
    if not len(cells):
        named = (location / "where", location / "mechanism")
        blamed = next((candidate for candidate in named if candidate.is_written), location)
        raise blamed.error(
            f"group {group!r} has no cells: none of its mechanisms is available, or 'where' is "
            "never true"
        )
    listed = [axis for part in parts if len(part.cells) for axis in part.axes]
    columns: dict[str, list[Scalar]] = {}
    for name in dict.fromkeys(name for cell in cells.families for name in cell.coords):
        labels = [
            c.coords[name] if name in c.coords else _find_default(name, c) for c in cells.families
        ]
        kinds = {type(label) for label in labels}
        if len(kinds) > 1:  # labels of one coordinate have one type
            common = float if kinds == {int, float} else str
            labels = [common(label) for label in labels]
        columns[name] = labels
    dimensions = dict.fromkeys(axis.name for axis in listed)
    companions = {
        name: axis.name
        for axis in listed
        for name in axis.companions
        if name not in dimensions
        and len({*zip(columns[axis.name], columns[name], strict=True)})
        == len({*columns[axis.name]})
    }
    dimensions |= {name: None for name, labels in columns.items() if len(set(labels)) > 1}
    free = [name for name in dimensions if name not in companions and name not in _LAST]
    axes: list[Axis] = []
    for name in [*free, *(name for name in _LAST if name in dimensions)]:
        if name == REPLICATE:
            axes.append(Axis(name, range(cells.replicate.min(), cells.replicate.max() + 1)))
            continue
        column = dict.fromkeys(columns[name])
        declared = [value for axis in listed if axis.name == name for value in axis.values]
        if isinstance(columns[name][0], str):
            declared = [str(value) for value in declared]
        values = tuple(dict.fromkeys([*(value for value in declared if value in column), *column]))
        zipped = {}
        for other in (other for other, along in companions.items() if along == name):
            labels_at = dict(zip(columns[name], columns[other], strict=True))
            zipped[other] = tuple(labels_at[value] for value in values)
        axes.append(Axis(name, values, zipped))
    check_points({axis.name: len(axis.values) for axis in axes}, location)
    shared = {axis.name: columns.get(axis.name, [0] * len(cells.families)) for axis in axes}
    families = [
        replace(cell, coords=dict(zip(shared, row, strict=True)))
        for cell, row in zip(cells.families, zip(*shared.values(), strict=True), strict=True)
    ]
    scalars = {n: v[0] for n, v in columns.items() if n not in shared and n not in companions}
    laid = Cells(families, cells.family, cells.replicate)
    return Grid(group, tuple(axes), scalars, _drop_repeated(laid, axes))


def _drop_repeated(cells: Cells, axes: Sequence[Axis]) -> Cells:
    """Remove repeated cells.

    Raise ExperimentError if two different cells lie at one point, or one cell lies at two points.
    """
    positions = locate_cells(cells, axes)
    if cells.families_differ and np.diff(np.sort(positions)).all():
        return cells
    by_position: dict[int, int] = {}
    by_id: dict[str, int] = {}
    for number, (position, id_) in enumerate(zip(positions.tolist(), cells.ids, strict=True)):
        cell = cells.families[cells.family[number]]
        before = by_position.get(position, number)
        if cells.ids[before] != id_:
            raise cell.location.error(
                f"another block of group {cell.group!r} has a different cell at "
                f"{_describe_point(cells[number].coords)}; give one of the blocks another "
                "group, or one of the cells a label of its own"
            )
        twin = by_id.setdefault(id_, number)
        if positions[twin] != position:
            raise cell.location.error(
                f"{_describe_point(cells[twin].coords)} and "
                f"{_describe_point(cells[number].coords)} are the same cell; leave one of them out"
            )
        by_position[position] = number
    return cells.take(np.array(list(by_position.values())))


def _find_default(name: str, cell: Cell) -> Scalar:
    """Return a cell's label along a coordinate that its block does not set."""
    defaults: dict[str, object] = {f"targets_{n}": v for n, v in cell.targets.params.items()}
    defaults |= {**cell.targets.params, **cell.workload.params, "neighbours": cell.neighbours.title}
    if name in defaults:
        return label(defaults[name])
    raise cell.location.error(
        f"another block of group {cell.group!r} has a coordinate {name!r}, which this block does "
        "not have; give this block another group"
    )


def _describe_point(coords: Mapping[str, Scalar]) -> str:
    return ", ".join(f"{name}={value}" for name, value in coords.items())
