"""The axes of a block, from which its grid is the product."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import workloads
from solvers.problem.neighbours import as_neighbours
from sweep.experiment.blocks import Block, WrittenTargets
from sweep.experiment.canonical import Scalar
from sweep.experiment.document import Place
from sweep.experiment.labels import label
from sweep.experiment.variables import is_reserved
from sweep.grid.mechanisms import available, mechanism_signature
from sweep.grid.parameters import (
    Signature,
    WrittenParameter,
    errors_at,
    targets_signature,
    workload_signature,
    written_parameters,
)
from workloads.family import Kind
from workloads.parameters import nearest


@dataclass(frozen=True)
class Setting:
    """One value of an axis, or of several together.

    ``values`` are parameters by part (workload, targets, problem or options) and name.
    """

    labels: Mapping[str, Scalar] = field(default_factory=dict)
    values: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    rule: Signature | None = None

    def of(self, part: str) -> dict[str, Any]:
        """The parameters of one part."""
        return {name: value for (at, name), value in self.values.items() if at == part}

    def merged(self, other: "Setting") -> "Setting":
        """Both settings together; ``other`` decides where they differ."""
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

    def labels(self, name: str) -> tuple[Scalar, ...]:
        """The labels of one of its coordinates."""
        return tuple(setting.labels[name] for setting in self.settings)


@dataclass(frozen=True)
class BlockAxes:
    """The content of a block, before its axes are multiplied out.

    All points share what is ``fixed``. The ``axes`` are in order, without mechanisms and
    replicates; ``companions`` gives for each coordinate that is zipped to an axis the name of that
    axis.
    """

    workload: Signature
    kind: Kind
    fixed: Setting
    axes: Mapping[str, BlockAxis]
    companions: Mapping[str, str]

    @property
    def names(self) -> set[str]:
        """The names of all coordinates."""
        return {*self.fixed.labels, *self.axes, *self.companions}


def all_of(settings: Iterable[Setting]) -> Setting:
    """The settings merged."""
    return reduce(Setting.merged, settings, Setting())


def block_axes(block: Block, place: Place) -> BlockAxes:
    """The axes of a block, names and types checked, zipped axes joined.

    Raises
    ------
    ExperimentError
        If a name or a value is wrong, or axes do not zip.
    """
    workload = workload_signature(block.workload, place / "workload")
    kind = workloads.families()[workload.name].kind
    sources = [Setting({"workload": workload.name})]
    axes: dict[str, BlockAxis] = {}

    def add(part: str, name: str, parameter: WrittenParameter) -> None:
        if is_reserved(name):
            raise parameter.place.error(
                f"{name!r} is a parameter of the {part} here and the name of something else in the "
                "dataset; call the parameter otherwise"
            )
        taken = name in axes or any(name in source.labels for source in sources)
        coordinate = f"{part}_{name}" if taken else name
        settings = tuple(
            Setting({coordinate: label(value)}, {(part, name): value}) for value in parameter.values
        )
        if parameter.is_axis:
            axes[coordinate] = BlockAxis(parameter.place, settings)
        else:
            sources.append(settings[0])

    given = written_parameters(workload, block.workload.params, place / "workload")
    for name, parameter in given.items():
        add("workload", name, parameter)
    here = place / "targets"
    if isinstance(block.targets, WrittenTargets):
        rule = targets_signature(block.targets, here)
        sources.append(Setting({"targets": block.targets.axis_label}, rule=rule))
        for name, parameter in written_parameters(rule, block.targets.params, here).items():
            add("targets", name, parameter)
    else:
        rules = (_rule(written, here / at) for at, written in enumerate(block.targets))
        axes["targets"] = BlockAxis(here, tuple(rules))
    if "neighbours" in block.model_fields_set:
        relations = _neighbours(block.neighbours, kind, place / "neighbours")
        if isinstance(block.neighbours, list):
            axes["neighbours"] = BlockAxis(place / "neighbours", relations)
        else:
            sources.append(relations[0])
    for name, parameter in _options(block, kind, place).items():
        add("options", name, parameter)
    zipped, companions = _zip(block, axes, place)
    for name, axis in zipped.items():
        twice = [label for label, count in Counter(axis.labels(name)).items() if count > 1]
        if twice:
            raise axis.place.error(f"axis {name!r} holds {twice[0]!r} twice; write each value once")
    return BlockAxes(workload, kind, all_of(sources), zipped, companions)


def _rule(entry: WrittenTargets, place: Place) -> Setting:
    """One of several targets rules, as a value of the axis ``targets``."""
    rule = targets_signature(entry, place)
    parameters = written_parameters(rule, entry.params, place)
    for name, parameter in parameters.items():
        if parameter.is_axis:
            raise parameter.place.error(
                f"{name!r} is an axis, but the block lists several targets; write one entry with "
                "its own label for each value, or make these the only targets of the block"
            )
    return Setting(
        {"targets": entry.axis_label},
        {("targets", name): parameter.values[0] for name, parameter in parameters.items()},
        rule,
    )


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


def _options(block: Block, kind: Kind, place: Place) -> dict[str, WrittenParameter]:
    """The options of all mechanisms, checked against each of them."""
    options: dict[str, WrittenParameter] = {}
    for at, entry in enumerate(block.mechanism):
        if block.options and available(entry):
            signature = mechanism_signature(entry, kind, place / "mechanism" / at)
            options = written_parameters(signature, block.options, place / "options")
    return options


def _zip(
    block: Block, axes: Mapping[str, BlockAxis], place: Place
) -> tuple[dict[str, BlockAxis], dict[str, str]]:
    """The axes after zipping, and the axis that each companion runs along."""
    left = dict(axes)
    companions: dict[str, str] = {}
    for at, names in enumerate(block.zipped):
        here = place / "zip" / at
        for name in names:
            if name not in left:
                raise here.error(
                    f"{name!r} is not an axis, or is zipped already; {nearest(name, left)}"
                )
        sizes = {name: len(left[name].settings) for name in names}
        if len(sizes) < 2 or len(set(sizes.values())) > 1:
            listed = ", ".join(f"{name} has {size}" for name, size in sizes.items())
            raise here.error(f"zip needs two or more axes of equal length; here {listed}")
        rows = zip(*(left[name].settings for name in names), strict=True)
        left[names[0]] = BlockAxis(left[names[0]].place, tuple(map(all_of, rows)))
        for name in names[1:]:
            del left[name]
            companions[name] = names[0]
    return left, companions
