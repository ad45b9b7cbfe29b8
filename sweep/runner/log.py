"""A store's log: what happened in its runs and when, and the progress of the current run.

The log's files are only for people: no result is derived from them, and a run continues if they
cannot be written. ``runs.jsonl`` has a line for every event, except for the frequent ones: ends of
tasks, statistics and new datasets. ``progress.json`` has the latest statistics of the run.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import get_args

from sweep.events import CellsDone, DatasetWritten, Event, Listener, Progressed, RunEnded
from sweep.store.paths import Location, parsed, unreadable

NAME, PROGRESS = "runs.jsonl", "progress.json"
_SECONDS = {True: 2.0, False: 10.0}
"""Seconds between two writes of the statistics, on a disk (True) or in an object store (False)."""
_KINDS: Mapping[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}


class Log:
    """Writes events into a store's log, if possible, and passes every event on to a listener.

    Parameters
    ----------
    store : Path or ObjectPath
        The store's folder.
    listen : Listener, optional
        Called with every event.
    """

    def __init__(self, store: Location, listen: Listener | None = None) -> None:
        self._store, self._listen = store, listen
        self._latest: Progressed | None = None
        self._next = 0.0

    def __call__(self, event: Event) -> None:
        """Write an event into the log, unless it is frequent; pass it on to the listener."""
        if isinstance(event, Progressed):
            self._latest = event
        elif not isinstance(event, CellsDone | DatasetWritten):
            with suppress(OSError):
                (self._store / NAME).append(_line(event).encode())
        if isinstance(event, RunEnded) and self._latest is not None:
            self._latest, self._next = replace(self._latest, seconds=event.seconds), 0.0
        now = time.monotonic()
        if self._latest is not None and now >= self._next:
            self._next = now + _SECONDS[isinstance(self._store, Path)]
            with suppress(OSError):
                (self._store / PROGRESS).write_bytes(_line(self._latest).encode())
        if self._listen is not None:
            self._listen(event)


@dataclass(frozen=True)
class LogLine:
    """A line of a store's log.

    Attributes
    ----------
    time : float
        When the event happened, in seconds since 1970, UTC.
    event : Event or None
        The event; None if this version cannot read it.
    content : Mapping[str, object]
        The whole line.
    """

    time: float
    event: Event | None
    content: Mapping[str, object]


def read_lines(store: Location) -> Iterator[LogLine]:
    """Yield the lines of a store's log, oldest first; skip damaged lines.

    Raises
    ------
    StoreError
        If the log cannot be read.
    """
    file = store / NAME
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise unreadable(file, error) from error
    for text in content.decode(errors="replace").splitlines():
        with suppress(ValueError):
            line, event = parsed(text, dict[str, object]), None
            kind, moment = line.get("event"), line.get("time")
            if isinstance(kind, str) and isinstance(moment, float | int):
                with suppress(KeyError, ValueError):
                    event = parsed(text, _KINDS[kind])
                yield LogLine(moment, event, line)


def read_progress(store: Location) -> Progressed | None:
    """Return the latest statistics of the last run that solved anything, if they can be read."""
    try:
        return parsed((store / PROGRESS).read_bytes(), Progressed)
    except (OSError, ValueError):
        return None


def _line(event: Event) -> str:
    content = {"event": type(event).__name__, "time": time.time(), **asdict(event)}
    return json.dumps(content, default=str) + "\n"
