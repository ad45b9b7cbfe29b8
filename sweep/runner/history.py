"""A store's history: a line for the start and the end of every run, and for what went wrong."""

import json
import time
from dataclasses import asdict

from sweep.events import (
    DatasetNotWritten,
    Event,
    Listener,
    OutputClosed,
    RunEnded,
    RunStarted,
    SchedulerLost,
    SegmentSetAside,
)
from sweep.store import disk
from sweep.store.folder import explained
from sweep.store.location import Location

NAME = "runs.jsonl"
_KEPT = RunStarted | RunEnded | SegmentSetAside | DatasetNotWritten | SchedulerLost | OutputClosed


def recorder(store: Location) -> Listener:
    """A listener that appends to ``runs.jsonl`` in the store."""

    def record(event: Event) -> None:
        if isinstance(event, _KEPT):
            line = {"event": type(event).__name__, "time": time.time(), **asdict(event)}
            with explained(store):
                disk.append(store / NAME, json.dumps(line, default=str) + "\n")

    return record
