"""Shows plans, and the state and history of stores, on the terminal and as JSON."""

import json
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from textwrap import indent
from typing import TYPE_CHECKING

from pydantic_core import to_jsonable_python
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from solvers.problem import memory
from sweep.errors import SweepError, command
from sweep.report import messages
from sweep.report.messages import format_counts, format_duration
from sweep.runner.log import LogLine
from sweep.runner.status import CellHistory, StoreStatus, Trouble
from sweep.state.stored import compare_code, count_statuses, load_stored
from sweep.store.journal import Journal
from sweep.store.paths import Location
from sweep.store.records import ForgottenRecord, Status
from sweep.store.records import to_json as record_json

if TYPE_CHECKING:
    from sweep.plan.dry_run import Plan

_SHOWN_REASONS = 5
"""The status names at most so many reasons of failures, so that it stays within a screen."""
_OLD_SECONDS = 60.0
"""The status says how old its figures are from this age on; a run renews them every few seconds."""
_OF_TROUBLE = ("cell", "attempt", "host", "error", "traceback")
"""The fields of a troubled cell's record that `status_json` includes."""


def describe_plan(plan: "Plan", store: str, machines: str) -> Table:
    """Return a plan of a run in ``store`` as a table of facts; ``machines`` is a remark in it."""
    groups = {
        f"group {group}": " x ".join(f"{n} {name}" for name, n in axes.items()) or "one cell"
        for group, axes in plan.groups.items()
    }
    for group in plan.without_reference:
        groups[f"group {group}"] += (
            "; gets no variance ratios: the reference mechanism is not among its mechanisms"
        )
    stored = format_counts({**plan.statuses, Status.PENDING.label: 0}) or "none"
    m, d = plan.largest_shape
    unbuilt = "too large to build: a solve needs its structure"
    size = format_size(8.0 * m * d) if plan.built else unbuilt
    limit = ""
    if plan.time_limit is not None:
        limit = f"{format_duration(plan.time_limit)} for a solve; one that does not stop by itself "
        limit += "is ended after twice that time plus 30 s"
    needed = f"about {format_size(plan.worker_bytes)} besides Python"
    if plan.worker_bytes > memory.usable():
        needed += f"; this machine has {format_size(memory.usable())}, and would refuse"
    seconds = format_duration(plan.seconds)
    facts = {
        **groups,
        "neighbours": plan.neighbours,
        "cells": f"{plan.cells:,}",
        "already in the store": f"{stored} ({store})",
        "other code": describe_other_code(plan.of_other_code, plan.statuses, store),
        "solves to do": f"{plan.solves:,}",
        "certificates to compute": f"{plan.bounds:,}",
        "tasks": f"{plan.tasks:,}",
        "largest matrix": f"{m:,} x {d:,}, {size} {plan.largest}",
        "memory of one worker": needed,
        "time limit": limit,
        "estimated time": f"about {seconds} with {plan.workers} workers {machines}",
    }
    return _make_table(facts)


def describe_status(status: StoreStatus) -> Table:
    """Return the state of a store as a table of facts."""
    reasons = []
    for alike in messages.group_alike(status.troubles)[:_SHOWN_REASONS]:
        errors = list(dict.fromkeys(trouble.record.reason for trouble in alike))
        others = " (and with other numbers)" if len(errors) > 1 else ""
        reasons.append(f"{len(alike):,} {errors[0]}{others}")
    if reasons:
        reasons.append(f"{command('status', status.store, '--errors')} shows each of them")
    damage = f"{status.damage}; 'sweep run' derives the dataset again" if status.damage else ""
    edited = ""
    if status.cells_edited_since:
        again = command("rerun", status.store, "--where \"code == 'edited'\"")
        edited = (
            f"{status.cells_edited_since:,} cells were solved before the module of their mechanism "
            f"or workload was edited without a new revision; {again} solves them again"
        )
    other = describe_other_code(status.cells_of_other_code, status.statuses, status.store)
    facts = {
        "experiment": status.experiment,
        "running": _describe_running(status),
        **_describe_progress(status),
        "done": messages.format_done(status.statuses, sum(status.statuses.values())),
        **{f"group {group}": format_counts(each) for group, each in status.groups.items()},
        "dataset": str(status.dataset or "not written yet"),
        "damaged": "\n".join(filter(None, (damage, *status.damaged_segments))),
        "troubled": "\n".join(reasons),
        "other code": other,
        "edited code": edited,
        "no groups": status.obstacle or "",
        "certificate": "\n".join(status.certificate_errors),
    }
    return _make_table(facts)


def _describe_running(status: StoreStatus) -> str:
    """Describe the process that runs a sweep in the store; if there is none, how to continue."""
    if status.running:
        since = f" for {format_duration(status.running_s)}" if status.running_s is not None else ""
        return f"{status.running}{since}"
    pending = status.statuses.get(Status.PENDING.label, 0)
    if not pending:
        return "no"
    since = (
        f", since {format_moment(time.time() - status.progress_age_s)}" if status.progress else ""
    )
    rerun = command("rerun", status.store, "--where \"status == 'pending'\"")
    left = messages.counted(pending, "cell")
    return f"no{since}: {left} left; the same 'sweep run' continues, or {rerun}"


def _describe_progress(status: StoreStatus) -> dict[str, str]:
    """Return facts about the current run or, if there is none, the last run."""
    progress = status.progress
    if progress is None:
        return {}
    took, age = format_duration(progress.seconds), status.progress_age_s
    spent = messages.format_core_hours(progress.core_s)
    slowest = "\n".join(f"{format_duration(s)}  {cell}" for cell, s in progress.slowest)
    if not status.running:
        return {"last run": f"{took}, {spent} core-hours", "slowest": slowest}
    return {
        "this run": messages.format_done(progress.statuses, progress.cells),
        "workers": f"{progress.workers:,} with {progress.threads:,} threads",
        "rate": f"{messages.format_rate(progress)}, {progress.share:.0%} of the work",
        "time": f"{took} so far, {messages.format_time_left(progress)}",
        "core-hours": f"{spent} spent, {messages.format_core_hours(progress.core_left_s)} left",
        "as of": f"{format_duration(age)} ago" if age > _OLD_SECONDS else "",
        "slowest": slowest,
    }


def describe_troubles(found: Iterable[Trouble]) -> Iterator[Text]:
    """Yield a line for every cell that failed, timed out or was lost, and its traceback."""
    for trouble in found:
        where = ", ".join(f"{name}={value}" for name, value in trouble.coords.items())
        error = f": {trouble.record.error}" if trouble.record.error else ""
        yield Text(f"{trouble.record.status.label}  {trouble.group} ({where}){error}")
        if trouble.record.traceback:
            yield Text(trouble.record.traceback)


def describe_log(lines: Iterable[LogLine]) -> Iterator[Text]:
    """Yield a line, with the time in UTC, for every log event that this version can read."""
    for line in lines:
        if line.event is not None:
            yield Text(f"{format_moment(line.time)}  {messages.describe(line.event)}")


def describe_history(cell: CellHistory) -> Iterator[Text]:
    """Yield the lines of a cell's history: its attempts with their full tracebacks."""
    labels = ", ".join(f"{name}={label}" for name, label in cell.coords.items())
    yield Text(f"cell {cell.cell}  {cell.group} ({labels})" if cell.group else f"cell {cell.cell}")
    if not cell.records:
        yield Text("  pending: nothing is recorded of it")
    for segment, record in cell.records:
        if isinstance(record, ForgottenRecord):
            yield Text(f"  forgotten [{segment}]")
            continue
        took = "" if record.runtime_s is None else f" in {format_duration(record.runtime_s)}"
        when = f"{format_moment(record.started)}  " if record.started else ""
        where = f" on {record.host}" if record.host else ""
        state = record.status.label.replace("_", " ")
        yield Text(f"  {when}attempt {record.attempt}{where}: {state}{took} [{segment}]")
        text = record.traceback.rstrip() or record.error
        if text:
            yield Text(indent(text, "    "))


def format_moment(seconds: float) -> str:
    """Format a time, in seconds since 1970, as date and time of day in UTC."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))
    except (ArithmeticError, OSError, ValueError):  # from a damaged file
        return "at an unknown time"


def describe_stale(store: str | Location) -> str:
    """Return a sentence on the cells of a store that were solved by other code.

    The sentence is empty if there are none, or if this is not known: the experiment cannot be laid
    out here, or the journal cannot be read.
    """
    try:
        stored = load_stored(store)
        ledger = Journal(stored.store.journal).refresh()
    except SweepError:
        return ""
    outdated, _ = compare_code(stored.cells, ledger)
    return describe_other_code(int(outdated.sum()), count_statuses(stored.cells.ids, ledger), store)


def describe_other_code(cells: int, statuses: Mapping[str, int], store: str | Location) -> str:
    """Return a sentence on the ``cells`` cells solved by other code; empty if there are none."""
    return (
        f"{cells:,} of {sum(statuses.values()):,} cells were solved by other code; "
        f"{command('rerun', store, '--stale')} solves them again"
        if cells
        else ""
    )


def format_size(number: float) -> str:
    """Format a number of bytes, such as ``3.2 GB``."""
    return decimal(int(number)) if math.isfinite(number) else "an unknown amount"


def _make_table(facts: Mapping[str, str]) -> Table:
    """Return a table with a row for every fact, by name, whose text is not empty."""
    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, text in facts.items():
        if text:
            table.add_row(Text(name), Text(text))
    return table


def status_json(status: StoreStatus, indent: int | None = 2) -> str:
    """Return a store's state and troubled cells as JSON; on one line if ``indent`` is None."""
    progress = status.progress
    left = ("left_s", "left_s_at_least", "left_s_at_most")
    described = {
        "store": str(status.store),
        "dataset": str(status.dataset) if status.dataset else None,
        "cells": sum(status.statuses.values()),
        "running_s": status.running_s,
        "cells_of_last_run": sum(progress.statuses.values()) if progress else 0,
        "progress": progress
        and {
            **vars(progress),
            **dict(zip(left, progress.left_s or (None, None, None), strict=True)),
            "slowest": [{"cell": cell, "seconds": seconds} for cell, seconds in progress.slowest],
            "age_s": status.progress_age_s,
        },
        "failures": dict(Counter(one.record.reason for one in status.troubles).most_common()),
        "damage": [damage for damage in (status.damage, *status.damaged_segments) if damage],
        "troubles": [
            {
                "group": trouble.group,
                "coordinates": dict(trouble.coords),
                "status": trouble.record.status.label,
                **{name: getattr(trouble.record, name) for name in _OF_TROUBLE},
            }
            for trouble in status.troubles
        ],
    }
    recorded = {name: value for name, value in vars(status).items() if name != "damaged_segments"}
    return to_json(recorded | described, indent)


def history_content(cell: CellHistory) -> dict[str, object]:
    """Return a cell's history as content for JSON."""
    return {
        "cell": cell.cell,
        "group": cell.group,
        "coordinates": dict(cell.coords),
        "records": [{"segment": name, **record_json(record)} for name, record in cell.records],
    }


def to_json(content: object, indent: int | None = 2) -> str:
    """Return content as JSON, with null for NaN and infinite numbers."""
    return json.dumps(to_jsonable_python(content, inf_nan_mode="null"), indent=indent)
