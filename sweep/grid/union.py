"""Points of several blocks as one grid: which coordinates are dimensions, and their labels."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from solvers.neighbours import ADD_REMOVE, Neighbours
from sweep.experiment.canonical import Scalar
from sweep.experiment.document import KeyPath, Origin
from sweep.grid.cells import Axis, Cell, Grid, MechanismSpec, Spec, WorkloadSpec
from sweep.grid.parameters import label
from workloads.parameters import shortened

_T = TypeVar("_T")

MOST_POINTS = 2_000_000
"""The most points of a block before its condition applies; a million need gigabytes."""

_LAST = ("replicate", "mechanism")
"""The dimensions that come last."""


@dataclass(frozen=True)
class Point:
    """A cell before its block is united with others, when dimensions are not known yet.

    Attributes
    ----------
    labels : Mapping[str, Scalar]
        Its label along every axis, companion and parameter that its block names.
    workload, targets, mechanism, solved_mechanism, replicate, neighbours
        As in `Cell`.
    """

    labels: Mapping[str, Scalar]
    workload: WorkloadSpec
    targets: Spec
    mechanism: MechanismSpec
    solved_mechanism: MechanismSpec
    replicate: int
    neighbours: Neighbours = ADD_REMOVE


@dataclass(frozen=True)
class Product:
    """A block multiplied out.

    Attributes
    ----------
    path : KeyPath
        The block's place in the file.
    axes : Mapping[str, tuple of Scalar]
        Its axes in order, with all their labels in order.
    companions : Mapping[str, str]
        The axis that each zipped coordinate runs along.
    points : tuple of Point
    """

    path: KeyPath
    axes: Mapping[str, tuple[Scalar, ...]]
    companions: Mapping[str, str]
    points: tuple[Point, ...]


def check_points(lengths: Mapping[str, int], origin: Origin, path: KeyPath) -> None:
    """Refuse a product of axes that is too large to be written out.

    Raises
    ------
    ExperimentError
        With the length of every axis.
    """
    points = math.prod(lengths.values())
    if points > MOST_POINTS:
        axes = " x ".join(f"{shortened(length)} {name}" for name, length in lengths.items())
        raise origin.error(
            path,
            f"{axes} are {shortened(points)} points; expected at most {MOST_POINTS:,}, the limit "
            "of sweep.grid.union.MOST_POINTS: give fewer values",
        )


def united(group: str, parts: Sequence[Product], simulate: int, origin: Origin) -> Grid:
    """The grid of all blocks of a group.

    A coordinate is a dimension if a block lists it or if blocks differ in it, and a scalar
    otherwise. A block that leaves out a parameter that another block writes takes part with its
    default.

    Parameters
    ----------
    group : str
        The grid's name.
    parts : sequence of Product
        Its blocks.
    simulate : int
        Number of noise vectors to draw for every cell.
    origin : Origin
        Where the blocks were written.

    Returns
    -------
    Grid

    Raises
    ------
    ExperimentError
        If there is no cell, two blocks put different cells at one point, one cell has two
        labels, or a block lacks a coordinate that another has.
    """
    points = [(part, point) for part in parts for point in part.points]
    if not points:
        path = parts[0].path
        blamed = next(
            (p for p in ((*path, "where"), (*path, "mechanism")) if p in origin.places), path
        )
        raise origin.error(
            blamed,
            f"group {group!r} has no cells: none of its mechanisms is available, or 'where' is "
            "never true",
        )
    names = _unique(name for _, point in points for name in point.labels)
    columns = {name: _column(name, points, group, origin) for name in names}
    companions = _companions(parts, origin)
    listed = _unique(name for part in parts for name in part.axes)
    varied = [name for name in names if len(_unique(columns[name])) > 1 and name not in listed]
    free = [name for name in [*listed, *varied] if name not in companions and name not in _LAST]
    dimensions = [*free, *(name for name in _LAST if name in listed)]
    axes = tuple(
        Axis(name, values, _zipped(name, values, columns, companions, parts, origin))
        for name in dimensions
        for values in [_in_order(name, parts, columns[name])]
    )
    scalars = {
        name: columns[name][0]
        for name in names
        if name not in dimensions and name not in companions
    }
    rows = zip(*(columns[name] for name in dimensions), strict=True)
    cells: dict[tuple[Scalar, ...], Cell] = {}
    labels_of: dict[str, tuple[Scalar, ...]] = {}
    for (part, point), row in zip(points, rows, strict=True):
        cell = _cell(group, dict(zip(dimensions, row, strict=True)), point, simulate)
        if row in cells and cells[row].id != cell.id:
            raise origin.error(
                part.path,
                f"another block of group {group!r} has a different cell at "
                f"{_shown(cell.coords)}; give one of them another group or its own label",
            )
        if labels_of.setdefault(cell.id, row) != row:
            twin = cells[labels_of[cell.id]]
            raise origin.error(
                part.path,
                f"{_shown(twin.coords)} and {_shown(cell.coords)} are the same cell; "
                "leave one of them out",
            )
        cells[row] = cell
    return Grid(group, axes, scalars, tuple(cells.values()))


def _cell(group: str, coords: Mapping[str, Scalar], point: Point, simulate: int) -> Cell:
    return Cell(
        group=group,
        coords=coords,
        workload=point.workload,
        targets=point.targets,
        mechanism=point.mechanism,
        solved_mechanism=point.solved_mechanism,
        replicate=point.replicate,
        simulate=simulate,
        neighbours=point.neighbours,
    )


def _column(
    name: str, points: Sequence[tuple[Product, Point]], group: str, origin: Origin
) -> list[Scalar]:
    """The labels of all points along one coordinate, converted to one type."""
    values = [_named(name, point, part, group, origin) for part, point in points]
    kinds = {type(value) for value in values}
    if kinds == {int, float}:
        return [float(value) for value in values]
    return [str(value) for value in values] if len(kinds) > 1 else values


def _named(name: str, point: Point, part: Product, group: str, origin: Origin) -> Scalar:
    if name in point.labels:
        return point.labels[name]
    if name == "replicate":
        return point.replicate
    if name == "neighbours":
        return point.neighbours.title
    for spec, prefix in ((point.workload, ""), (point.targets, ""), (point.targets, "targets_")):
        parameter = name.removeprefix(prefix)
        if name.startswith(prefix) and parameter in spec.params:
            return label(spec.params[parameter])
    raise origin.error(
        part.path,
        f"another block of group {group!r} has a coordinate {name!r}, which this block does not "
        "have; give this block another group",
    )


def _companions(parts: Sequence[Product], origin: Origin) -> dict[str, str]:
    companions: dict[str, str] = {}
    for part in parts:
        for name, along in part.companions.items():
            clash = companions.setdefault(name, along) != along
            if clash or any(name in other.axes for other in parts):
                raise origin.error(
                    (*part.path, "zip"),
                    f"{name!r} is zipped to {along!r} here but not in another block of the group; "
                    "zip it the same way in both",
                )
    return companions


def _in_order(name: str, parts: Sequence[Product], column: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """The labels in use, in the order in which the blocks list them."""
    present = dict.fromkeys(column)
    as_text = isinstance(column[0], str)
    declared = [
        str(value) if as_text else value for part in parts for value in part.axes.get(name, ())
    ]
    return tuple(_unique([*(value for value in declared if value in present), *present]))


def _zipped(
    name: str,
    values: Sequence[Scalar],
    columns: Mapping[str, Sequence[Scalar]],
    companions: Mapping[str, str],
    parts: Sequence[Product],
    origin: Origin,
) -> dict[str, tuple[Scalar, ...]]:
    """The coordinates along an axis: one label for each of its values."""
    found: dict[str, tuple[Scalar, ...]] = {}
    for other in (other for other, along in companions.items() if along == name):
        pairs = set(zip(columns[name], columns[other], strict=True))
        if len(pairs) > len(values):
            raise origin.error(
                parts[0].path,
                f"{other!r} is zipped to {name!r}, but blocks of this group give it two values "
                f"at one {name!r}; zip them the same way",
            )
        at = dict(pairs)
        found[other] = tuple(at[value] for value in values)
    return found


def _unique(values: Iterable[_T]) -> list[_T]:
    return list(dict.fromkeys(values))


def _shown(coords: Mapping[str, Scalar]) -> str:
    return ", ".join(f"{name}={value}" for name, value in coords.items())
