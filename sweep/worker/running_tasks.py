"""The tasks that this worker is running now, from any driver."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sweep.plan.tasks import Task
from sweep.worker.recording import Identity, identities

_BEGINNING_SECONDS = 5.0
"""Seconds that a worker may take to import what a task needs, before it is not waited for."""
_PAUSE_SECONDS = 0.01
_TASKS: dict[str, tuple[str, frozenset[Identity]]] = {}


@contextmanager
def registered(task: Task, store: str) -> Iterator[None]:
    """Note that this process does a task for the store of that identity."""
    keys = frozenset[Identity]().union(*map(identities, task.items))
    _TASKS[task.name] = store, keys
    try:
        yield
    finally:
        _TASKS.pop(task.name, None)


async def running(store: str, dask_worker: Any) -> dict[str, frozenset[Identity]]:
    """The cells or problems of the tasks that this process runs for a store now, by task name.

    What Dask is just beginning is waited for until it says what it is about.
    """
    ends, ours = time.monotonic() + _BEGINNING_SECONDS, f"-{store[:8]}-"
    while time.monotonic() < ends and any(
        ours in str(begun.key) and begun.key not in _TASKS for begun in dask_worker.state.executing
    ):
        await asyncio.sleep(_PAUSE_SECONDS)
    return {name: keys for name, (whose, keys) in list(_TASKS.items()) if whose == store}
