"""Everything that an experiment can name: the listings of ``sweep list``."""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.markup import escape
from rich.table import Table

import solvers
import workloads
from sweep.experiment.loading import experiments
from workloads.parameters import Recipe, describe


@dataclass(frozen=True)
class Parameter:
    """A parameter of a workload, of targets or of a mechanism.

    ``expects`` describes in words the values that its type admits; ``default`` is as written in
    YAML, or empty.
    """

    name: str
    expects: str
    default: str


@dataclass(frozen=True)
class Entry:
    """Something that an experiment can name; ``presets`` names sets of a mechanism's options."""

    name: str
    summary: str
    source: str = ""
    params: tuple[Parameter, ...] = ()
    presets: tuple[str, ...] = ()


def catalog(kind: str | None = None) -> Mapping[str, tuple[Entry, ...]]:
    """The entries of one of `LISTINGS`, or of all of them, by listing."""
    return {listing: LISTINGS[listing]() for listing in ([kind] if kind else LISTINGS)}


def troubles() -> tuple[str, ...]:
    """A sentence for each plug-in that was left out."""
    return solvers.mechanism.plugged().troubles + workloads.family.plugged().troubles


def _made(known: Mapping[str, Recipe]) -> tuple[Entry, ...]:
    return tuple(
        Entry(item.name, item.summary, item.source, _parameters(item.params))
        for item in known.values()
    )


LISTINGS: Mapping[str, Callable[[], tuple[Entry, ...]]] = {
    "experiments": lambda: tuple(Entry(*listed) for listed in experiments().items()),
    "workloads": lambda: _made(workloads.families()),
    "targets": lambda: _made(workloads.targets.RULES),
    "mechanisms": lambda: tuple(
        Entry(m.name, m.summary, m.source, _parameters(m.options), tuple(m.presets))
        for m in solvers.all_mechanisms().values()
    ),
}
"""The functions that make the listings of ``sweep list``, by name, in order."""


def _parameters(signature: Mapping[str, inspect.Parameter]) -> tuple[Parameter, ...]:
    return tuple(
        Parameter(name, describe(p.annotation), _written(p.default))
        for name, p in signature.items()
    )


def _written(default: Any) -> str:
    if default is inspect.Parameter.empty:
        return ""
    if default is None or isinstance(default, bool):
        return {None: "null", True: "true", False: "false"}[default]
    return str(default)


def table(kind: str, listed: Iterable[Entry]) -> Table:
    """One listing of the catalog as a table."""
    shown = Table("name", "what it is", title=kind, title_justify="left", box=None, padding=(0, 2))
    takes = kind != "experiments"
    if takes:
        shown.add_column("parameters")
    for entry in listed:
        presets = f"; presets: {', '.join(entry.presets)}" if entry.presets else ""
        row = [f"[bold]{escape(entry.name)}[/]", escape(entry.summary + presets)]
        params = (f"{p.name}={p.default}" if p.default else p.name for p in entry.params)
        shown.add_row(*row, *([escape(", ".join(params))] if takes else []))
    return shown


def to_json(listed: Mapping[str, tuple[Entry, ...]]) -> str:
    """The entries of each listing as JSON; docs/results.md describes every key."""
    return json.dumps(
        {kind: [asdict(entry) for entry in found] for kind, found in listed.items()}, indent=2
    )
