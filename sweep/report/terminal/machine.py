"""Lists and states as JSON, for other programs; docs/results.md describes every key."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from pydantic_core import to_jsonable_python

from sweep.report.terminal.catalog import Entry
from sweep.report.terminal.sentences import reasons
from sweep.runner.status import StoreStatus, Trouble
from sweep.runner.stories import CellStory
from sweep.store.records import to_json


def listings(found: Mapping[str, tuple[Entry, ...]]) -> str:
    """The entries of each listing."""
    return _json(dict(found))


def state(found: StoreStatus, indent: int | None = 2) -> str:
    """The state of a store, with every troubled cell; in one line if there is no indent."""
    return _json(
        {
            "store": str(found.store),
            "experiment": found.experiment,
            "cells": sum(found.totals.values()),
            "statuses": dict(found.totals),
            "groups": {group: dict(counts) for group, counts in found.groups.items()},
            "running": found.user,
            "running_s": found.running_s,
            "cells_of_last_run": sum(found.progress.statuses.values()) if found.progress else 0,
            "progress": None if found.progress is None else _progress(found),
            "failures": dict(reasons(found.troubles)),
            "cells_of_other_code": found.of_other_code,
            "dataset": str(found.results) if found.results else None,
            "damage": [one for one in (found.damage, *found.damaged_segments) if one],
            "obstacle": found.obstacle,
            "certificate_errors": list(found.bound_errors),
            "troubles": [_trouble(one) for one in found.troubles],
        },
        indent,
    )


def _progress(found: StoreStatus) -> dict[str, Any]:
    """The figures of the run, the time left as three numbers."""
    figures = asdict(found.progress) if found.progress else {}
    bounds = figures.pop("left_s") or (None, None, None)
    slowest = [{"cell": cell, "seconds": seconds} for cell, seconds in figures.pop("slowest")]
    expected, least, most = bounds
    return {
        **figures,
        "left_s": expected,
        "left_s_at_least": least,
        "left_s_at_most": most,
        "slowest": slowest,
        "age_s": found.progress_age_s,
    }


def events(lines: Iterable[Mapping[str, Any]]) -> str:
    """Lines of a store's log."""
    return _json(list(lines))


def stories(found: Iterable[CellStory]) -> str:
    """What happened to some cells."""
    return _json(
        [
            {
                "cell": one.cell,
                "group": one.group,
                "coordinates": dict(one.coords),
                "records": [{"segment": name, **to_json(record)} for name, record in one.records],
            }
            for one in found
        ]
    )


def _trouble(one: Trouble) -> dict[str, Any]:
    record = one.record
    return {
        "group": one.group,
        "coordinates": dict(one.coords),
        "status": record.status.label,
        "cell": record.cell,
        "attempt": record.attempt,
        "host": record.host,
        "error": record.error,
        "traceback": record.traceback,
    }


def _json(content: Any, indent: int | None = 2) -> str:
    """JSON with null for numbers that it does not have."""
    return json.dumps(to_jsonable_python(content, inf_nan_mode="null"), indent=indent)
