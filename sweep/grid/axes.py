"""The axes of a block before they are multiplied out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import workloads
from sweep.experiment.blocks import Block, TargetsChoice
from sweep.experiment.canonical import Scalar
from sweep.experiment.document import Origin, Path
from sweep.grid.mechanisms import available, mechanism_owner
from sweep.grid.parameters import Owner, Written, family, label, rule, written
from workloads.parameters import nearest


@dataclass(frozen=True)
class Setting:
    """One value of an axis, or of several together.

    Attributes
    ----------
    labels : Mapping[str, Scalar]
        By coordinate.
    values : Mapping[tuple of str, object]
        The parameters that it sets, by part (workload, targets or options) and name.
    rule : Owner, optional
        The targets rule that it sets.
    """

    labels: Mapping[str, Scalar] = field(default_factory=dict)
    values: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    rule: Owner | None = None

    def of(self, part: str) -> dict[str, Any]:
        """The parameters of one part."""
        return {name: value for (owner, name), value in self.values.items() if owner == part}

    def merged(self, other: "Setting") -> "Setting":
        """Both; ``other`` decides where they differ."""
        return Setting(
            {**self.labels, **other.labels},
            {**self.values, **other.values},
            other.rule or self.rule,
        )


@dataclass(frozen=True)
class BlockAxis:
    """An axis: where it was written, and its values."""

    path: Path
    settings: tuple[Setting, ...]

    def labels(self, name: str) -> tuple[Scalar, ...]:
        """The labels of one of its coordinates."""
        return tuple(setting.labels[name] for setting in self.settings)


@dataclass(frozen=True)
class BlockAxes:
    """A block's axes.

    Attributes
    ----------
    workload : Owner
        The workload family.
    fixed : Setting
        What all points share.
    axes : Mapping[str, Factor]
        By name, in order; mechanisms and replicates are not among them.
    companions : Mapping[str, str]
        The axis of each coordinate that is zipped to one.
    """

    workload: Owner
    fixed: Setting
    axes: Mapping[str, BlockAxis]
    companions: Mapping[str, str]

    @property
    def names(self) -> set[str]:
        """All coordinates."""
        return {*self.fixed.labels, *self.axes, *self.companions}


def all_of(settings: Iterable[Setting]) -> Setting:
    """The settings merged."""
    return reduce(Setting.merged, settings, Setting())


def block_axes(block: Block, origin: Origin, path: Path) -> BlockAxes:
    """The axes of a block, names and types checked, zipped ones together.

    Raises
    ------
    ExperimentError
        If a name or a value is wrong, or axes do not zip.
    """
    owner = family(block.workload, origin, (*path, "workload"))
    sources = [Setting({"workload": owner.name})]
    axes: dict[str, BlockAxis] = {}

    def add(part: str, name: str, parameter: Written) -> None:
        taken = name in axes or any(name in source.labels for source in sources)
        called = f"{part}_{name}" if taken else name
        settings = tuple(
            Setting({called: label(value)}, {(part, name): value}) for value in parameter.values
        )
        if parameter.is_axis:
            axes[called] = BlockAxis(parameter.path, settings)
        else:
            sources.append(settings[0])

    given = written(owner, block.workload.params, origin, (*path, "workload"))
    for name, parameter in given.items():
        add("workload", name, parameter)
    here = (*path, "targets")
    if isinstance(block.targets, TargetsChoice):
        chosen = rule(block.targets, origin, here)
        sources.append(Setting({"targets": block.targets.called}, rule=chosen))
        for name, parameter in written(chosen, block.targets.params, origin, here).items():
            add("targets", name, parameter)
    else:
        rules = (_rule(one, origin, (*here, at)) for at, one in enumerate(block.targets))
        axes["targets"] = BlockAxis(here, tuple(rules))
    for name, parameter in _options(block, origin, path).items():
        add("options", name, parameter)
    zipped, companions = _zip(block, axes, origin, path)
    for name, factor in zipped.items():
        _check_distinct(name, factor, origin)
    return BlockAxes(owner, all_of(sources), zipped, companions)


def _rule(choice: TargetsChoice, origin: Origin, path: Path) -> Setting:
    """One of several rules."""
    owner = rule(choice, origin, path)
    parameters = written(owner, choice.params, origin, path)
    for name, parameter in parameters.items():
        if parameter.is_axis:
            raise origin.error(
                parameter.path,
                f"{name!r} is an axis within one of several targets; give each value an entry "
                "with a label of its own, or the block only these targets",
            )
    return Setting(
        {"targets": choice.called},
        {("targets", name): parameter.values[0] for name, parameter in parameters.items()},
        owner,
    )


def _options(block: Block, origin: Origin, path: Path) -> dict[str, Written]:
    """The options of all mechanisms, checked against each of them."""
    kind = workloads.families()[block.workload.name].kind
    found: dict[str, Written] = {}
    for at, choice in enumerate(block.mechanism):
        if block.options and available(choice):
            owner = mechanism_owner(choice, kind, origin, (*path, "mechanism", at))
            found = written(owner, block.options, origin, (*path, "options"))
    return found


def _zip(
    block: Block, axes: Mapping[str, BlockAxis], origin: Origin, path: Path
) -> tuple[dict[str, BlockAxis], dict[str, str]]:
    """The axes with zipped ones made one, and the axis of each companion."""
    left = dict(axes)
    companions: dict[str, str] = {}
    for at, names in enumerate(block.zipped):
        here = (*path, "zip", at)
        for name in names:
            if name not in left:
                raise origin.error(
                    here, f"{name!r} is no axis to zip, or zipped already; {nearest(name, left)}"
                )
        sizes = {name: len(left[name].settings) for name in names}
        if len(sizes) < 2 or len(set(sizes.values())) > 1:
            listed = ", ".join(f"{name} has {size}" for name, size in sizes.items())
            raise origin.error(
                here, f"zipped axes are two or more with as many values each; here {listed}"
            )
        rows = zip(*(left[name].settings for name in names), strict=True)
        left[names[0]] = BlockAxis(left[names[0]].path, tuple(map(all_of, rows)))
        for name in names[1:]:
            del left[name]
            companions[name] = names[0]
    return left, companions


def _check_distinct(name: str, factor: BlockAxis, origin: Origin) -> None:
    seen: set[Scalar] = set()
    for value in factor.labels(name):
        if value in seen:
            raise origin.error(
                factor.path, f"axis {name!r} holds {value!r} twice; name each value once"
            )
        seen.add(value)
