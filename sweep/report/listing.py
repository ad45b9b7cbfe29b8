"""Everything that an experiment can name: the listings of ``sweep list``."""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

import solvers
import workloads
from sweep.errors import SweepError
from sweep.experiment.files import list_experiments
from workloads.parameters import describe, nearest

Entry = Mapping[str, Any]
"""An entry of a listing, with the keys ``name``, ``summary``, ``source``, ``params`` and
``presets``. For each parameter in ``params``, ``expects`` describes the values that its type
allows, and ``default`` is its default as YAML, or empty. docs/results.md describes these keys."""


def list_entries(kind: str | None = None) -> dict[str, list[Entry]]:
    """Return the entries of the listing ``kind``, or of all `LISTINGS`, by the listing's name.

    Raises
    ------
    SweepError
        If there is no such listing.
    """
    if kind not in (None, *LISTINGS):
        raise SweepError(f"there is no listing {kind!r}; {nearest(kind, list(LISTINGS))}")
    return {listing: LISTINGS[listing]() for listing in ([kind] if kind else LISTINGS)}


def list_troubles() -> tuple[str, ...]:
    """Return a sentence for each plug-in that could not be loaded."""
    return solvers.mechanism.plugged().troubles + workloads.family.plugged().troubles


def _describe(
    one: Any, params: Mapping[str, inspect.Parameter], presets: Iterable[str] = ()
) -> Entry:
    listed = [
        {"name": param, "expects": describe(p.annotation), "default": _format_default(p.default)}
        for param, p in params.items()
    ]
    about = {"name": one.name, "summary": one.summary.replace("``", ""), "source": one.source}
    return {**about, "params": listed, "presets": list(presets)}


LISTINGS: Mapping[str, Callable[[], list[Entry]]] = {
    "experiments": lambda: [
        {"name": name, "summary": title, "source": "", "params": [], "presets": []}
        for name, title in list_experiments().items()
    ],
    "workloads": lambda: [_describe(f, f.params) for f in workloads.families().values()],
    "targets": lambda: [_describe(r, r.params) for r in workloads.targets.RULES.values()],
    "mechanisms": lambda: [
        _describe(m, m.params(), m.presets) for m in solvers.all_mechanisms().values()
    ],
}
"""The functions that return the listings of ``sweep list``, by name, in the order of printing."""


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
        presets = f"; presets: {', '.join(entry['presets'])}" if entry["presets"] else ""
        params = (f"{p['name']}={p['default']}".removesuffix("=") for p in entry["params"])
        texts = (entry["summary"] + presets, ", ".join(params))[: len(shown.columns) - 1]
        shown.add_row(Text(entry["name"], style="bold"), *map(Text, texts))
    return shown
