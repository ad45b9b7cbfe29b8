"""Items whose workers died, each tried on a worker of its own, several at a time."""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping

from sweep.plan.items import Solve
from sweep.plan.tasks import Task
from sweep.store.ledger import DEADLY

_SETTLED_SECONDS = 2.0
"""Dask does not replace a worker that dies while its nanny is still busy starting it."""


class Suspects:
    """Tasks of one item each that may have killed their workers, and the results of trying them."""

    def __init__(self) -> None:
        self._waiting: deque[Task] = deque()
        self._trials: dict[str, str] = {}
        self._deaths: Counter[str] = Counter()
        self._dead: defaultdict[str, list[str]] = defaultdict(list)
        self._seen: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, task: Task) -> None:
        """Add every item of a task, to be tried by itself."""
        self._waiting += task.alone() if len(task.items) > 1 else (task.again(),)

    def next_trials(self, loads: Mapping[str, int], *, busy: bool) -> list[tuple[Task, str]]:
        """The tasks to send now, each with its worker.

        Parameters
        ----------
        loads : Mapping of str to int
            How many tasks each worker has.
        busy : bool
            Whether the run has other tasks in flight: only idle workers will do then.
        """
        now, taken = time.monotonic(), self._trials.values()
        self._seen = {worker: self._seen.get(worker, now) for worker in loads}
        free = [
            worker
            for worker, load in loads.items()
            if worker not in taken
            and not (load and busy)
            and now - self._seen[worker] >= _SETTLED_SECONDS
        ]
        pairs = [(self._waiting.popleft(), worker) for worker in free[: len(self._waiting)]]
        self._trials |= {task.name: worker for task, worker in pairs}
        return pairs

    def on_trial(self, task: Task) -> bool:
        """Whether a task in flight has a worker of its own."""
        return task.name in self._trials

    @property
    def trials(self) -> int:
        """How many tasks in flight have a worker of their own."""
        return len(self._trials)

    def over(self, task: Task, deaths: int) -> bool:
        """Note how many workers died of a trial; whether nothing is left to try."""
        worker = self._trials.pop(task.name, None)
        self._deaths[_subject(task)] += deaths
        if worker is not None and deaths:
            self._dead[_subject(task)].append(worker)
        return self.deaths(task) >= DEADLY

    def deaths(self, task: Task) -> int:
        """How many workers died while they ran only this task."""
        return self._deaths[_subject(task)] if len(task.items) == 1 else 0

    def dead(self, task: Task) -> list[str]:
        """The addresses of workers that died while they ran only this task."""
        return self._dead[_subject(task)] if len(task.items) == 1 else []


def _subject(task: Task) -> str:
    """The solve or problem of a task's only item."""
    (item,) = task.items
    return item.key if isinstance(item, Solve) else f"bound {item.problem}"
