"""The report of a store: one HTML file with everything, for readers without a shell."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from sweep.dataset import reading
from sweep.dataset.pivots import label_text
from sweep.dataset.reading import Results, open_dataset
from sweep.errors import SweepError
from sweep.experiment.schema import Experiment
from sweep.report import drawing, figures, frames, messages, output, states, tables
from sweep.report.tables import Table
from sweep.runner.status import Trouble
from sweep.runner.status import status as status_of
from sweep.store.places import Location

_MOST_REASONS = 20
_MOST_CELLS = 200
"""How many cells of one reason are listed."""
_HOUR = 3600.0
_MADE_WITH = (
    ("Software", "package_versions"),
    ("Python", "python_version"),
    ("Revision", "git_revision"),
    ("BLAS", "blas"),
    ("Processor", "cpu_model"),
    ("Platform", "platform"),
)


def report(store: str | Location) -> str:
    """The report of a store, finished or not: a page that needs no other file and no network.

    Raises
    ------
    StoreError
        If the folder is not a store, or has no dataset yet.
    """
    results = open_dataset(store)
    experiment = reading.experiment_of(results)
    state = status_of(store)
    drawn, undrawn = _drawn(results, experiment)
    cells = frames.to_frame(results)
    counts = frames.statuses(results)
    failures = _failures(state.troubles)
    return output.rendered(
        "report.html",
        experiment=experiment,
        state=frames.state(results),
        counts=counts,
        total=sum(counts.values()),
        running=state.user,
        facts=_facts(results, cells, experiment),
        warnings=_warnings(state, results),
        failures=failures[:_MOST_REASONS],
        further_reasons=len(failures) - _MOST_REASONS,
        tables=tables.all_tables(results, experiment),
        drawn=drawn,
        undrawn=undrawn,
        times=_times(cells),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        store=str(store),
    )


def _drawn(results: Results, experiment: Experiment) -> tuple[list[dict[str, str]], list[str]]:
    """The declared figures, or a fitting one, and run times; with reasons for missing ones."""
    drawn: list[dict[str, str]] = []
    missing: list[str] = []
    for name in [*figures.by_default(results, experiment), "scaling"]:
        try:
            pictures = figures.pictures(results, experiment, name)
            drawn += [
                {"title": picture.title, "svg": drawing.inline(picture, f"f{len(drawn) + at}")}
                for at, picture in enumerate(pictures)
            ]
        except SweepError as error:
            missing.append(f"{name}: {error}")
    return drawn, missing


def _facts(results: Results, cells: pd.DataFrame, experiment: Experiment) -> list[tuple[str, str]]:
    """Where and with what the cells were solved."""
    attributes = results.attrs
    started = cells["started"].dropna() if "started" in cells else pd.Series(dtype="datetime64[ms]")
    hosts = sorted({host for host in cells["host"] if host}) if "host" in cells else []
    spent = _spent(cells)
    listed = [
        ("Source", experiment.source),
        ("Neighbours", frames.facts(results)["neighbours"]),
        ("Reference", f"{experiment.reference}: variance ratios are at its privacy cost"),
        ("Budgets", f"δ = {', '.join(f'{delta:g}' for delta in experiment.delta)}"),
        ("Solved on", ", ".join(hosts)),
        ("Solved from", f"{started.min():%Y-%m-%d %H:%M} UTC" if len(started) else ""),
        ("Solved until", f"{started.max():%Y-%m-%d %H:%M} UTC" if len(started) else ""),
        ("Processor time", f"{spent['cpu_s'].sum() / _HOUR:.3g} core-hours of solving"),
        *((label, str(attributes.get(name, ""))) for label, name in _MADE_WITH),
        ("Solved with", "; ".join(sorted(filter(None, set(cells["versions"]))))),
    ]
    return [(label, text) for label, text in listed if text]


def _spent(cells: pd.DataFrame) -> pd.DataFrame:
    """Totals over solves: a solve that several cells share counts once."""
    return cells[cells["runtime_s"].notna()].drop_duplicates("solve")


def _times(cells: pd.DataFrame) -> Table | None:
    """Run times by mechanism."""
    spent = _spent(cells)
    if spent.empty:
        return None
    by = spent.groupby("mechanism", sort=False)
    shown = pd.DataFrame(
        {
            "solves": by.size().map(str),
            "median (s)": by["runtime_s"].median().map("{:.2g}".format),
            "longest (s)": by["runtime_s"].max().map("{:.2g}".format),
            "core-hours": (by["cpu_s"].sum() / _HOUR).map("{:.2g}".format),
            "largest rise of memory": by["peak_memory_bytes"].max().map(states.size_of),
        }
    )
    shown.index.name = "mechanism"
    return Table("Run times of the solves alone", spent, shown)


def _warnings(state: Any, results: Results) -> list[str]:
    """Warnings above the tables: damage, results of other code, uncommitted changes."""
    total = sum(state.totals.values())
    other = states.other_code(state.of_other_code, total, state.store)
    revision = str(results.attrs.get("git_revision", ""))
    sentences = [
        state.damage,
        *state.damaged_segments,
        *state.bound_errors,
        state.obstacle,
        other if state.of_other_code else None,
        f"The code was changed since revision {revision}." if revision.endswith("-dirty") else None,
    ]
    return [sentence for sentence in sentences if sentence]


def _failures(troubles: Sequence[Trouble]) -> list[dict[str, Any]]:
    """The cells that failed, timed out or were lost, by reason; the most frequent one first."""
    return [
        {
            "state": cells[0].record.status.label,
            "error": cells[0].record.error,
            "others": any(cell.record.error != cells[0].record.error for cell in cells),
            "count": len(cells),
            "cells": [_placed(trouble) for trouble in cells[:_MOST_CELLS]],
            "traceback": cells[0].record.traceback,
        }
        for cells in messages.alike(troubles)
    ]


def _placed(trouble: Trouble) -> str:
    """Which cell it is, and where it was tried."""
    record = trouble.record
    where = ", ".join(f"{name} = {label_text(value)}" for name, value in trouble.coords.items())
    host = f" on {record.host}" if record.host else ""
    return f"{trouble.group}: {where} (attempt {record.attempt}{host})".lstrip(": ")
