"""The ``mechanism`` axis: the mechanisms that each entry of a block stands for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import solvers
from solvers.mechanism import Mechanism
from sweep.experiment.blocks import WrittenMechanism
from sweep.experiment.document import Place
from sweep.experiment.labels import label
from sweep.grid.parameters import (
    Parameters,
    Signature,
    canonical,
    errors_at,
    written_parameters,
)
from sweep.grid.specs import MechanismSpec
from sweep.grid.union import check_points
from workloads.family import Kind


@dataclass(frozen=True)
class MechanismEntry:
    """A label of the ``mechanism`` axis, unique within the block, and what it stands for.

    Where all targets are equal ``uniform_mechanism`` is solved: CA for wCA-I, for instance.
    """

    label: str
    mechanism: MechanismSpec
    uniform_mechanism: MechanismSpec


def available(entry: WrittenMechanism) -> bool:
    """False for an entry with ``when: available`` whose mechanism or preset does not exist."""
    known = solvers.all_mechanisms()
    has_it = entry.name in known and (entry.preset or "") in ("", *known[entry.name].presets)
    return has_it or entry.when != "available"


def mechanism_signature(entry: WrittenMechanism, kind: Kind, place: Place) -> Signature:
    """The options that the entry's mechanism takes on a kind of workload."""
    with errors_at(place / "name"):
        mechanism = solvers.mechanism.find(entry.name, kind)
        return Signature("mechanism", mechanism.name, mechanism.options_on(kind))


def mechanisms(
    entry: WrittenMechanism,
    common: Mapping[str, Any],
    kind: Kind,
    place: Place,
) -> Iterator[MechanismEntry]:
    """The mechanisms that one entry stands for: several where an option is a list of values.

    None if it says ``when: available`` and its mechanism does not exist. The block writes the
    ``common`` options for all its mechanisms.

    Raises
    ------
    ExperimentError
        If the mechanism, its preset or an option is wrong.
    """
    if not available(entry):
        return
    preset = entry.preset
    signature = mechanism_signature(entry, kind, place)
    options, mechanism = signature.params, solvers.all_mechanisms()[entry.name]
    with errors_at(place / "preset"):
        mechanism.resolve(preset, {}, kind)
    axes = written_parameters(signature, entry.params, place)
    check_points({name: len(option.values) for name, option in axes.items()}, place)
    for values in product(*(option.values for option in axes.values())):
        given = dict(zip(axes, values, strict=True))
        suffix = ", ".join(f"{n}={label(given[n])}" for n in axes if axes[n].is_axis)
        own = {**(mechanism.presets[preset] if preset else {}), **common, **given}
        with errors_at(place, own):
            resolved = mechanism.resolve(None, own, kind)
        chosen = {n: canonical(v, options[n].annotation) for n, v in resolved.items()}
        yield MechanismEntry(
            f"{entry.axis_label} ({suffix})" if suffix else entry.axis_label,
            MechanismSpec(mechanism.name, chosen),
            _uniform_mechanism(mechanism, options, chosen, kind),
        )


def _uniform_mechanism(
    mechanism: Mechanism, options: Parameters, chosen: Mapping[str, Any], kind: Kind
) -> MechanismSpec:
    """The mechanism that this one becomes when all targets are equal, if their options agree."""
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
