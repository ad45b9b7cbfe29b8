"""The figures of a run in progress: how much is done, how fast, how much time is left."""

import heapq
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sweep.events import Listener, Progressed
from sweep.plan.forecast import Forecast
from sweep.plan.items import Item, Solve, kind
from sweep.plan.tasks import Task, Tasks
from sweep.store.records import BoundRecord, CellRecord

if TYPE_CHECKING:
    from sweep.worker.perform import TaskOutcome

_SECONDS = 1.0
_RECENT_TASKS = 100
_SHOWN = 5
_MOST_THREADS = 10_000
_LONGEST_REASON = 120
_MOST_IN_FLIGHT = 0.9
"""Of what is expected to be left; a solve that takes longer than expected is not over for that."""


class ProgressMeter:
    """Measures a run.

    Parameters
    ----------
    planned : Tasks
        Its tasks.
    cells : int
        Number of the cells that they solve.
    name : callable
        What to call a cell, given its id.
    run_began : float
        When the run began, before its cluster was there, by `time.monotonic`.
    listen : Listener
        Called with the figures, about every second.
    """

    def __init__(
        self,
        planned: Tasks,
        cells: int,
        name: Callable[[str], str],
        run_began: float,
        listen: Listener,
    ) -> None:
        self._name, self._run_began, self._listen = name, run_began, listen
        self._forecast = Forecast(planned.estimates)
        self._cells, self._first = cells, planned.seconds[:_MOST_THREADS]
        self._items_left, self._tasks_left = planned.items, len(planned)
        self._statuses: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._slowest: list[tuple[float, str]] = []
        self._core_s = self._thread_s = 0.0
        self._threads: Sequence[int] = ()
        self._looked = now = time.monotonic()
        self._next = 0.0
        self._recent: deque[tuple[float, int]] = deque([(now, 0)], maxlen=_RECENT_TASKS)
        self._busy_since: list[float] = []
        """When each thread began its task: with the end of the one before."""

    def take(self, task: Task, done: "TaskOutcome") -> None:
        """Count a task that has ended."""
        cells = [record for record in done.records if isinstance(record, CellRecord)]
        runtimes = _runtimes(done)
        solving = sum(runtimes.values())
        seconds = done.seconds or solving
        for item in task.items:
            runtime = runtimes.get(_key(item))
            share = runtime / solving if runtime and solving else None
            took = None if share is None else share * seconds
            self._forecast.done(kind(item), 1, item.seconds, took)
            if isinstance(item, Solve) and runtime is not None:
                heapq.heappush(self._slowest, (runtime, item.cells[0].id))
                if len(self._slowest) > _SHOWN:
                    heapq.heappop(self._slowest)
        self._statuses.update(record.status.label for record in cells)
        self._failures.update(reason(record) for record in cells if record.status.troubled)
        self._core_s += seconds
        self._items_left = max(self._items_left - len(task.items), 0)
        self._tasks_left = max(self._tasks_left - 1, min(self._items_left, 1))
        now = time.monotonic()
        self._recent.append((now, len(cells)))
        if self._busy_since:
            began = now - seconds
            self._busy_since.remove(min(self._busy_since, key=lambda since: abs(since - began)))
            self._busy_since.append(now)

    def look(self, threads: Sequence[int]) -> None:
        """Note how many threads each worker has, and report the figures if they are due."""
        now = time.monotonic()
        self._thread_s += sum(self._threads) * (now - self._looked)
        if not self._thread_s:
            self._recent[0] = (now, 0)
        self._looked, self._threads = now, threads
        more = sum(threads) - len(self._busy_since)
        self._busy_since = [*self._busy_since[max(-more, 0) :], *[now] * max(more, 0)]
        if now >= self._next:
            self.tell()

    def tell(self) -> None:
        """Report the figures now."""
        now = time.monotonic()
        self._next = now + _SECONDS
        seconds, left = now - self._run_began, self._forecast.left
        running = self._in_flight(now)
        expected = left.core_s * self._overdue(running)
        core_left = max(expected - running, (1.0 - _MOST_IN_FLIGHT) * expected)
        spent = self._core_s + min(running, _MOST_IN_FLIGHT * expected)
        self._listen(
            Progressed(
                began=time.time() - seconds,
                seconds=seconds,
                workers=len(self._threads),
                threads=sum(self._threads),
                running=min(sum(self._threads), self._tasks_left),
                cells=self._cells,
                statuses=dict(self._statuses),
                rate=self._rate(now),
                share=spent / (spent + core_left) if spent + core_left else 1.0,
                left_s=self._left_s(core_left, left.spread, spent),
                core_s=self._core_s,
                core_left_s=core_left,
                failures=dict(self._failures.most_common(_SHOWN)),
                slowest=tuple(
                    (self._name(cell), seconds) for seconds, cell in sorted(self._slowest)[::-1]
                ),
            )
        )

    def _left_s(
        self, core_left: float, spread: float, spent: float
    ) -> tuple[float, float, float] | None:
        """Seconds left, with bounds, if threads stay as busy as so far."""
        if not self._items_left:
            return 0.0, 0.0, 0.0
        threads = min(sum(self._threads), self._tasks_left)
        if not threads:
            return None
        used = min(spent / self._thread_s, 1.0) if spent and self._thread_s else 1.0
        seconds = core_left / (threads * used)
        return seconds, seconds / spread, seconds * spread

    def _in_flight(self, now: float) -> float:
        """Core seconds that have gone into the tasks that are running now.

        A thread has been at its task since it ended the one before. When there are fewer tasks
        than threads, those that ended one last have none.
        """
        running = sorted(self._busy_since)[: self._tasks_left]
        return sum(now - since for since in running)

    def _overdue(self, running: float) -> float:
        """By what factor the first tasks have exceeded their plan, if none has ended."""
        if self._core_s or not self._busy_since:
            return 1.0
        return max(running / (sum(self._first[: len(self._busy_since)]) or 1.0), 1.0)

    def _rate(self, now: float) -> float:
        (since, _), *later = self._recent
        return sum(cells for _, cells in later) / (now - since) if now > since else 0.0


def _key(item: Item) -> str:
    return item.key if isinstance(item, Solve) else item.problem


def _runtimes(done: "TaskOutcome") -> dict[str, float]:
    """Measured seconds of each solve and bound, by key."""
    runtimes: dict[str, float] = {}
    for record in done.records:
        if isinstance(record, CellRecord) and record.runtime_s is not None:
            runtimes[record.solve] = record.runtime_s
        elif isinstance(record, BoundRecord) and record.lower_bound is not None:
            runtimes[record.problem] = record.runtime_s
    return runtimes


def reason(record: CellRecord) -> str:
    """Why a cell failed, timed out or was lost; cells of one reason have the same text."""
    text = record.error[:_LONGEST_REASON]
    return f"{record.status.label}: {text}" if text else record.status.label
