"""An end to solves that do not listen to their time limit."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from sweep import journal
from sweep.graph import Item, Solve, Task
from sweep.outcome import CellRecord, Record, Status
from sweep.place import Place

_PATIENCE = 2.0
_GRACE_SECONDS = 30.0


@contextmanager
def watched(item: Item, task: Task, place: Place, records: list[Record] | None) -> Iterator[None]:
    """End the worker's process if an item does not listen to its time limit.

    Dask has no time limit for a task; the Nanny starts a new process. Before that the cells
    are recorded as ``timeout``, without numbers, and the task goes on behind them.
    """
    if item.time_limit is None or records is None or not _has_nanny():
        yield
        return
    seconds = _PATIENCE * item.time_limit + _GRACE_SECONDS
    earlier = list(records)

    def end() -> None:
        place.write(f"{task.name}+{len(earlier):06d}", [*earlier, *_late(item, seconds)])
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _late(item: Item, seconds: float) -> list[CellRecord]:
    if not isinstance(item, Solve):
        return []
    blank = CellRecord(
        cell="",
        solve=item.key,
        problem=item.problem,
        status=Status.TIMEOUT.label,
        host=socket.gethostname(),
        started=time.time() - seconds,
        error=f"did not stop within {seconds:g} s; its worker was ended",
    )
    return [replace(blank, cell=cell.id, attempt=cell.attempt) for cell in item.cells]


def _has_nanny() -> bool:
    from distributed import get_worker

    try:
        return get_worker().nanny is not None
    except ValueError:
        return False


def left_behind(task: Task, place: Place) -> list[Record]:
    """What the watchdog of an earlier try of this task wrote."""
    parts = sorted(place.journal.glob(f"{task.name}+*{journal.SUFFIX}"))
    return list(journal.read_segment(parts[-1])) if parts else []
