"""The tasks that this worker is running now, from any driver."""

from collections.abc import Iterator
from contextlib import contextmanager

from sweep.plan.tasks import Task
from sweep.worker.recording import Identity, identities

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


def running(store: str) -> dict[str, frozenset[Identity]]:
    """The cells or problems of the tasks that this process runs for a store now, by task name."""
    return {name: keys for name, (whose, keys) in list(_TASKS.items()) if whose == store}
