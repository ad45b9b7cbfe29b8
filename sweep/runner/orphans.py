"""Tasks that workers still run although their driver is gone.

A driver that is killed, or is cut off from its scheduler, leaves behind the tasks that had begun:
Dask forgets them, but their workers finish and record them. What they are about is not sent again
before they have ended, and then only what they have not recorded.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sweep.events import CellsAwaited, Listener
from sweep.plan.tasks import Task
from sweep.worker.broadcast import answers
from sweep.worker.recording import Identity, identities
from sweep.worker.running_tasks import running

_LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class _Orphan:
    """A task that some worker runs, and the cells or problems in it."""

    name: str
    worker: str
    about: frozenset[Identity]


class Orphans:
    """The tasks of a store that workers run for a driver that is gone, and the tasks held for them.

    Parameters
    ----------
    store : str
        The store's identity.
    listen : Listener
        Called with an event when cells have to wait.
    """

    def __init__(self, store: str, listen: Listener) -> None:
        self._store, self._listen = store, listen
        self._found: list[_Orphan] = []
        self._waiting: list[tuple[Task, frozenset[str]]] = []
        self._next_look = 0.0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def sendable(self, client: Any, planned: Sequence[Task]) -> Sequence[Task]:
        """The part of the tasks that can be sent now; the rest is held until the orphans end."""
        self._found = [
            _Orphan(name, worker, about)
            for worker, answer in self._answers(client, None).items()
            if isinstance(answer, dict)
            for name, about in answer.items()
        ]
        if not self._found:
            return planned
        held_before = len(self._waiting)
        free = [part for task in planned if (part := self._hold_back(task)).items]
        cells = sum(len(task.cells) for task, _ in self._waiting[held_before:])
        if cells:
            self._listen(CellsAwaited(cells))
        return free

    def released(self, client: Any) -> list[Task]:
        """The held tasks that need not wait any longer; checks every second."""
        now = time.monotonic()
        if not self._waiting or now < self._next_look:
            return []
        self._next_look = now + _LOOK_SECONDS
        answers = self._answers(client, {orphan.worker for orphan in self._found})
        left = {orphan.name for orphan in self._found if _goes_on(orphan, answers)}
        ready = [task for task, names in self._waiting if not names & left]
        self._waiting = [(task, names) for task, names in self._waiting if names & left]
        return ready

    def take_back(self) -> list[Task]:
        """All held tasks, which are then no longer held."""
        taken = [task for task, _ in self._waiting]
        self._waiting.clear()
        return taken

    def _hold_back(self, task: Task) -> Task:
        """The task without the items that have to be held."""
        doing = [(item, self._doing(identities(item))) for item in task.items]
        names = frozenset[str]().union(*(by for _, by in doing))
        if not names:
            return task
        waits = Task(
            f"{task.name}-held{len(task.earlier)}",
            tuple(item for item, by in doing if by),
            (*task.earlier, *sorted(names)),
        )
        self._waiting.append((waits, names))
        return replace(task, items=tuple(item for item, by in doing if not by))

    def _doing(self, about: frozenset[Identity]) -> frozenset[str]:
        return frozenset(orphan.name for orphan in self._found if about & orphan.about)

    def _answers(self, client: Any, workers: Collection[str] | None) -> dict[str, Any]:
        """The answers of workers; an error for each known worker if none can be had."""
        try:
            return answers(client, running, self._store, workers=workers)
        except Exception as error:
            return dict.fromkeys((orphan.worker for orphan in self._found), error)


def _goes_on(orphan: _Orphan, answers: dict[str, Any]) -> bool:
    """Whether a worker still runs it, or is alive and cannot say."""
    answer = answers.get(orphan.worker, {})
    return isinstance(answer, BaseException) or orphan.name in answer
