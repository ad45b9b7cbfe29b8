"""The known experiments, workloads, targets and mechanisms, for ``sweep list``."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import solvers
import workloads
from sweep.experiment.loading import experiments
from workloads.parameters import Recipe, describe


@dataclass(frozen=True)
class Parameter:
    """A parameter of a workload, of targets or of a mechanism.

    With the values that its type admits, in words, and its default as written in YAML, if any.
    """

    name: str
    expects: str
    default: str


@dataclass(frozen=True)
class Entry:
    """Something that an experiment can name; presets are sets of a mechanism's options."""

    name: str
    summary: str
    source: str = ""
    params: tuple[Parameter, ...] = ()
    presets: tuple[str, ...] = ()


def catalog(kind: str | None = None) -> Mapping[str, tuple[Entry, ...]]:
    """The entries of one of `LISTINGS` or of all, sorted by name."""
    return {listing: LISTINGS[listing]() for listing in ([kind] if kind else LISTINGS)}


def troubles() -> tuple[str, ...]:
    """A sentence on each plug-in that is left out."""
    return solvers.registry.plugged().troubles + workloads.family.plugged().troubles


def _made(known: Mapping[str, Recipe]) -> tuple[Entry, ...]:
    return tuple(
        Entry(item.name, item.summary, item.source, _parameters(item.params))
        for item in known.values()
    )


LISTINGS: Mapping[str, Callable[[], tuple[Entry, ...]]] = {
    "experiments": lambda: tuple(Entry(*listed) for listed in experiments().items()),
    "workloads": lambda: _made(workloads.families()),
    "targets": lambda: _made(workloads.targets.rules()),
    "mechanisms": lambda: tuple(
        Entry(m.name, m.summary, m.source, _parameters(m.options), tuple(m.presets))
        for m in solvers.all_mechanisms().values()
    ),
}
"""What makes the lists that ``sweep list`` prints, in its order."""


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
