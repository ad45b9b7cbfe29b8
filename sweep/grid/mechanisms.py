"""The ``mechanism`` axis: what every entry of a block stands for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import solvers
from solvers.mechanism import Mechanism
from sweep.experiment.blocks import MechanismChoice
from sweep.experiment.document import Origin, Path
from sweep.grid.cells import MechanismSpec
from sweep.grid.parameters import (
    Kind,
    Owner,
    Parameters,
    Written,
    canonical,
    label,
    reported,
    written,
)
from sweep.grid.union import check_points


@dataclass(frozen=True)
class MechanismEntry:
    """A mechanism of the ``mechanism`` axis.

    Attributes
    ----------
    label : str
        Its label there.
    path : Path
        Where it was written.
    asked, if_uniform : MechanismSpec
        What is asked for, and the mechanism that it is where all targets are equal.
    """

    label: str
    path: Path
    asked: MechanismSpec
    solved_when_uniform: MechanismSpec


def available(choice: MechanismChoice) -> bool:
    """False for what is only wanted when available, and is not."""
    known = solvers.all_mechanisms()
    has_it = choice.name in known and (choice.preset or "") in ("", *known[choice.name].presets)
    return has_it or choice.when != "available"


def mechanism_owner(choice: MechanismChoice, kind: Kind, origin: Origin, path: Path) -> Owner:
    """The mechanism of that name, with the options that it takes on a kind of workload."""
    with reported(origin, (*path, "name")):
        mechanism = solvers.mechanism.find(choice.name)
        return Owner("mechanism", mechanism.name, mechanism.options_on(kind))


def mechanisms(
    choice: MechanismChoice,
    common: Mapping[str, Any],
    kind: Kind,
    origin: Origin,
    path: Path,
) -> Iterator[MechanismEntry]:
    """The mechanisms that one entry stands for: several where an option is a list of values.

    Parameters
    ----------
    choice : MechanismChoice
        The entry.
    common : Mapping[str, object]
        Options of all mechanisms of the block.
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
        If the mechanism, its preset or an option is wrong.
    """
    if not available(choice):
        return
    preset = choice.preset
    owner = mechanism_owner(choice, kind, origin, path)
    options, mechanism = owner.params, solvers.all_mechanisms()[choice.name]
    with reported(origin, (*path, "preset")):
        mechanism.resolve(preset, {}, kind)
    axes = written(owner, choice.params, origin, path)
    check_points({name: len(option.values) for name, option in axes.items()}, origin, path)
    for given, suffix in _combinations(axes):
        own = {**(mechanism.presets[preset] if preset else {}), **common, **given}
        with reported(origin, path, own):
            resolved = mechanism.resolve(None, own, kind)
        chosen = {n: canonical(v, options[n].annotation) for n, v in resolved.items()}
        yield MechanismEntry(
            f"{choice.called} ({suffix})" if suffix else choice.called,
            path,
            MechanismSpec(mechanism.name, chosen),
            _solved_when_uniform(mechanism, options, chosen, kind),
        )


def _combinations(axes: Mapping[str, Written]) -> Iterator[tuple[dict[str, Any], str]]:
    """Every combination of option values, and what tells it from the others."""
    varied = [name for name, option in axes.items() if option.is_axis]
    for values in product(*(option.values for option in axes.values())):
        given = dict(zip(axes, values, strict=True))
        yield given, ", ".join(f"{name}={label(given[name])}" for name in varied)


def _solved_when_uniform(
    mechanism: Mechanism, options: Parameters, chosen: Mapping[str, Any], kind: Kind
) -> MechanismSpec:
    """The mechanism that this one is when all targets are equal, if their options agree."""
    if mechanism.same_when_uniform is None:
        return MechanismSpec(mechanism.name, chosen)
    other = solvers.mechanism.find(mechanism.same_when_uniform)
    theirs = other.options_on(kind)
    shared = {name: value for name, value in chosen.items() if name in theirs}
    own = {name: value for name, value in chosen.items() if name not in theirs}
    if any(value != options[name].default for name, value in own.items()):
        return MechanismSpec(mechanism.name, chosen)
    resolved = other.resolve(None, shared, kind)
    return MechanismSpec(
        other.name, {n: canonical(v, theirs[n].annotation) for n, v in resolved.items()}
    )
