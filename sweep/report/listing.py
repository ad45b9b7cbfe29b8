"""Everything that an experiment can name: the listings of ``sweep list``."""

import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

import solvers
import workloads
from solvers.mechanism import Mechanism
from sweep.errors import SweepError
from sweep.experiment.files import list_experiments
from workloads.family import Family
from workloads.parameters import describe, nearest
from workloads.targets import Rule

KINDS = ("experiments", "workloads", "targets", "mechanisms")
"""The names of the listings, in the order of printing."""


@dataclass(frozen=True)
class Parameter:
    """A parameter: the values that its type allows, and its default as YAML, or an empty text."""

    name: str
    expects: str
    default: str


@dataclass(frozen=True)
class Entry:
    """An entry of a listing; docs/results.md describes the fields as keys of JSON."""

    name: str
    summary: str
    source: str = ""
    params: Sequence[Parameter] = ()
    presets: Sequence[str] = ()


def list_entries(kind: str) -> list[Entry]:
    """Return the entries of a listing.

    Raises
    ------
    SweepError
        If there is no such listing.
    """
    match kind:
        case "experiments":
            return [Entry(name, title) for name, title in list_experiments().items()]
        case "workloads":
            return [_describe(family, family.params) for family in workloads.families().values()]
        case "targets":
            return [_describe(rule, rule.params) for rule in workloads.targets.RULES.values()]
        case "mechanisms":
            return [_describe(m, m.params(), m.presets) for m in solvers.all_mechanisms().values()]
        case _:
            raise SweepError(f"there is no listing {kind!r}; {nearest(kind, KINDS)}")


def list_troubles() -> tuple[str, ...]:
    """Return a sentence for each plug-in that could not be loaded."""
    return solvers.mechanism.plugged().troubles + workloads.family.plugged().troubles


def _describe(
    what: Family | Rule | type[Mechanism],
    params: Mapping[str, inspect.Parameter],
    presets: Iterable[str] = (),
) -> Entry:
    listed = [
        Parameter(name, describe(param.annotation), _format_default(param.default))
        for name, param in params.items()
    ]
    return Entry(what.name, what.summary.replace("``", ""), what.source, listed, list(presets))


def _format_default(default: object) -> str:
    if default is inspect.Parameter.empty:
        return ""
    return json.dumps(default) if default is None or isinstance(default, bool) else str(default)


def make_table(kind: str, listed: Iterable[Entry]) -> Table:
    """Return one listing of the catalog as a table."""
    shown = Table("name", "what it is", title=kind, title_justify="left", box=None, padding=(0, 2))
    if kind != "experiments":
        shown.add_column("parameters")
    for entry in listed:
        presets = f"; presets: {', '.join(entry.presets)}" if entry.presets else ""
        params = (f"{p.name}={p.default}".removesuffix("=") for p in entry.params)
        texts = (entry.summary + presets, ", ".join(params))[: len(shown.columns) - 1]
        shown.add_row(Text(entry.name, style="bold"), *map(Text, texts))
    return shown
