"""The ``method`` axis: what every entry of a block stands for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import solvers
from solvers.method import Method
from sweep.blocks import MethodChoice
from sweep.cells import MethodSpec
from sweep.choices import Kind, Owner, Parameters, Written, canonical, label, reported, written
from sweep.layout import check_points
from sweep.yamlsource import Origin, Path


@dataclass(frozen=True)
class Labelled:
    """A method of the ``method`` axis.

    Attributes
    ----------
    label : str
        Its label there.
    path : Path
        Where it was written.
    asked, if_uniform : MethodSpec
        What is asked for, and the method that it is where all targets are equal.
    """

    label: str
    path: Path
    asked: MethodSpec
    if_uniform: MethodSpec


def available(choice: MethodChoice) -> bool:
    """False for what is only wanted when available, and is not."""
    known = solvers.methods()
    has_it = choice.name in known and (choice.preset or "") in ("", *known[choice.name].presets)
    return has_it or choice.when != "available"


def method_owner(choice: MethodChoice, kind: Kind, origin: Origin, path: Path) -> Owner:
    """The method of that name, with the options that it takes on a kind of workload."""
    with reported(origin, (*path, "name")):
        method = solvers.method.find(choice.name)
        return Owner("method", method.name, method.options_on(kind))


def methods(
    choice: MethodChoice,
    common: Mapping[str, Any],
    kind: Kind,
    origin: Origin,
    path: Path,
) -> Iterator[Labelled]:
    """The methods that one entry stands for: several where an option is a list of values.

    Parameters
    ----------
    choice : MethodChoice
        The entry.
    common : Mapping[str, object]
        Options of all methods of the block.
    kind : {"matrix", "graph"}
        The kind of workload.
    origin, path
        Where the entry stands.

    Returns
    -------
    iterator of Labelled
        Of none if the entry is only wanted when available, and is not.

    Raises
    ------
    ExperimentError
        If the method, its preset or an option is wrong.
    """
    if not available(choice):
        return
    preset = choice.preset
    owner = method_owner(choice, kind, origin, path)
    options, method = owner.params, solvers.methods()[choice.name]
    with reported(origin, (*path, "preset")):
        method.resolve(preset, {}, kind)
    axes = written(owner, choice.params, origin, path)
    check_points({name: len(option.values) for name, option in axes.items()}, origin, path)
    for given, suffix in _combinations(axes):
        own = {**(method.presets[preset] if preset else {}), **common, **given}
        with reported(origin, path, own):
            resolved = method.resolve(None, own, kind)
        chosen = {n: canonical(v, options[n].annotation) for n, v in resolved.items()}
        yield Labelled(
            f"{choice.called} ({suffix})" if suffix else choice.called,
            path,
            MethodSpec(method.name, chosen),
            _solved_when_uniform(method, options, chosen, kind),
        )


def _combinations(axes: Mapping[str, Written]) -> Iterator[tuple[dict[str, Any], str]]:
    """Every combination of option values, and what tells it from the others."""
    varied = [name for name, option in axes.items() if option.is_axis]
    for values in product(*(option.values for option in axes.values())):
        given = dict(zip(axes, values, strict=True))
        yield given, ", ".join(f"{name}={label(given[name])}" for name in varied)


def _solved_when_uniform(
    method: Method, options: Parameters, chosen: Mapping[str, Any], kind: Kind
) -> MethodSpec:
    """The method that this one is when all targets are equal, if their options agree."""
    if method.same_when_uniform is None:
        return MethodSpec(method.name, chosen)
    other = solvers.method.find(method.same_when_uniform)
    theirs = other.options_on(kind)
    shared = {name: value for name, value in chosen.items() if name in theirs}
    own = {name: value for name, value in chosen.items() if name not in theirs}
    if any(value != options[name].default for name, value in own.items()):
        return MethodSpec(method.name, chosen)
    resolved = other.resolve(None, shared, kind)
    return MethodSpec(
        other.name, {n: canonical(v, theirs[n].annotation) for n, v in resolved.items()}
    )
