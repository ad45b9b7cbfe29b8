"""Plans, the states of stores and their history, for the terminal and as JSON."""

import json
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from textwrap import indent
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sweep import events
from sweep.report import messages
from sweep.report.messages import counts, duration
from sweep.runner.status import CellHistory, StoreStatus, Trouble
from sweep.store.places import Location
from sweep.store.records import ForgottenRecord, Status
from sweep.store.records import to_json as record_json

if TYPE_CHECKING:
    from sweep.plan.dry_run import Plan

_SHOWN_REASONS = 5
_OLD_SECONDS = 60.0
_KEYS = {
    "totals": "statuses",
    "user": "running",
    "of_other_code": "cells_of_other_code",
    "bound_errors": "certificate_errors",
    **dict.fromkeys(("results", "progress_age_s", "damaged_segments"), ""),
}
"""`StoreStatus` fields with other keys in JSON; a field without a key is inside another."""


def planned(plan: "Plan", where: str, machines: str) -> Table:
    """A plan as a table of facts, with the store and the machines for which it is timed."""
    table = _facts()
    for group, axes in plan.groups.items():
        product = " x ".join(f"{length} {name}" for name, length in axes.items())
        table.add_row(f"group {escape(group)}", product or "one cell")
    table.add_row("neighbours", escape(plan.neighbours))
    table.add_row("cells", f"{plan.cells:,}")
    stored = counts({**plan.statuses, Status.PENDING.label: 0}) or "none"
    table.add_row("already in the store", f"{stored} [dim]{escape(where)}")
    for group in plan.without_reference:
        table.add_row(
            f"group {escape(group)}",
            "gets no variance ratios: the reference mechanism is not among its mechanisms",
        )
    table.add_row("solves to do", f"{plan.solves:,}")
    table.add_row("certificates to compute", f"{plan.bounds:,}")
    table.add_row("tasks", f"{plan.tasks:,}")
    m, d = plan.largest_shape
    size = size_of(8.0 * m * d) if plan.built else "never built: only its structure is used"
    shape = f"{_count(m)} x {_count(d)}"
    table.add_row("largest matrix", f"{shape}, {size} [dim]{escape(plan.largest)}")
    table.add_row("memory of one worker", _memory(plan.worker_bytes))
    if plan.time_limit is not None:
        table.add_row(
            "time limit",
            f"{duration(plan.time_limit)} for a solve; what does not stop by itself is ended after "
            "twice that and 30 s",
        )
    table.add_row(
        "estimated time",
        f"about {duration(plan.seconds)} [dim]with {plan.workers} workers {machines}",
    )
    return table


def store_status(status: StoreStatus) -> Table:
    """The state of a store as a table of facts."""
    table = _facts()
    total = sum(status.totals.values())
    table.add_row("experiment", escape(status.experiment))
    table.add_row("running", escape(_running(status)))
    for name, value in _figures(status):
        table.add_row(name, value)
    table.add_row("done", messages.done(status.totals, total))
    for group, statuses in status.groups.items():
        table.add_row(f"group {escape(group)}", counts(statuses))
    table.add_row("dataset", escape(str(status.results)) if status.results else "not written yet")
    if status.damage:
        table.add_row("damaged", escape(f"{status.damage}; 'sweep run' derives the dataset again"))
    for damage in status.damaged_segments:
        table.add_row("damaged", escape(damage))
    for troubles in messages.alike(status.troubles)[:_SHOWN_REASONS]:
        errors = list(dict.fromkeys(trouble.record.reason for trouble in troubles))
        others = " (and with other numbers)" if len(errors) > 1 else ""
        table.add_row("troubled", escape(f"{len(troubles):,} {errors[0]}{others}"))
    if status.troubles:
        table.add_row("", f"'sweep status {status.store} --errors' shows each of them")
    if other := other_code(status.of_other_code, status.totals, status.store):
        table.add_row("other code", escape(other))
    if status.obstacle:
        table.add_row("no groups", escape(status.obstacle))
    for error in status.bound_errors:
        table.add_row("certificate", escape(error))
    return table


def _running(status: StoreStatus) -> str:
    """Who runs a sweep in the store and since when; if nobody does, the command to continue."""
    if status.user:
        since = f" for {duration(status.running_s)}" if status.running_s is not None else ""
        return f"{status.user}{since}"
    pending = status.totals.get(Status.PENDING.label, 0)
    if not pending:
        return "no"
    since = f", since {moment(time.time() - status.progress_age_s)}" if status.progress else ""
    return (
        f"no{since}: {messages.counted(pending, 'cell')} left; the same 'sweep run' continues, or "
        f"""sweep rerun {status.store} --where "status == 'pending'" """.rstrip()
    )


def _figures(status: StoreStatus) -> Iterator[tuple[str, str]]:
    """The progress of the run, or the figures of the last run."""
    progress = status.progress
    if progress is None:
        return
    if status.user:
        yield "this run", escape(messages.done(progress.statuses, progress.cells))
        yield "workers", f"{progress.workers:,} with {progress.threads:,} threads"
        yield "rate", f"{messages.rate(progress)}, {progress.share:.0%} of the work"
        yield "time", f"{duration(progress.seconds)} so far, {messages.time_left(progress)}"
        core_left = messages.core_hours(progress.core_left_s)
        yield "core-hours", f"{messages.core_hours(progress.core_s)} spent, {core_left} left"
        if status.progress_age_s > _OLD_SECONDS:
            yield "as of", f"{duration(status.progress_age_s)} ago"
    else:
        took = duration(progress.seconds)
        yield "last run", f"{took}, {messages.core_hours(progress.core_s)} core-hours"
    for cell, seconds in progress.slowest:
        yield "slowest", escape(f"{duration(seconds)}  {cell}")


def troubles(found: Iterable[Trouble]) -> Iterator[Text]:
    """A line for every cell that failed, timed out or was lost, and its traceback."""
    for trouble in found:
        where = ", ".join(f"{name}={value}" for name, value in trouble.coords.items())
        error = f": {trouble.record.error}" if trouble.record.error else ""
        yield Text(f"{trouble.record.status.label}  {trouble.group} ({where}){error}")
        if trouble.record.traceback:
            yield Text(trouble.record.traceback)


def logged(lines: Iterable[Mapping[str, Any]]) -> Iterator[Text]:
    """One line for every log event that this version knows, with its time in UTC."""
    for line in lines:
        event = events.from_json(line)
        if event is not None:
            yield Text(f"{moment(line['time'])}  {messages.message(event)}")


def history(cell: CellHistory) -> Iterator[Text]:
    """The history of a cell: its attempts with their full tracebacks."""
    labels = ", ".join(f"{name}={label}" for name, label in cell.coords.items())
    yield Text(f"cell {cell.cell}  {cell.group} ({labels})" if cell.group else f"cell {cell.cell}")
    if not cell.records:
        yield Text("  pending: nothing is recorded of it")
    for segment, record in cell.records:
        if isinstance(record, ForgottenRecord):
            yield Text(f"  forgotten [{segment}]")
            continue
        took = "" if record.runtime_s is None else f" in {duration(record.runtime_s)}"
        when = f"{moment(record.started)}  " if record.started else ""
        where = f" on {record.host}" if record.host else ""
        state = record.status.label.replace("_", " ")
        yield Text(f"  {when}attempt {record.attempt}{where}: {state}{took} [{segment}]")
        text = record.traceback.rstrip() or record.error
        if text:
            yield Text(indent(text, "    "))


def moment(seconds: float) -> str:
    """A time in seconds since 1970 as UTC date and time."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))
    except (ArithmeticError, OSError, ValueError):  # from a damaged file
        return "at an unknown time"


def other_code(cells: int, statuses: Mapping[str, int], store: str | Location) -> str:
    """A sentence on cells that were solved by other code; empty if there are none."""
    return (
        f"{cells:,} of {sum(statuses.values()):,} cells were solved by other code; "
        f"'sweep rerun {store} --stale' solves them again"
        if cells
        else ""
    )


def size_of(number: float) -> str:
    """Bytes in words."""
    if not math.isfinite(number):
        return "an unknown amount"
    for unit, length in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= length:
            return f"{number / length:.3g} {unit}"
    return f"{number:.0f} bytes"


def _memory(planned: float) -> str:
    from solvers.problem import memory

    needed = f"about {size_of(planned)} besides Python"
    if planned <= memory.usable():
        return needed
    return f"{needed}; this machine has {size_of(memory.usable())}, and would refuse"


def _facts() -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    return table


def _count(number: int) -> str:
    return f"{number:,}" if number < 10**9 else f"{float(number):.2e}"


def status_json(status: StoreStatus, indent: int | None = 2) -> str:
    """The state of a store with all troubled cells; on one line without an indent."""
    failures = Counter(trouble.record.reason for trouble in status.troubles)
    derived = {
        "store": str(status.store),
        "dataset": str(status.results) if status.results else None,
        "cells": sum(status.totals.values()),
        "cells_of_last_run": sum(status.progress.statuses.values()) if status.progress else 0,
        "progress": None if status.progress is None else _progress(status),
        "failures": dict(failures.most_common()),
        "damage": [damage for damage in (status.damage, *status.damaged_segments) if damage],
        "troubles": [_trouble(trouble) for trouble in status.troubles],
    }
    own = {_KEYS.get(name, name): value for name, value in vars(status).items()}
    return to_json({name: value for name, value in own.items() if name} | derived, indent)


def _progress(status: StoreStatus) -> dict[str, Any]:
    """The figures of the run, with the remaining time as three numbers."""
    figures = asdict(status.progress) if status.progress else {}
    bounds = figures.pop("left_s") or (None, None, None)
    slowest = [{"cell": cell, "seconds": seconds} for cell, seconds in figures.pop("slowest")]
    expected, least, most = bounds
    return {
        **figures,
        "left_s": expected,
        "left_s_at_least": least,
        "left_s_at_most": most,
        "slowest": slowest,
        "age_s": status.progress_age_s,
    }


def histories_json(cells: Iterable[CellHistory]) -> str:
    """The histories of some cells."""
    return to_json(
        [
            {
                "cell": cell.cell,
                "group": cell.group,
                "coordinates": dict(cell.coords),
                "records": [
                    {"segment": name, **record_json(record)} for name, record in cell.records
                ],
            }
            for cell in cells
        ]
    )


def _trouble(trouble: Trouble) -> dict[str, Any]:
    names = ("cell", "attempt", "host", "error", "traceback")
    return {
        "group": trouble.group,
        "coordinates": dict(trouble.coords),
        "status": trouble.record.status.label,
        **{name: getattr(trouble.record, name) for name in names},
    }


def to_json(content: Any, indent: int | None = 2) -> str:
    """JSON, with null for NaN and infinite numbers."""
    return json.dumps(to_jsonable_python(content, inf_nan_mode="null"), indent=indent)
