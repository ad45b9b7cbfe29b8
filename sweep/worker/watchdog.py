"""A last resort against solves that ignore their time limit: ending the worker's process."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from sweep.plan.items import Item, Solve
from sweep.store.records import BoundRecord, CellRecord, Record, Status
from sweep.store.segments import SUFFIX, segment_text
from sweep.worker.guard import Deadline, guard
from sweep.worker.recording import Recording

_LIMIT_FACTOR = 2.0
GRACE_SECONDS = 30.0
"""Seconds beyond twice its time limit after which a solve is ended from outside."""


@contextmanager
def watched(item: Item, records: Recording) -> Iterator[None]:
    """End the worker's process if an item ignores its time limit.

    Dask has no time limits for tasks. The cells are recorded as ``timeout``, without numbers,
    before the process ends; the nanny starts a new one, in which the task continues after them.
    Where the store is not within reach nothing is recorded, and the command takes it as a death.
    Another process does it, since C code may hold the GIL of this one.
    """
    if item.time_limit is None or not _has_nanny():
        yield
        return
    seconds = _LIMIT_FACTOR * item.time_limit + GRACE_SECONDS
    segment = records.next_segment()
    text = segment_text(_late(item, seconds)) if records.reachable else ""
    guard().watch(segment, Deadline(seconds, records.journal, segment + SUFFIX, text))
    try:
        yield
    finally:
        guard().call_off(segment)


def _late(item: Item, seconds: float) -> list[Record]:
    error = f"did not stop within {seconds:g} s; its worker was ended"
    if not isinstance(item, Solve):
        return [BoundRecord(item.problem, runtime_s=seconds, error=error, code=item.code)]
    blank = CellRecord(
        cell="",
        solve=item.key,
        problem=item.problem,
        status=Status.TIMEOUT,
        host=socket.gethostname(),
        started=time.time(),
        error=error,
        code=item.code,
    )
    return [replace(blank, cell=cell.id, attempt=cell.attempt) for cell in item.cells]


def _has_nanny() -> bool:
    from distributed import get_worker

    try:
        return get_worker().nanny is not None
    except ValueError:
        return False
