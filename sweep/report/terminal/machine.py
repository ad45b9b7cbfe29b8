"""Lists and states as JSON, for other programs; docs/results.md describes every key."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sweep.report.terminal.catalog import Entry
from sweep.runner.status import StoreStatus, Trouble


def listings(found: Mapping[str, tuple[Entry, ...]]) -> str:
    """The entries of each listing."""
    return _json({listing: [asdict(one) for one in entries] for listing, entries in found.items()})


def state(found: StoreStatus) -> str:
    """The state of a store, with every troubled cell."""
    return _json(
        {
            "store": str(found.store),
            "experiment": found.experiment,
            "cells": sum(found.totals.values()),
            "statuses": dict(found.totals),
            "groups": {group: dict(counts) for group, counts in found.groups.items()},
            "running": found.user,
            "running_s": found.running_s,
            "cells_of_last_run": found.done_since,
            "cells_of_other_code": found.of_other_code,
            "dataset": str(found.results) if found.results else None,
            "damage": [one for one in (found.damage, *found.damaged_segments) if one],
            "obstacle": found.obstacle,
            "certificate_errors": list(found.bound_errors),
            "troubles": [_trouble(one) for one in found.troubles],
        }
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


def _json(content: Any) -> str:
    return json.dumps(_finite(content), indent=2, allow_nan=False)


def _finite(content: Any) -> Any:
    """The content with null for numbers that JSON does not have."""
    if isinstance(content, Mapping):
        return {str(name): _finite(one) for name, one in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(one) for one in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
