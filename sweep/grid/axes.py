"""Make the grid of one block: check names, types and values, and fill in defaults."""

import inspect
import typing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

import solvers
import workloads
from solvers.errors import SolverError
from solvers.mechanism import Mechanism
from solvers.problem.neighbours import ADD_REMOVE, Neighbours, as_neighbours
from sweep.experiment.canonical import Scalar, Spec, label, list_values, round_value
from sweep.experiment.document import Location
from sweep.experiment.files import as_file
from sweep.experiment.schema import Block, Entry
from sweep.experiment.variables import RESERVED
from sweep.grid.cells import REPLICATE, Cell, Cells
from sweep.grid.grids import Axis, Grid, check_points
from workloads import conditions
from workloads.errors import ParameterError
from workloads.family import Kind
from workloads.parameters import Recipe, alternatives, bind, nearest

Parameters = Mapping[str, inspect.Parameter]
AnyRecipe = TypeVar("AnyRecipe", bound=Recipe[object])


@contextmanager
def errors_at(*locations: Location) -> Iterator[None]:
    """Turn errors of workloads and solvers into experiment errors that name a location in the file.

    The location is that of the parameter that the error blames, in the first of the ``locations``
    in which it is written. If there is no such parameter, it is the first of the ``locations``.
    """
    try:
        yield
    except (ParameterError, SolverError) as error:
        name = error.parameter if isinstance(error, ParameterError) else None
        named = (location / name for location in locations if name is not None)
        blamed = next((candidate for candidate in named if candidate.is_written), locations[0])
        raise blamed.error(str(error)) from error.__cause__


@dataclass(frozen=True)
class Written:
    """The canonical values that the file gives a parameter, and whether they are an axis."""

    values: Sequence[object]
    is_axis: bool


def read_parameters(
    owner: str, known: Parameters, given: Mapping[str, object], location: Location
) -> dict[str, Written]:
    """Check the parameters in the file against their types, and make their values canonical.

    Parameters
    ----------
    owner : str
        The owner of the parameters in error messages, such as ``workload 'prefix'``.
    known : Mapping[str, inspect.Parameter]
        All parameters of the owner.
    given : Mapping[str, object]
        The parameters in the file.
    """
    written = {}
    for name, value in given.items():
        here, parameter = location / name, known.get(name)
        if parameter is None:
            raise here.error(f"{owner} does not take {name!r}; {nearest(name, known)}")
        values, is_axis = list_values(parameter, value)
        if not values:
            raise here.error("this axis has no values; expected at least one")
        with errors_at(here):
            for item in values:
                bind(owner, {name: parameter}, {name: item})
            canonical = [normalise(item, parameter.annotation) for item in values]
        written[name] = Written(canonical, is_axis)
    return written


def find_recipe(
    role: str, recipes: Mapping[str, AnyRecipe], entry: Entry, location: Location
) -> tuple[AnyRecipe, dict[str, Written], dict[str, object]]:
    """Return the recipe that an entry names, its parameters in the file, and those of a cell.

    The parameters of a cell have one value each, defaults included; of an axis, its first value.
    Error messages call the recipe ``role``.
    """
    if (recipe := recipes.get(entry.name)) is None:
        hint = nearest(entry.name, recipes) + workloads.family.plugged().hint
        raise (location / "name").error(f"no {role} is called {entry.name!r}; {hint}")
    owner, known = f"{role} {entry.name!r}", recipe.params
    written = read_parameters(owner, known, entry.params, location)
    with errors_at(location):
        bound = bind(owner, known, {name: given.values[0] for name, given in written.items()})
        params = {name: normalise(value, known[name].annotation) for name, value in bound.items()}
    return recipe, written, params


def normalise(value: object, expected: object) -> object:
    """Return the canonical form of a value that has the type ``expected``.

    Floats are rounded to 12 significant digits, tuples become lists, and 1 becomes 1.0 if the type
    accepts floats but no integers. A text that names a file becomes a `File`, which is identified
    by its content.
    """
    accepted = alternatives(expected)
    kind = dict if isinstance(value, Mapping) else list
    inner = [typing.get_args(each)[-1] for each in accepted if typing.get_origin(each) is kind]
    item_type = inner[0] if inner else object
    if isinstance(value, Mapping):
        return {name: normalise(item, item_type) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [normalise(item, item_type) for item in value]
    if isinstance(value, str):
        return as_file(value, accepted)
    whole = isinstance(value, int) and (int in accepted or float not in accepted)
    if whole or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return round_value(value)


def is_available(entry: Entry) -> bool:
    """Return whether a mechanism entry is used.

    An entry with ``when: available`` is left out if its mechanism or its preset does not exist.
    """
    mechanism = solvers.all_mechanisms().get(entry.name)
    has_preset = mechanism is not None and (entry.preset or "") in ("", *mechanism.presets)
    return has_preset or entry.when != "available"


Candidate = tuple[Location, Entry, type[Mechanism]]
"""An entry of a block whose mechanism exists here: its location, the entry and the mechanism."""


def find_candidates(block: Block, kind: Kind, location: Location) -> list[Candidate]:
    """Return the block's mechanisms that are available; refuse unknown names."""
    candidates = []
    for number, entry in enumerate(block.mechanism):
        if is_available(entry):
            here = location / "mechanism" / number
            with errors_at(here / "name"):
                candidates.append((here, entry, solvers.mechanism.find(entry.name, kind)))
    return candidates


def _specify(mechanism: Mechanism, kind: Kind, shown: str = "") -> Spec:
    """Return a `Spec` of a mechanism that has the label ``shown`` and a value for every option."""
    options, known = mechanism.options, mechanism.params(kind)
    params = {name: normalise(options[name], known[name].annotation) for name in known}
    return Spec(mechanism.name, params, shown)


def resolve_mechanisms(
    candidates: Sequence[Candidate], common: Mapping[str, object], kind: Kind, options: Location
) -> dict[str, tuple[Spec, Spec]]:
    """Return the mechanisms of a block by label, with a value for every option.

    Each is paired with the mechanism that is run in its place if all targets are equal, which
    usually is the same.

    An entry with several values for an option makes several mechanisms. ``common`` contains the
    options that the block sets for all its mechanisms, at the location ``options``.
    """
    resolved: dict[str, tuple[Spec, Spec]] = {}
    for here, entry, mechanism in candidates:
        known = mechanism.params(kind)
        written = read_parameters(f"mechanism {mechanism.name!r}", known, entry.params, here)
        check_points({name: len(option.values) for name, option in written.items()}, here)
        for values in product(*(option.values for option in written.values())):
            given = dict(zip(written, values, strict=True))
            # the label: as in the file, or the user's function, or the name of the entry; then the
            # options of which the file lists several values
            function = str(given.get("function", "")) if mechanism.runs_code else ""
            shown = entry.label or function or entry.shown
            hidden = "" if entry.label else "function"
            listed = [n for n, option in written.items() if option.is_axis and n != hidden]
            if listed:
                shown += f" ({', '.join(f'{name}={label(given[name])}' for name in listed)})"
            if shown in resolved:
                raise here.error(
                    f"two mechanisms are labelled {shown!r}; label one of them differently"
                )
            with errors_at(here, options):
                made = mechanism.make(entry.preset, {**common, **given}, kind)
                spec = _specify(made, kind, shown)
            resolved[shown] = spec, spec
            if mechanism.same_when_uniform is not None:
                other = solvers.mechanism.find(mechanism.same_when_uniform)
                shared = {n: v for n, v in spec.params.items() if n in other.params(kind)}
                # options that the other mechanism does not have must be at their defaults
                if made.first_changed(spec.params.keys() - shared.keys()) is None:
                    resolved[shown] = spec, _specify(other.make(None, shared, kind), kind)
    return resolved


@dataclass(frozen=True)
class Choice:
    """Values of a cell that are chosen together: at one point of an axis, or at all points.

    Attributes
    ----------
    labels : Mapping[str, Scalar]
        The label along each coordinate.
    workload, targets, options : Mapping[str, object]
        Parameters of the workload and of the targets rule, and options of all mechanisms.
    rule : Rule, optional
        The targets rule; None if it is not chosen here.
    neighbours : Neighbours, optional
        The neighbour relation; None if it is not chosen here.
    """

    labels: Mapping[str, Scalar] = field(default_factory=dict)
    workload: Mapping[str, object] = field(default_factory=dict)
    targets: Mapping[str, object] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    rule: workloads.targets.Rule | None = None
    neighbours: Neighbours | None = None

    def joined(self, other: "Choice") -> "Choice":
        """Return the values of both choices; ``other`` overrides this one."""
        return Choice(
            {**self.labels, **other.labels},
            {**self.workload, **other.workload},
            {**self.targets, **other.targets},
            {**self.options, **other.options},
            other.rule or self.rule,
            other.neighbours or self.neighbours,
        )


@dataclass(frozen=True)
class Coordinate:
    """The choices that a block lists for a coordinate, and whether they are an axis.

    A coordinate that is no axis has one choice.
    """

    location: Location
    choices: Sequence[Choice]
    is_axis: bool


def list_coordinates(
    block: Block,
    kind: Kind,
    of_workload: Mapping[str, Written],
    candidates: Sequence[Candidate],
    location: Location,
) -> dict[str, Coordinate]:
    """Return the block's coordinates by name, in their order.

    The coordinates ``replicate`` and ``mechanism`` are missing. The block's workload is of the
    given ``kind``, and has the parameters ``of_workload`` in the file.
    """
    coordinates: dict[str, Coordinate] = {}

    def add(part: str, written: Mapping[str, Written], choose: Callable[..., Choice]) -> None:
        for name, parameter in written.items():
            here = location / part / name
            if name in RESERVED:
                raise here.error(
                    f"{name!r} is a parameter of the {part} here and the name of something else in "
                    "the dataset; give the parameter another name"
                )
            unique = f"{part}_{name}" if name in coordinates else name
            choices = [
                replace(choose({name: value}), labels={unique: label(value)})
                for value in parameter.values
            ]
            coordinates[unique] = Coordinate(here, choices, parameter.is_axis)

    # 1. The parameters of the workload.
    add("workload", of_workload, lambda params: Choice(workload=params))
    # 2. The targets rules, and the parameters of a single one.
    several, choices = isinstance(block.targets, tuple), []
    for number, entry in enumerate(block.rules):
        here = location / "targets" / number if several else location / "targets"
        rule, of_rule, params = find_recipe("targets rule", workloads.targets.RULES, entry, here)
        choices.append(Choice({"targets": entry.shown}, targets=params, rule=rule))
        for name, parameter in of_rule.items():
            if several and parameter.is_axis:
                raise (here / name).error(
                    f"{name!r} is an axis, but the block lists several targets; write a "
                    "labelled entry for each value, or leave the other targets out of the block"
                )
    coordinates["targets"] = Coordinate(location / "targets", choices, several)
    if not several:
        add("targets", of_rule, lambda params: Choice(targets=params))
    # 3. The neighbour relations; without any, the cells have the default and no coordinate.
    if "neighbours" in block.model_fields_set:
        here, written = location / "neighbours", block.neighbours
        listed = written if isinstance(written, list) else [written]
        if not listed:
            raise here.error("this axis has no values; expected at least one")
        if kind == "graph":
            raise here.error(
                "neighbours on a query graph; its own edges say which answers are adjacent: leave "
                "neighbours out"
            )
        with errors_at(here):
            relations = list(map(as_neighbours, listed))
        choices = [Choice({"neighbours": each.title}, neighbours=each) for each in relations]
        coordinates["neighbours"] = Coordinate(here, choices, listed is written)
    # 4. The options of all mechanisms, each of which must have them.
    options: Mapping[str, Written] = {}
    for _, _, mechanism in candidates if block.options else ():
        owner, known = f"mechanism {mechanism.name!r}", mechanism.params(kind)
        options = read_parameters(owner, known, block.options, location / "options")
    add("options", options, lambda params: Choice(options=params))
    return coordinates


def zip_axes(names: Sequence[str], axes: dict[str, Coordinate], location: Location) -> None:
    """Merge the axes in ``names`` into one axis, which has the name of the first of them."""
    for name in names:
        if name not in axes:
            raise location.error(
                f"{name!r} is not an axis, or zipped already; {nearest(name, axes)}"
            )
    sizes = {name: len(axes[name].choices) for name in names}
    if len(sizes) < 2 or len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise location.error(f"zip needs two or more axes of equal length; here {listed}")
    for name in names[1:]:
        first, further = axes[names[0]], axes.pop(name)
        joined = map(Choice.joined, first.choices, further.choices)
        axes[names[0]] = replace(first, choices=tuple(joined))


def _label_axis(name: str, coordinate: Coordinate) -> Axis:
    """Return the axis along a coordinate; refuse a label that occurs twice."""
    labels = {
        each: tuple(choice.labels[each] for choice in coordinate.choices)
        for each in coordinate.choices[0].labels
    }
    axis = Axis(name, labels.pop(name), labels)
    twice = [value for value, count in Counter(axis.values).items() if count > 1]
    if twice:
        hint = "label one of them" if name == "targets" else "write each value once"
        raise coordinate.location.error(f"axis {name!r} holds {twice[0]!r} twice; {hint}")
    return axis


def expand_block(block: Block, location: Location, simulate: int) -> Grid:
    """Return the grid of a block; its cells have labels for all coordinates, companions included.

    Raises
    ------
    ExperimentError
        If a name or a value is wrong, axes cannot be zipped, or there are too many points.
    """
    here = location / "workload"
    family, written, params = find_recipe("workload", workloads.families(), block.workload, here)
    kind = family.kind
    candidates = find_candidates(block, kind, location)
    # 1. What all points share, and the choices along each axis.
    shared, listed = Choice({"workload": block.workload.name}, workload=params), {}
    for name, coordinate in list_coordinates(block, kind, written, candidates, location).items():
        if coordinate.is_axis:
            listed[name] = coordinate
        else:
            shared = shared.joined(coordinate.choices[0])
    for number, names in enumerate(block.zipped):
        zip_axes(names, listed, location / "zip" / number)
    axes = [_label_axis(name, coordinate) for name, coordinate in listed.items()]
    if block.replicates > 1:
        axes.append(Axis(REPLICATE, range(block.replicates)))
    # 2. A family of cells for each combination of choices and each mechanism.
    condition = None if block.where is None else conditions.parse(block.where)
    families: list[Cell] = []
    replicates: list[NDArray[np.int32]] = []
    # the options that the block lists make few sets, so their mechanisms are resolved once
    by_options: dict[str, dict[str, tuple[Spec, Spec]]] = {}
    for row in product(*(coordinate.choices for coordinate in listed.values())):
        choice = reduce(Choice.joined, row, shared)
        if (options := str(choice.options)) not in by_options:
            common = location / "options"
            by_options[options] = resolve_mechanisms(candidates, choice.options, kind, common)
            lengths = {axis.name: len(axis.values) for axis in axes}
            check_points({**lengths, "mechanism": max(1, len(by_options[options]))}, location)
        assert choice.rule is not None
        for shown, (named, if_uniform) in by_options[options].items():
            coords = {**choice.labels, "mechanism": shown}
            kept = np.arange(block.replicates, dtype=np.int32)
            if condition is not None:
                points = ({**coords, "group": block.group, REPLICATE: n} for n in kept.tolist())
                with errors_at(location / "where"):
                    kept = kept[[condition.holds(point) for point in points]]
            if len(kept):
                replicates.append(kept)
                families.append(
                    Cell(
                        block.group,
                        coords,
                        Spec(block.workload.name, choice.workload),
                        Spec(choice.rule.name, choice.targets),
                        named,
                        solved=if_uniform if choice.rule.uniform else named,
                        simulate=simulate,
                        neighbours=choice.neighbours or ADD_REMOVE,
                        location=location,
                    )
                )
    axes.append(Axis("mechanism", tuple(next(iter(by_options.values())))))
    family_of = np.repeat(np.arange(len(families)), [len(kept) for kept in replicates])
    cells = Cells(families, family_of, np.concatenate([[], *replicates]))
    return Grid(block.group, tuple(axes), shared.labels, cells)
