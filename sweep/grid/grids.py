"""Grids: the cells of a group, and their axes."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sweep.experiment.canonical import Scalar, label
from sweep.experiment.document import Place
from sweep.experiment.schema import Experiment
from sweep.grid.cells import REPLICATE, Cell, CellFamily, Cells
from workloads.parameters import limit, raised_by, shortened


@dataclass(frozen=True)
class Axis:
    """One dimension of a grid: distinct labels, and companions (further coordinates along it)."""

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
        The cells, at some or all points of the product of the axes.
    """

    group: str
    axes: tuple[Axis, ...]
    scalars: Mapping[str, Scalar]
    cells: Cells

    @property
    def relations(self) -> str:
        """The relation of neighbouring databases, in words; all relations if there are several."""
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


def coordinates(experiment: Experiment, grid: Grid) -> dict[str, Sequence[Scalar]]:
    """The coordinates of a group's dataset, including the budgets, with all their labels."""
    labels: dict[str, Sequence[Scalar]] = {
        "epsilon": experiment.epsilon,
        "delta": experiment.delta,
        **{name: (value,) for name, value in grid.scalars.items()},
    }
    for axis in grid.axes:
        labels |= {axis.name: axis.values, **axis.companions}
    return labels


def distinct(grids: Iterable[Grid]) -> Cells:
    """The distinct cells of all grids."""
    return Cells.joined(grid.cells for grid in grids)


MOST_POINTS = limit("MOST_POINTS", 2_000_000)
"""Largest number of points of a block before its condition applies."""

_LAST = (REPLICATE, "mechanism")
"""The dimensions that come last."""


@dataclass(frozen=True)
class Point:
    """A cell of a block with its replicates, before the group's dimensions are known.

    Attributes
    ----------
    labels : Mapping[str, Scalar]
        The cell's label along every axis, companion and parameter that its block names, except
        ``replicate``.
    cell : Cell
        The cell of replicate 0, even if that replicate is left out; its coordinates are
        not yet set.
    replicates : sequence of int
        The replicates that exist, at least one.
    """

    labels: Mapping[str, Scalar]
    cell: Cell
    replicates: Sequence[int]


@dataclass(frozen=True)
class Product:
    """A block multiplied out: its axes with all their labels, in order.

    ``companions`` maps each zipped coordinate to its axis.
    """

    place: Place
    axes: Mapping[str, Sequence[Scalar]]
    companions: Mapping[str, str]
    points: tuple[Point, ...]


def check_points(lengths: Mapping[str, int], place: Place) -> None:
    """Refuse a product of axes that is too large to write out.

    Raises
    ------
    ExperimentError
        If the product is too large; the message has the length of every axis.
    """
    points = math.prod(lengths.values())
    if points > MOST_POINTS:
        axes = " x ".join(f"{shortened(length)} {name}" for name, length in lengths.items())
        raise place.error(
            f"{axes} are {shortened(points)} points; expected at most {MOST_POINTS:,}, the limit "
            f"{raised_by('MOST_POINTS')}: give fewer values"
        )


def merge_blocks(group: str, parts: Sequence[Product], simulate: int) -> Grid:
    """The grid of all blocks of a group.

    A coordinate is a dimension if a block lists it or if blocks differ in it, and a scalar
    otherwise. A block that omits a parameter that another block sets uses its default.

    Raises
    ------
    ExperimentError
        If there is no cell, two blocks put different cells at one point, one cell has two
        labels, or a block lacks a coordinate that another has.
    """
    points = [(part, point) for part in parts for point in part.points]
    if not points:
        place = parts[0].place
        named = (place / "where", place / "mechanism")
        blamed = next((candidate for candidate in named if candidate.is_written), place)
        raise blamed.error(
            f"group {group!r} has no cells: none of its mechanisms is available, or 'where' is "
            "never true"
        )
    listed = dict.fromkeys(name for part in parts for name in part.axes)
    names = dict.fromkeys(name for _, point in points for name in point.labels)
    columns = {name: _column(name, points, group) for name in names}
    companions = _companions(parts)
    varied = [name for name in names if len(set(columns[name])) > 1 and name not in listed]
    free = [name for name in [*listed, *varied] if name not in companions and name not in _LAST]
    dimensions = [*free, *(name for name in _LAST if name in listed)]
    number = np.repeat(np.arange(len(points)), [len(point.replicates) for _, point in points])
    replicate = np.concatenate([np.asarray(point.replicates) for _, point in points])
    values: dict[str, Sequence[Scalar]] = {
        name: _in_order(name, parts, columns[name]) for name in dimensions if name != REPLICATE
    }
    present = np.unique(replicate)
    whole = range(int(present[0]), int(present[-1]) + 1)
    values[REPLICATE] = whole if len(whole) == len(present) else tuple(present.tolist())
    axes = tuple(
        Axis(name, values[name], _zipped(name, values[name], columns, companions, parts))
        for name in dimensions
    )
    scalars = {
        name: columns[name][0]
        for name in names
        if name not in dimensions and name not in companions
    }
    rows = zip(*(columns.get(name, [0] * len(points)) for name in dimensions), strict=True)
    labels = (dict(zip(dimensions, row, strict=True)) for row in rows)
    families = [
        CellFamily(replace(point.cell, coords=coords, simulate=simulate))
        for (_, point), coords in zip(points, labels, strict=True)
    ]
    cells = Cells(families, number, replicate)
    if math.prod(len(axis.values) for axis in axes) >= 2**63:
        sizes = " x ".join(f"{len(axis.values)} {axis.name}" for axis in axes)
        raise parts[0].place.error(
            f"the blocks of group {group!r} together lie on {sizes}, more places than an array can "
            "have; give some of them another group"
        )
    places = [part.place for part, _ in points]
    return Grid(group, axes, scalars, _distinct(cells, axes, places))


def _distinct(cells: Cells, axes: Sequence[Axis], places: Sequence[Place]) -> Cells:
    """The distinct cells; raises ExperimentError for two cells at one point or one at two."""
    positions = positions_of(cells, axes)
    alone = len({family.content for family in cells.families}) == len(cells.families)
    if alone and np.diff(np.sort(positions)).all():
        return cells
    by_position: dict[int, int] = {}
    by_id: dict[str, int] = {}
    for number, (position, id_) in enumerate(zip(positions.tolist(), cells.ids, strict=True)):
        place = places[cells.family[number]]
        known = by_position.get(position, number)
        if cells.ids[known] != id_:
            raise place.error(
                f"another block of group {cells[number].group!r} has a different cell at "
                f"{_shown(cells[number].coords)}; give one of them another group or its own label"
            )
        twin = by_id.setdefault(id_, number)
        if positions[twin] != position:
            raise place.error(
                f"{_shown(cells[twin].coords)} and {_shown(cells[number].coords)} are the same "
                "cell; leave one of them out"
            )
        by_position[position] = number
    return cells.take(list(by_position.values()))


def _column(name: str, points: Sequence[tuple[Product, Point]], group: str) -> list[Scalar]:
    """The labels of all points along one coordinate, converted to one type."""
    values = [_named(name, point, part, group) for part, point in points]
    kinds = {type(value) for value in values}
    if kinds == {int, float}:
        return [float(value) for value in values]
    return [str(value) for value in values] if len(kinds) > 1 else values


def _named(name: str, point: Point, part: Product, group: str) -> Scalar:
    if name in point.labels:
        return point.labels[name]
    if name == "neighbours":
        return point.cell.neighbours.title
    workload, targets = point.cell.workload, point.cell.targets
    for spec, prefix in ((workload, ""), (targets, ""), (targets, "targets_")):
        parameter = name.removeprefix(prefix)
        if name.startswith(prefix) and parameter in spec.params:
            return label(spec.params[parameter])
    raise part.place.error(
        f"another block of group {group!r} has a coordinate {name!r}, which this block does not "
        "have; give this block another group"
    )


def _companions(parts: Sequence[Product]) -> dict[str, str]:
    companions: dict[str, str] = {}
    for part in parts:
        for name, along in part.companions.items():
            clash = companions.setdefault(name, along) != along
            if clash or any(name in other.axes for other in parts):
                raise (part.place / "zip").error(
                    f"{name!r} is zipped to {along!r} here but not in another block of the group; "
                    "zip it the same way in both"
                )
    return companions


def _in_order(name: str, parts: Sequence[Product], column: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """The labels in use, in the order in which the blocks list them."""
    present = dict.fromkeys(column)
    as_text = isinstance(column[0], str)
    declared = [
        str(value) if as_text else value for part in parts for value in part.axes.get(name, ())
    ]
    return tuple(dict.fromkeys([*(value for value in declared if value in present), *present]))


def _zipped(
    name: str,
    values: Sequence[Scalar],
    columns: Mapping[str, Sequence[Scalar]],
    companions: Mapping[str, str],
    parts: Sequence[Product],
) -> dict[str, tuple[Scalar, ...]]:
    """The companions of an axis, each with one label for every value of the axis."""
    zipped: dict[str, tuple[Scalar, ...]] = {}
    for other in (other for other, along in companions.items() if along == name):
        pairs = set(zip(columns[name], columns[other], strict=True))
        if len(pairs) > len(values):
            raise parts[0].place.error(
                f"{other!r} is zipped to {name!r}, but blocks of this group give it two values "
                f"at one {name!r}; zip them the same way"
            )
        at = dict(pairs)
        zipped[other] = tuple(at[value] for value in values)
    return zipped


def _shown(coords: Mapping[str, Scalar]) -> str:
    return ", ".join(f"{name}={value}" for name, value in coords.items())
