"""The statistics of a run in progress: how much is done, how fast, and how much time remains."""

import heapq
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from sweep.events import Listener, Progressed
from sweep.plan.tasks import Task, Tasks
from sweep.store.records import CellRecord

if TYPE_CHECKING:
    from sweep.worker.perform import TaskOutcome

_SECONDS = 1.0
_RECENT_TASKS = 100
"""Largest number of latest tasks from which the rate is computed; long tasks come first."""
_SHOWN = 5
_UNTRIED_SPREAD = 4.0
"""Before anything is measured, the forecast is within this factor in four of five runs."""
_EIGHTY_PERCENT = 1.2816
"""Half-width, in standard deviations, of the middle 80 % of a normal distribution."""
_LEAST_SPREAD = 1.1
_MOST_IN_FLIGHT = 0.9
"""Largest share of a running task that counts as done."""
_LEAST_MEASURED = 4
"""Number of latest tasks whose durations correct the plan; more if two for each thread are more."""
_STARTUP_S = 3.0
"""First seconds of a running task that do not count, because they may be spent on imports."""
_OUTLASTED = 2.0
"""Ratio of expected to elapsed time of tasks that outlast their forecast: taken as half done."""


class ProgressMeter:
    """Measures the progress of a run.

    Parameters
    ----------
    planned : Tasks
        The run's tasks.
    cells : int
        Number of cells that the tasks solve.
    label : callable
        Returns a cell's label, given its id.
    run_began : float
        When the run began, before its cluster existed, by `time.monotonic`.
    listen : Listener
        Called with the statistics about every second.
    """

    def __init__(
        self,
        planned: Tasks,
        cells: int,
        label: Callable[[str], str],
        run_began: float,
        listen: Listener,
    ) -> None:
        self._label, self._run_began, self._listen = label, run_began, listen
        self._cells, self._prefix = cells, f"{planned.prefix}-"
        self._waiting = dict(enumerate(planned.seconds))
        self._planned_s = sum(self._waiting.values())
        self._done_s = self._core_s = 0.0
        self._statuses: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._slowest: list[tuple[float, str]] = []
        self._threads: Sequence[int] = ()
        self._next = 0.0
        self._recent: deque[tuple[float, int]] = deque(
            [(time.monotonic(), 0)], maxlen=_RECENT_TASKS
        )
        self._measured: deque[tuple[float, float]] = deque(maxlen=_RECENT_TASKS)

    def take(self, task: Task, done: "TaskOutcome") -> None:
        """Count a task that has ended."""
        cells = [record for record in done.records if isinstance(record, CellRecord)]
        runtimes = {r.solve: (r.runtime_s, r.cell) for r in cells if r.runtime_s is not None}
        self._slowest = heapq.nlargest(_SHOWN, [*self._slowest, *runtimes.values()])
        self._statuses.update(record.status.label for record in cells)
        self._failures.update(record.reason for record in cells if record.status.troubled)
        seconds = done.seconds or sum(runtime for runtime, _ in runtimes.values())
        if seconds and task.seconds:
            self._measured.append((task.seconds, seconds))
        # a part of a task that was split has the number of the whole
        self._waiting.pop(int(task.name.removeprefix(self._prefix).partition("-")[0]), None)
        self._done_s += task.seconds
        self._core_s += seconds
        self._recent.append((time.monotonic(), len(cells)))

    def look(self, threads: Sequence[int]) -> None:
        """Note how many threads each worker has, and report the statistics if they are due."""
        now = time.monotonic()
        if threads and not self._threads and not self._measured:
            self._recent[0] = now, 0
        self._threads = threads
        if now >= self._next:
            self.report()

    def report(self) -> None:
        """Report the statistics now."""
        now = time.monotonic()
        self._next = now + _SECONDS
        threads, remaining = sum(self._threads), len(self._waiting)
        busy = min(threads, remaining)
        running = max(self._running_s(busy, now) - busy * _STARTUP_S, 0.0)
        # Tasks are sent in the order of the plan, so the first that have not ended are running.
        planned = sum(islice(self._waiting.values(), busy))
        ratio, spread = self._ratio(running, planned)
        expected = max(self._planned_s - self._done_s, 0.0) * ratio if remaining else 0.0
        running = min(running, _MOST_IN_FLIGHT * min(planned * ratio, expected))
        rest, spent = expected - running, self._core_s + running
        left_s = (rest / busy, rest / busy / spread, rest / busy * spread) if busy else None
        (since, _), *later = self._recent
        cells = sum(ended for _, ended in later)
        self._listen(
            Progressed(
                began=time.time() - (now - self._run_began),
                seconds=now - self._run_began,
                workers=len(self._threads),
                threads=threads,
                running=busy,
                cells=self._cells,
                statuses=dict(self._statuses),
                rate=cells / (now - since) if now > since else 0.0,
                share=spent / (spent + rest) if spent + rest else 1.0,
                left_s=left_s if remaining else (0.0, 0.0, 0.0),
                core_s=self._core_s,
                core_left_s=rest,
                failures=dict(self._failures.most_common(_SHOWN)),
                slowest=tuple((self._label(cell), seconds) for seconds, cell in self._slowest),
            )
        )

    def _running_s(self, busy: int, now: float) -> float:
        """Core seconds spent so far in running tasks, each taken to begin when another ended."""
        ends = [at for at, _ in self._recent]
        latest = [ends[0]] * max(busy - len(ends), 0) + ends[len(ends) - min(busy, len(ends)) :]
        return sum(now - at for at in latest)

    def _ratio(self, running_s: float, running_planned_s: float) -> tuple[float, float]:
        """The ratio of actual to planned seconds, and the factor by which it may be wrong.

        It is the ratio of recent tasks, unless running tasks have already taken longer than it
        predicts.
        """
        latest = list(self._measured)[-max(_LEAST_MEASURED, 2 * sum(self._threads)) :]
        planned, took = np.array(latest or [(1.0, 1.0)]).T
        ratio = float(took.sum() / planned.sum())
        if running_s > ratio * running_planned_s > 0.0:
            return _OUTLASTED * running_s / running_planned_s, _UNTRIED_SPREAD
        if not latest:
            return ratio, _UNTRIED_SPREAD
        deviation = float(np.std(np.log(took / planned))) / math.sqrt(len(took))
        return ratio, max(math.exp(_EIGHTY_PERCENT * deviation), _LEAST_SPREAD)
