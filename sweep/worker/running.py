"""The tasks that this worker is doing now, whoever has sent them."""

from collections.abc import Iterator
from contextlib import contextmanager

from sweep.plan.tasks import Task
from sweep.worker.recording import Identity, identities

_TASKS: dict[str, tuple[str, frozenset[Identity]]] = {}


@contextmanager
def noted(task: Task, store: str) -> Iterator[None]:
    """Note that this process does a task for the store of that identity."""
    about = frozenset[Identity]().union(*map(identities, task.items))
    _TASKS[task.name] = store, about
    try:
        yield
    finally:
        _TASKS.pop(task.name, None)


def running(store: str) -> dict[str, frozenset[Identity]]:
    """What each task is about that this process does for a store now, by the task's name."""
    return {name: about for name, (whose, about) in list(_TASKS.items()) if whose == store}
