"""The known experiments, workloads, targets and mechanisms, for ``sweep list``."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import solvers
import workloads
from sweep.experiment.loading import experiments
from workloads.family import Family
from workloads.parameters import describe
from workloads.rules import Rule

Listing = Literal["experiments", "workloads", "targets", "mechanisms"]

LISTINGS: tuple[Listing, ...] = get_args(Listing)
"""The lists that ``sweep list`` prints, in its order."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a workload, of targets or of a mechanism.

    Attributes
    ----------
    expects : str
        The values that its type admits, in words.
    default : str
        The default, as written in YAML; empty if a value must be given.
    """

    name: str
    expects: str
    default: str


@dataclass(frozen=True)
class Entry:
    """Something that an experiment can name.

    Attributes
    ----------
    source : str
        Paper and section, or empty.
    params : tuple of Parameter
        Parameters of a workload or of targets, options of a mechanism.
    presets : tuple of str
        The names of a mechanism's presets, which are sets of options.
    """

    name: str
    summary: str
    source: str = ""
    params: tuple[Parameter, ...] = ()
    presets: tuple[str, ...] = ()


def catalog(listings: Sequence[str] = LISTINGS) -> Mapping[str, tuple[Entry, ...]]:
    """The entries of each listing, sorted by name."""
    return {listing: _LISTS[listing]() for listing in listings}


def troubles() -> tuple[str, ...]:
    """A sentence on each plug-in that is left out."""
    return solvers.registry.plugged().troubles + workloads.family.plugged().troubles


def _experiments() -> tuple[Entry, ...]:
    return tuple(Entry(name, title) for name, title in experiments().items())


def _made(known: Mapping[str, Family | Rule]) -> tuple[Entry, ...]:
    return tuple(
        Entry(item.name, item.summary, item.source, _parameters(item.params))
        for item in known.values()
    )


def _mechanisms() -> tuple[Entry, ...]:
    return tuple(
        Entry(m.name, m.summary, m.source, _parameters(m.options), tuple(m.presets))
        for m in solvers.all_mechanisms().values()
    )


_LISTS = {
    "experiments": _experiments,
    "workloads": lambda: _made(workloads.families()),
    "targets": lambda: _made(workloads.targets.rules()),
    "mechanisms": _mechanisms,
}


def _parameters(signature: Mapping[str, inspect.Parameter]) -> tuple[Parameter, ...]:
    return tuple(
        Parameter(name, _expected(p.annotation), _written(p.default))
        for name, p in signature.items()
    )


def _expected(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return " or ".join(map(str, get_args(annotation)))
    return describe(annotation)


def _written(default: Any) -> str:
    if default is inspect.Parameter.empty:
        return ""
    if default is None or isinstance(default, bool):
        return {None: "null", True: "true", False: "false"}[default]
    return str(default)
