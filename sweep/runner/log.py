"""A store's log: what happened in its runs and when, and the progress of the current run.

The log's files are only for people: no result is derived from them, and a run continues if they
cannot be written. ``runs.jsonl`` has a line for every event; when it is large, it is renamed to
``runs.1.jsonl`` and replaces the previous file of that name. ``progress.json`` has the latest
statistics of the run.
"""

import json
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sweep.events import CellsDone, Event, Listener, Progressed, RunEnded, TaskRetried, ignore
from sweep.store.places import Location, parsed, unreadable

NAME, OLDER, PROGRESS = "runs.jsonl", "runs.1.jsonl", "progress.json"
_LARGEST_BYTES = {True: 2**21, False: 2**18}
"""Bytes at which ``runs.jsonl`` is renamed, on a disk (True) or in an object store (False)."""
_SECONDS = {True: 2.0, False: 10.0}
"""Seconds between two writes of frequent events, on a disk (True) or in an object store (False).

Each write to an object store rewrites the whole object. Rare events are written at once.
"""
_MOST_WAITING = 10_000
_FREQUENT = CellsDone | Progressed | TaskRetried


class Log:
    """Writes every event into a store's log, if possible, and passes the event on to a listener.

    Parameters
    ----------
    store : Path or ObjectPath
        The store's folder.
    listen : Listener
        Called with every event.
    """

    def __init__(self, store: Location, listen: Listener = ignore) -> None:
        self._store, self._listen = store, listen
        self._on_disk = isinstance(store, Path)
        self._waiting: deque[str] = deque(maxlen=_MOST_WAITING)
        self._latest: Progressed | None = None
        self._next = 0.0

    def __call__(self, event: Event) -> None:
        """Write an event into the log, and pass the event on to the listener."""
        now = time.monotonic()
        if isinstance(event, Progressed):
            self._latest = event
        else:
            self._waiting.append(_line(event))
        if isinstance(event, RunEnded) and self._latest is not None:
            self._latest = replace(self._latest, seconds=event.seconds)
        if now >= self._next or not isinstance(event, _FREQUENT):
            self._next = now + _SECONDS[self._on_disk]
            file = self._store / NAME
            with suppress(OSError):
                if self._latest is not None:
                    (self._store / PROGRESS).write_bytes(_line(self._latest).encode())
            with suppress(OSError):
                with suppress(FileNotFoundError):
                    if file.stat().st_size >= _LARGEST_BYTES[self._on_disk]:
                        file.rename(self._store / OLDER)
                file.append("".join(self._waiting).encode())
                self._waiting.clear()
        self._listen(event)


def lines(store: Location) -> Iterator[dict[str, Any]]:
    """Yield the events in a store's log, oldest first, each as a dict; skip damaged lines.

    Raises
    ------
    StoreError
        If the log cannot be read.
    """
    for file in (store / OLDER, store / NAME):
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise unreadable(file, error) from error
        for text in content.decode(errors="replace").splitlines():
            with suppress(ValueError):
                line = parsed(text, dict[str, Any])
                if isinstance(line.get("event"), str) and isinstance(line.get("time"), float | int):
                    yield line


def progress(store: Location) -> Progressed | None:
    """The latest statistics of the last run that solved anything; None if they cannot be read."""
    try:
        return parsed((store / PROGRESS).read_bytes(), Progressed)
    except (OSError, ValueError):
        return None


def _line(event: Event) -> str:
    content = {"event": type(event).__name__, "time": time.time(), **asdict(event)}
    return json.dumps(content, default=str) + "\n"
