"""Lists and states as JSON, for other programs; docs/results.md describes every key."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from pydantic_core import to_jsonable_python

from sweep.report.terminal.catalog import Entry
from sweep.report.terminal.messages import reasons
from sweep.runner.history import CellHistory
from sweep.runner.status import StoreStatus, Trouble
from sweep.store.records import to_json


def listings(listed: Mapping[str, tuple[Entry, ...]]) -> str:
    """The entries of each listing."""
    return _json(dict(listed))


def state(status: StoreStatus, indent: int | None = 2) -> str:
    """The state of a store, with every troubled cell; in one line if there is no indent."""
    return _json(
        {
            "store": str(status.store),
            "experiment": status.experiment,
            "cells": sum(status.totals.values()),
            "statuses": dict(status.totals),
            "groups": {group: dict(counts) for group, counts in status.groups.items()},
            "running": status.user,
            "running_s": status.running_s,
            "cells_of_last_run": sum(status.progress.statuses.values()) if status.progress else 0,
            "progress": None if status.progress is None else _progress(status),
            "failures": dict(reasons(status.troubles)),
            "cells_of_other_code": status.of_other_code,
            "dataset": str(status.results) if status.results else None,
            "damage": [damage for damage in (status.damage, *status.damaged_segments) if damage],
            "obstacle": status.obstacle,
            "certificate_errors": list(status.bound_errors),
            "troubles": [_trouble(trouble) for trouble in status.troubles],
        },
        indent,
    )


def _progress(status: StoreStatus) -> dict[str, Any]:
    """The figures of the run, the time left as three numbers."""
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


def events(lines: Iterable[Mapping[str, Any]]) -> str:
    """Lines of a store's log."""
    return _json(list(lines))


def histories(cells: Iterable[CellHistory]) -> str:
    """What happened to some cells."""
    return _json(
        [
            {
                "cell": cell.cell,
                "group": cell.group,
                "coordinates": dict(cell.coords),
                "records": [{"segment": name, **to_json(record)} for name, record in cell.records],
            }
            for cell in cells
        ]
    )


def _trouble(trouble: Trouble) -> dict[str, Any]:
    record = trouble.record
    return {
        "group": trouble.group,
        "coordinates": dict(trouble.coords),
        "status": record.status.label,
        "cell": record.cell,
        "attempt": record.attempt,
        "host": record.host,
        "error": record.error,
        "traceback": record.traceback,
    }


def _json(content: Any, indent: int | None = 2) -> str:
    """JSON, with null for NaN and infinite numbers."""
    return json.dumps(to_jsonable_python(content, inf_nan_mode="null"), indent=indent)
