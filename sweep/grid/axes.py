"""Multiplies a block out into points: checks names, types and values, and fills in defaults."""

import inspect
import re
import types
import typing
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product
from typing import Any, TypeVar, Union

import solvers
import workloads
from solvers.errors import SolverError
from solvers.mechanism import Mechanism
from solvers.problem.neighbours import ADD_REMOVE, as_neighbours
from sweep.experiment.canonical import Scalar, label, rounded, values_of
from sweep.experiment.document import Place
from sweep.experiment.files import as_file
from sweep.experiment.schema import Block, WrittenEntry, WrittenMechanism, WrittenTargets
from sweep.experiment.variables import is_reserved
from sweep.grid.cells import REPLICATE, Cell, MechanismSpec, Spec, WorkloadSpec
from sweep.grid.grids import Point, Product, check_points
from workloads import TargetsError, WorkloadError, conditions
from workloads.conditions import Condition
from workloads.family import Family, Kind
from workloads.parameters import Recipe, bind, nearest

Parameters = Mapping[str, inspect.Parameter]
_Recipe = TypeVar("_Recipe", bound=Recipe)


@dataclass(frozen=True)
class WrittenParameter:
    """A parameter as written: one value or the values of an axis, in canonical form."""

    place: Place
    values: tuple[Any, ...]
    is_axis: bool


@contextmanager
def errors_at(place: Place, names: Iterable[str] = ()) -> Iterator[None]:
    """Turn errors of workloads and solvers into errors of the experiment that say where they are.

    An error is placed at the first of the parameters ``names`` that is written there and that the
    message mentions, otherwise at ``place``.
    """
    try:
        yield
    except (WorkloadError, TargetsError, SolverError) as error:
        text = str(error).partition(":")[2]
        named = (place / name for name in names if re.search(rf"\b{re.escape(name)}\b", text))
        blamed = next((candidate for candidate in named if candidate.is_written), place)
        raise blamed.error(str(error)) from error.__cause__


def _named(role: str, entry: WrittenEntry, known: Mapping[str, _Recipe], place: Place) -> _Recipe:
    """The workload family or the targets rule that the entry names."""
    if entry.name not in known:
        hint = nearest(entry.name, known) + workloads.family.plugged().hint
        raise (place / "name").error(f"no {role} is called {entry.name!r}; {hint}")
    return known[entry.name]


def written_parameters(
    described: str, known: Parameters, given: Mapping[str, Any], place: Place
) -> dict[str, WrittenParameter]:
    """The parameters that were written, each value checked against its type.

    ``described`` is the owner of the parameters in error messages: ``workload 'prefix'``.
    """
    written: dict[str, WrittenParameter] = {}
    for name, value in given.items():
        here, parameter = place / name, known.get(name)
        if parameter is None:
            raise here.error(f"{described} does not take {name!r}; {nearest(name, known)}")
        values, is_axis = values_of(parameter, value)
        if not values:
            raise here.error("this axis has no values; expected at least one")
        for item in values:
            with errors_at(here):
                bind(described, {name: parameter}, {name: item}, WorkloadError)
        with errors_at(here):
            canonical = tuple(normalised(item, parameter.annotation) for item in values)
        written[name] = WrittenParameter(here, canonical, is_axis)
    return written


def _owned(
    part: str, described: str, known: Parameters, given: Mapping[str, Any], place: Place
) -> tuple["Setting", dict[str, WrittenParameter]]:
    """All parameters of a part of a block, with an axis's first value, and the written ones."""
    written = written_parameters(described, known, given, place)
    with errors_at(place):
        first = {name: parameter.values[0] for name, parameter in written.items()}
        params = bind(described, known, first, WorkloadError)
        values = {(part, n): normalised(v, known[n].annotation) for n, v in params.items()}
    return Setting(values=values), written


def normalised(value: Any, expected: Any) -> Any:
    """The canonical form of a value: floats of 12 digits, lists for tuples, 1.0 for 1 as a float.

    A text that names a file becomes a `File`, which is identified by its content.
    """
    known = _alternatives(expected)
    if isinstance(value, Mapping):
        return {name: normalised(item, _inside(known, dict)) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [normalised(item, _inside(known, list)) for item in value]
    if isinstance(value, str):
        return as_file(value, known)
    whole = isinstance(value, int) and (int in known or float not in known)
    if whole or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return rounded(value)


def _alternatives(expected: Any) -> tuple[Any, ...]:
    if typing.get_origin(expected) in (Union, types.UnionType):
        return typing.get_args(expected)
    return (expected,)


def _inside(alternatives: tuple[Any, ...], kind: type) -> Any:
    """The type of the items of the list or mapping (``kind``) among the alternatives."""
    inner = [typing.get_args(a) for a in alternatives if typing.get_origin(a) is kind]
    return inner[0][-1] if inner else Any


def available(entry: WrittenMechanism) -> bool:
    """False for an entry with ``when: available`` whose mechanism or preset does not exist."""
    known = solvers.all_mechanisms()
    has_it = entry.name in known and (entry.preset or "") in ("", *known[entry.name].presets)
    return has_it or entry.when != "available"


def _mechanism(entry: WrittenMechanism, kind: Kind, place: Place) -> Mechanism:
    with errors_at(place / "name"):
        return solvers.mechanism.find(entry.name, kind)


def _mechanisms(
    block: Block, common: Mapping[str, Any], kind: Kind, place: Place
) -> dict[str, MechanismSpec]:
    """The mechanisms of a block by label, without those that are not `available`.

    An entry with a list of values for an option makes several mechanisms. ``common`` are the
    options that the block sets for all its mechanisms.
    """
    found: dict[str, MechanismSpec] = {}
    for at, entry in enumerate(block.mechanism):
        if not available(entry):
            continue
        here = place / "mechanism" / at
        mechanism = _mechanism(entry, kind, here)
        options = mechanism.options_on(kind)
        with errors_at(here / "preset"):
            mechanism.resolve(entry.preset, {}, kind)
        preset = mechanism.presets[entry.preset] if entry.preset else {}
        axes = written_parameters(f"mechanism {mechanism.name!r}", options, entry.params, here)
        check_points({name: len(option.values) for name, option in axes.items()}, here)
        for values in product(*(option.values for option in axes.values())):
            given = dict(zip(axes, values, strict=True))
            suffix = ", ".join(f"{n}={label(given[n])}" for n in axes if axes[n].is_axis)
            shown = f"{entry.axis_label} ({suffix})" if suffix else entry.axis_label
            if shown in found:
                raise here.error(
                    f"two mechanisms are labelled {shown!r}; label one of them differently"
                )
            own = {**preset, **common, **given}
            with errors_at(here, own):
                resolved = mechanism.resolve(None, own, kind)
            chosen = {n: normalised(v, options[n].annotation) for n, v in resolved.items()}
            uniform = _when_uniform(mechanism, options, chosen, kind)
            found[shown] = MechanismSpec(mechanism.name, chosen, shown, uniform)
    return found


def _when_uniform(
    mechanism: Mechanism, options: Parameters, chosen: Mapping[str, Any], kind: Kind
) -> MechanismSpec | None:
    """The mechanism that this one equals if all targets are equal; None if there is none.

    Options that the other mechanism does not have must have their defaults.
    """
    if mechanism.same_when_uniform is None:
        return None
    other = solvers.mechanism.find(mechanism.same_when_uniform)
    theirs = other.options_on(kind)
    if any(chosen[name] != options[name].default for name in chosen.keys() - theirs.keys()):
        return None
    shared = {name: value for name, value in chosen.items() if name in theirs}
    resolved = other.resolve(None, shared, kind)
    return MechanismSpec(
        other.name, {n: normalised(v, theirs[n].annotation) for n, v in resolved.items()}
    )


@dataclass(frozen=True)
class Setting:
    """One value of an axis, or several values together.

    ``labels`` are the coordinates' labels; ``values`` are parameters by part (workload, targets,
    problem or options) and name; ``rule`` is the name of the targets rule, if the setting has one.
    """

    labels: Mapping[str, Scalar] = field(default_factory=dict)
    values: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    rule: str = ""

    def of(self, part: str) -> dict[str, Any]:
        """The parameters of one part."""
        return {name: value for (at, name), value in self.values.items() if at == part}

    def merged(self, other: "Setting") -> "Setting":
        """Both settings together; ``other`` has precedence."""
        return Setting(
            {**self.labels, **other.labels},
            {**self.values, **other.values},
            other.rule or self.rule,
        )


@dataclass(frozen=True)
class BlockAxis:
    """An axis of a block: where it was written, and one setting for each of its values."""

    place: Place
    settings: tuple[Setting, ...]


def _merged(settings: Iterable[Setting]) -> Setting:
    """All settings merged into one."""
    return reduce(Setting.merged, settings, Setting())


def multiplied(block: Block, place: Place) -> Product:
    """All points of a block.

    Raises
    ------
    ExperimentError
        If a name or a value is wrong, axes cannot be zipped, or there are too many points.
    """
    family = _named("workload", block.workload, workloads.families(), place / "workload")
    fixed, axes = _settings(block, family, place)
    axes, companions = _zip(block, axes, place)
    labels: dict[str, Sequence[Scalar]] = {
        name: tuple(setting.labels[name] for setting in axis.settings)
        for name, axis in axes.items()
    }
    for name, axis in axes.items():
        twice = [label for label, count in Counter(labels[name]).items() if count > 1]
        if twice:
            hint = "label one of them" if name == "targets" else "write each value once"
            raise axis.place.error(f"axis {name!r} holds {twice[0]!r} twice; {hint}")
    if block.replicates > 1:
        labels[REPLICATE] = range(block.replicates)
    lengths = {name: len(along) for name, along in labels.items()}
    check_points({**lengths, "mechanism": len(block.mechanism)}, place)
    condition = _condition(block, {*fixed.labels, *labels, *companions}, place)
    points: list[Point] = []
    chosen: dict[str, dict[str, MechanismSpec]] = {}
    for settings in product(*(axis.settings for axis in axes.values())):
        setting = _merged([fixed, *settings])
        options = setting.of("options")
        if str(options) not in chosen:
            chosen[str(options)] = found = _mechanisms(block, options, family.kind, place)
            check_points({**lengths, "mechanism": len(found)}, place)
        workload = WorkloadSpec(family.name, setting.of("workload"), kind=family.kind)
        targets = Spec(setting.rule, setting.of("targets"))
        neighbours = setting.of("problem").get("neighbours", ADD_REMOVE)
        for name, mechanism in chosen[str(options)].items():
            there = {**setting.labels, "mechanism": name}
            if replicates := _kept(condition, there, block, place):
                cell = Cell(block.group, {}, workload, targets, mechanism, neighbours=neighbours)
                points.append(Point(there, cell, replicates))
    labels["mechanism"] = tuple(next(iter(chosen.values())))
    return Product(place, axes=labels, companions=companions, points=tuple(points))


def _condition(block: Block, coordinates: set[str], place: Place) -> Condition | None:
    if block.where is None:
        return None
    here, known = place / "where", {*coordinates, "mechanism", "group"}
    with errors_at(here):
        condition = conditions.parse(block.where)
    for name in sorted(condition.names - known):
        raise here.error(
            f"condition {block.where!r} uses {name!r}, which is not a coordinate of this block; "
            f"{nearest(name, sorted(known))}"
        )
    return condition


def _kept(
    condition: Condition | None, labels: Mapping[str, Scalar], block: Block, place: Place
) -> Sequence[int]:
    """The replicates of a point that meet the condition."""
    replicates = range(block.replicates)
    if condition is None:
        return replicates
    labels = {**labels, "group": block.group}
    with errors_at(place / "where"):
        if REPLICATE in condition.names:
            return [n for n in replicates if condition.holds({**labels, REPLICATE: n})]
        return replicates if condition.holds(labels) else ()


def _settings(block: Block, family: Family, place: Place) -> tuple[Setting, dict[str, BlockAxis]]:
    """What all points of a block share, and its axes except ``mechanism`` and ``replicate``."""
    kind = family.kind
    sources = [Setting({"workload": family.name})]
    axes: dict[str, BlockAxis] = {}

    def add(part: str, written: Mapping[str, WrittenParameter]) -> None:
        for name, parameter in written.items():
            if is_reserved(name):
                raise parameter.place.error(
                    f"{name!r} is a parameter of the {part} here and the name of something else in "
                    "the dataset; give the parameter another name"
                )
            taken = name in axes or any(name in source.labels for source in sources)
            coordinate = f"{part}_{name}" if taken else name
            settings = [
                Setting({coordinate: label(v)}, {(part, name): v}) for v in parameter.values
            ]
            if parameter.is_axis:
                axes[coordinate] = BlockAxis(parameter.place, tuple(settings))
            else:
                sources.append(settings[0])

    described, here = f"workload {family.name!r}", place / "workload"
    defaults, given = _owned("workload", described, family.params, block.workload.params, here)
    sources.append(defaults)
    add("workload", given)
    here = place / "targets"
    if isinstance(block.targets, WrittenTargets):
        rule, given = _rule(block.targets, here)
        sources.append(rule)
        add("targets", given)
    else:
        rules = []
        for at, written in enumerate(block.targets):
            rule, given = _rule(written, here / at)
            for name, parameter in given.items():
                if parameter.is_axis:
                    raise parameter.place.error(
                        f"{name!r} is an axis, but the block lists several targets; write one "
                        "entry with its own label for each value, or make these the only targets "
                        "of the block"
                    )
            rules.append(rule)
        axes["targets"] = BlockAxis(here, tuple(rules))
    if "neighbours" in block.model_fields_set:
        relations = _neighbours(block.neighbours, kind, place / "neighbours")
        if isinstance(block.neighbours, list):
            axes["neighbours"] = BlockAxis(place / "neighbours", relations)
        else:
            sources.append(relations[0])
    options: dict[str, WrittenParameter] = {}
    for at, entry in enumerate(block.mechanism):
        if block.options and available(entry):
            mechanism = _mechanism(entry, kind, place / "mechanism" / at)
            described, known = f"mechanism {mechanism.name!r}", mechanism.options_on(kind)
            options = written_parameters(described, known, block.options, place / "options")
    add("options", options)
    return _merged(sources), axes


def _rule(entry: WrittenTargets, place: Place) -> tuple[Setting, dict[str, WrittenParameter]]:
    """A targets rule with all its parameters, and those that were written."""
    rule = _named("targets rule", entry, workloads.targets.rules(), place)
    described = f"targets rule {rule.name!r}"
    setting, written = _owned("targets", described, rule.params, entry.params, place)
    return replace(setting, labels={"targets": entry.axis_label}, rule=rule.name), written


def _neighbours(written: Any, kind: Kind, place: Place) -> tuple[Setting, ...]:
    """One setting for each relation."""
    listed = written if isinstance(written, list) else [written]
    if not listed:
        raise place.error("this axis has no values; expected at least one")
    with errors_at(place):
        relations = [as_neighbours(relation) for relation in listed]
    if kind == "graph":
        raise place.error(
            "neighbours on a query graph; its own edges say which answers are adjacent: leave "
            "neighbours out"
        )
    return tuple(
        Setting({"neighbours": relation.title}, {("problem", "neighbours"): relation})
        for relation in relations
    )


def _zip(
    block: Block, axes: Mapping[str, BlockAxis], place: Place
) -> tuple[dict[str, BlockAxis], dict[str, str]]:
    """The axes that remain after zipping, and the axis of each companion, by name."""
    remaining = dict(axes)
    companions: dict[str, str] = {}
    for at, names in enumerate(block.zipped):
        here = place / "zip" / at
        for name in names:
            if name not in remaining:
                raise here.error(
                    f"{name!r} is not an axis, or is zipped already; {nearest(name, remaining)}"
                )
        sizes = {name: len(remaining[name].settings) for name in names}
        if len(sizes) < 2 or len(set(sizes.values())) > 1:
            listed = ", ".join(f"{name} has {size}" for name, size in sizes.items())
            raise here.error(f"zip needs two or more axes of equal length; here {listed}")
        rows = zip(*(remaining[name].settings for name in names), strict=True)
        remaining[names[0]] = BlockAxis(remaining[names[0]].place, tuple(map(_merged, rows)))
        for name in names[1:]:
            del remaining[name]
            companions[name] = names[0]
    return remaining, companions
