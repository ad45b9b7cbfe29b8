"""An end to solves that do not listen to their time limit."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from sweep.plan.tasks import Item, Solve
from sweep.store import code
from sweep.store.records import BoundRecord, CellRecord, Record, Status
from sweep.worker.recording import Recording

_PATIENCE = 2.0
_GRACE_SECONDS = 30.0


@contextmanager
def watched(item: Item, records: Recording) -> Iterator[None]:
    """End the worker's process if an item does not listen to its time limit.

    Dask has no time limit for a task; the Nanny starts a new process. Before that the cells
    are recorded as ``timeout``, without numbers, and the task goes on behind them.
    """
    if item.time_limit is None or not records.reachable or not _has_nanny():
        yield
        return
    seconds = _PATIENCE * item.time_limit + _GRACE_SECONDS

    def end() -> None:
        records.add(_late(item, seconds))
        records.put_down()
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _late(item: Item, seconds: float) -> list[Record]:
    error = f"did not stop within {seconds:g} s; its worker was ended"
    if not isinstance(item, Solve):
        return [BoundRecord(item.problem, runtime_s=seconds, error=error, code=code.digest())]
    blank = CellRecord(
        cell="",
        solve=item.key,
        problem=item.problem,
        status=Status.TIMEOUT,
        host=socket.gethostname(),
        started=time.time() - seconds,
        error=error,
        code=code.digest(),
    )
    return [replace(blank, cell=cell.id, attempt=cell.attempt) for cell in item.cells]


def _has_nanny() -> bool:
    from distributed import get_worker

    try:
        return get_worker().nanny is not None
    except ValueError:
        return False
