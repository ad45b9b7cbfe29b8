"""From an experiment to its grids: blocks multiplied out, united by group, checked."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import solvers
import workloads
from sweep import conditions
from sweep.cells import Grid, Scalar, Spec, digest
from sweep.choices import Labelled, Owner, family, label, methods, reported, rule, written
from sweep.errors import SweepError
from sweep.experiment import Block, Experiment, TargetsChoice
from sweep.layout import Point, Product, united
from sweep.yamlsource import Origin, Path
from workloads.parameters import nearest


def expand(experiment: Experiment) -> tuple[Grid, ...]:
    """The grids of an experiment, one for each group, every cell checked.

    Every workload and its targets are made once (of random ones the first replicate), so
    that a value out of range is found before anything runs.

    Parameters
    ----------
    experiment : Experiment

    Returns
    -------
    tuple of Grid
        In the order in which the groups come up.

    Raises
    ------
    ExperimentError
        If a name, a value or the layout is wrong; with file, line and key.
    """
    _check_reference(experiment)
    groups: dict[str, list[Product]] = {}
    checked: set[str] = set()
    for at, block in enumerate(experiment.blocks):
        multiplied = _multiplied(experiment, block, ("blocks", at))
        _check_problems(multiplied, experiment.origin, checked)
        groups.setdefault(block.group, []).append(multiplied)
    return tuple(
        united(name, parts, experiment.simulate, experiment.origin)
        for name, parts in groups.items()
    )


@dataclass(frozen=True)
class _Setting:
    """One value of an axis: its labels, and what it sets."""

    labels: Mapping[str, Scalar] = field(default_factory=dict)
    workload: Mapping[str, object] = field(default_factory=dict)
    targets: Mapping[str, object] = field(default_factory=dict)
    rule: Owner | None = None

    def merged(self, other: "_Setting") -> "_Setting":
        return _Setting(
            {**self.labels, **other.labels},
            {**self.workload, **other.workload},
            {**self.targets, **other.targets},
            other.rule or self.rule,
        )


@dataclass(frozen=True)
class _Factor:
    """An axis of a block before it is multiplied out."""

    path: Path
    settings: tuple[_Setting, ...]


def _multiplied(experiment: Experiment, block: Block, path: Path) -> Product:
    """All points of a block."""
    origin = experiment.origin
    workload = family(block.workload, origin, (*path, "workload"))
    fixed, factors = _factors(block, workload, origin, path)
    companions = _zip(block, factors, origin, path)
    chosen = _methods(experiment, block, path)
    labels = {name: tuple(s.labels[name] for s in f.settings) for name, f in factors.items()}
    for name, values in labels.items():
        _check_distinct(name, values, origin, factors[name].path)
    repeated = {"replicate": tuple(range(block.replicates))} if block.replicates > 1 else {}
    condition = _condition(block, {*fixed.labels, *labels, *companions}, origin, path)
    points = tuple(
        point
        for settings in product(*(factor.settings for factor in factors.values()))
        for point in _points(block, workload, _merged(fixed, settings), chosen, origin, path)
        if condition is None or _holds(condition, point, block.group, origin, path)
    )
    order = {**labels, **repeated, "method": tuple(one.label for one in chosen)}
    return Product(path, order, companions, points)


def _merged(fixed: _Setting, settings: Sequence[_Setting]) -> _Setting:
    for setting in settings:
        fixed = fixed.merged(setting)
    return fixed


def _points(
    block: Block,
    workload: Owner,
    setting: _Setting,
    chosen: Sequence[Labelled],
    origin: Origin,
    path: Path,
) -> Iterator[Point]:
    """The points of one setting of all axes: replicates x methods."""
    if setting.rule is None:
        raise origin.error(path, "has no targets rule")
    asked = workload.spec(setting.workload, origin, (*path, "workload"))
    targets = setting.rule.spec(setting.targets, origin, (*path, "targets"))
    uniform = workloads.targets.rules()[targets.name].uniform
    for replicate in range(block.replicates):
        seeded = _seeded(asked, replicate), _seeded(targets, replicate)
        repeated = {"replicate": replicate} if block.replicates > 1 else {}
        for method in chosen:
            yield Point(
                {**setting.labels, **repeated, "method": method.label},
                *seeded,
                method.asked,
                method.if_uniform if uniform else method.asked,
                replicate,
            )


def _seeded(spec: Spec, replicate: int) -> Spec:
    """The spec of a replicate: random ones count their seed up."""
    if not replicate or "seed" not in spec.params:
        return spec
    return Spec(spec.name, {**spec.params, "seed": spec.params["seed"] + replicate})


def _factors(
    block: Block, workload: Owner, origin: Origin, path: Path
) -> tuple[_Setting, dict[str, _Factor]]:
    """What all points of a block share, and its axes by name."""
    fixed = _Setting({"workload": workload.name})
    factors: dict[str, _Factor] = {}
    for name, parameter in written(workload, block.workload, origin, (*path, "workload")).items():
        settings = [_Setting({name: label(v)}, workload={name: v}) for v in parameter.values]
        if parameter.is_axis:
            factors[name] = _Factor(parameter.path, tuple(settings))
        else:
            fixed = fixed.merged(settings[0])
    if not isinstance(block.targets, TargetsChoice):
        entries = enumerate(block.targets)
        settings = [_rule(one, origin, (*path, "targets", at)) for at, one in entries]
        return fixed, factors | {"targets": _Factor((*path, "targets"), tuple(settings))}
    choice = block.targets
    owner = rule(choice, origin, (*path, "targets"))
    fixed = fixed.merged(_Setting({"targets": choice.called}, rule=owner))
    for name, parameter in written(owner, choice, origin, (*path, "targets")).items():
        taken = name in fixed.labels or name in factors
        called = f"targets_{name}" if taken else name
        settings = [_Setting({called: label(v)}, targets={name: v}) for v in parameter.values]
        if parameter.is_axis:
            factors[called] = _Factor(parameter.path, tuple(settings))
        else:
            fixed = fixed.merged(settings[0])
    return fixed, factors


def _rule(choice: TargetsChoice, origin: Origin, path: Path) -> _Setting:
    """One of several rules."""
    owner = rule(choice, origin, path)
    parameters = written(owner, choice, origin, path)
    for name, parameter in parameters.items():
        if parameter.is_axis:
            raise origin.error(
                parameter.path,
                f"{name!r} is an axis within one of several targets; give each value an entry "
                "with a label of its own, or the block only these targets",
            )
    return _Setting(
        {"targets": choice.called},
        targets={name: parameter.values[0] for name, parameter in parameters.items()},
        rule=owner,
    )


def _zip(block: Block, factors: dict[str, _Factor], origin: Origin, path: Path) -> dict[str, str]:
    """Make one factor of each set of zipped ones; the dimension of each companion."""
    companions: dict[str, str] = {}
    for at, names in enumerate(block.zipped):
        here = (*path, "zip", at)
        for name in names:
            if name not in factors:
                raise origin.error(
                    here, f"{name!r} is no axis to zip, or zipped already; {nearest(name, factors)}"
                )
        sizes = {name: len(factors[name].settings) for name in names}
        if len(names) < 2 or len(set(sizes.values())) > 1:
            listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
            raise origin.error(
                here, f"zipped axes need the same number of values, and two axes; these: {listed}"
            )
        first, *others = (factors[name].settings for name in names)
        rows = [_merged(head, tail) for head, *tail in zip(first, *others, strict=True)]
        factors[names[0]] = _Factor(factors[names[0]].path, tuple(rows))
        for name in names[1:]:
            del factors[name]
            companions[name] = names[0]
    return companions


def _methods(experiment: Experiment, block: Block, path: Path) -> list[Labelled]:
    """The methods of a block, the unavailable left out."""
    kind = workloads.families()[block.workload.name].kind
    found = [
        method
        for at, choice in enumerate(block.method)
        for method in methods(
            choice, kind, experiment.time_limit, experiment.origin, (*path, "method", at)
        )
    ]
    for at, method in enumerate(found):
        for other in found[:at]:
            if method.label == other.label:
                raise experiment.origin.error(
                    method.path,
                    f"two methods are called {method.label!r}; give one of them a label",
                )
    return found


def _condition(
    block: Block, names: set[str], origin: Origin, path: Path
) -> conditions.Condition | None:
    if block.where is None:
        return None
    known = sorted({*names, "method", "group"} | ({"replicate"} if block.replicates > 1 else set()))
    try:
        condition = conditions.parse(block.where)
    except SweepError as error:
        raise origin.error((*path, "where"), str(error)) from error
    for name in sorted(condition.names - set(known)):
        raise origin.error(
            (*path, "where"),
            f"condition {block.where!r} speaks of {name!r}, which is no coordinate of this block; "
            f"{nearest(name, known)}",
        )
    return condition


def _holds(
    condition: conditions.Condition, point: Point, group: str, origin: Origin, path: Path
) -> bool:
    try:
        return condition.holds({**point.labels, "group": group})
    except SweepError as error:
        raise origin.error((*path, "where"), str(error)) from error


def _check_distinct(name: str, values: Sequence[Scalar], origin: Origin, path: Path) -> None:
    seen: set[Scalar] = set()
    for value in values:
        if value in seen:
            raise origin.error(path, f"axis {name!r} holds {value!r} twice; name each value once")
        seen.add(value)


def _check_problems(part: Product, origin: Origin, checked: set[str]) -> None:
    """Make every workload and its targets of the first replicate, once."""
    made: tuple[str, workloads.Workload | workloads.QueryGraph] | None = None
    for point in part.points:
        if point.replicate:
            continue
        asked = digest(point.workload.content())
        problem = f"{asked} {digest(point.targets.content())}"
        if problem in checked:
            continue
        if made is None or made[0] != asked:
            with reported(origin, (*part.path, "workload")):
                made = asked, workloads.make(point.workload.name, **point.workload.params)
        with reported(origin, (*part.path, "targets")):
            workloads.targets.make(point.targets.name, made[1], **point.targets.params)
        checked.add(problem)


def _check_reference(experiment: Experiment) -> None:
    labels = [one.called for block in experiment.blocks for one in block.method]
    known = [*dict.fromkeys(labels), *solvers.methods()]
    if experiment.reference not in known:
        raise experiment.origin.error(
            ("reference",),
            f"no method is called {experiment.reference!r}; {nearest(experiment.reference, known)}",
        )
