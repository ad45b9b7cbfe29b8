"""What there is to sweep: the data behind ``sweep list``."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import solvers
import workloads
from sweep.experiment.schema import experiments
from workloads.parameters import describe

Kind = Literal["experiments", "workloads", "targets", "mechanisms"]

KINDS: tuple[Kind, ...] = get_args(Kind)
"""What can be listed."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a workload, of targets or of a mechanism.

    Attributes
    ----------
    name : str
        As written in an experiment.
    expects : str
        What its type asks for, in words.
    default : str
        As written in YAML; empty if it must be given.
    """

    name: str
    expects: str
    default: str


@dataclass(frozen=True)
class Entry:
    """One thing that an experiment can name.

    Attributes
    ----------
    name, summary, source : str
        Its name, one line on it, and where it comes from.
    params : tuple of Parameter
        What it takes.
    presets : tuple of str
        A mechanism's named sets of options.
    """

    name: str
    summary: str
    source: str = ""
    params: tuple[Parameter, ...] = ()
    presets: tuple[str, ...] = ()


def catalog(kinds: Sequence[Kind] = KINDS) -> Mapping[Kind, tuple[Entry, ...]]:
    """All entries of each kind, by name.

    Parameters
    ----------
    kinds : sequence of {"experiments", "workloads", "targets", "mechanisms"}
        What to list.

    Returns
    -------
    Mapping
    """
    return {kind: _LISTS[kind]() for kind in kinds}


def _experiments() -> tuple[Entry, ...]:
    return tuple(Entry(name, title) for name, title in experiments().items())


def _workloads() -> tuple[Entry, ...]:
    families = workloads.families().values()
    return tuple(Entry(f.name, f.summary, f.source, _parameters(f.params)) for f in families)


def _targets() -> tuple[Entry, ...]:
    rules = workloads.targets.rules().values()
    return tuple(Entry(r.name, r.summary, r.source, _parameters(r.params)) for r in rules)


def _mechanisms() -> tuple[Entry, ...]:
    return tuple(
        Entry(m.name, m.summary, m.source, _parameters(m.options), tuple(m.presets))
        for m in solvers.all_mechanisms().values()
    )


_LISTS = {
    "experiments": _experiments,
    "workloads": _workloads,
    "targets": _targets,
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
