"""The statistics of a run in progress: how much is done, how fast, and how much time remains."""

import heapq
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence

import numpy as np

from sweep.events import Listener, Progressed
from sweep.plan.tasks import Task
from sweep.store.records import TROUBLED, CellRecord

_SECONDS = 1.0
"""Seconds between two reports, as often as a person wants to read one."""
_RECENT_TASKS = 100
"""Rates are measured over this many of the latest tasks, because the longest tasks run first."""
_SHOWN = 5
"""Number of slowest cells and of most frequent reasons of failure in a report."""
_EIGHTY_PERCENT = 1.2816
"""Half-width, in standard deviations, of the middle 80 % of a normal distribution."""
_LEAST_SPREAD, _SPREAD_OF_ONE = 1.1, 4.0
"""Least factor between the expected time left and an end of its interval, and the factor after one
task, which says little about the others."""
_LEAST_LEFT_SECONDS = 1.0
"""Least number of core seconds that are assumed to remain while a task is running."""
_ROUNDING = 1e-9
"""Share of the planned seconds that may be left over by rounding when all tasks have ended."""


class ProgressMeter:
    """Measures the progress of a run.

    The core seconds left are the planned seconds of the tasks that have not ended, times the ratio
    of actual to planned seconds of the tasks that ended last.

    Parameters
    ----------
    planned_s : float
        Core seconds that the run's solves are expected to take.
    cells : int
        Number of cells that the run's solves serve.
    label : callable
        Returns a cell's label, given its id.
    run_began : float
        When the run began, before its cluster existed, by `time.monotonic`.
    listen : Listener
        Called with the statistics about every second.

    Attributes
    ----------
    tasks : int
        Number of tasks that have not ended.
    """

    def __init__(
        self,
        planned_s: float,
        cells: int,
        label: Callable[[str], str],
        run_began: float,
        listen: Listener,
    ) -> None:
        self._label, self._run_began, self._listen = label, run_began, listen
        self._cells, self._planned_s, self._left_s, self.tasks = cells, planned_s, planned_s, 0
        self._core_s = self._next = 0.0
        self._statuses, self._failures = Counter[str](), Counter[str]()
        self._slowest: list[tuple[float, str]] = []
        self._threads: Sequence[int] = ()
        self._recent: deque[tuple[float, int]] = deque([(run_began, 0)], maxlen=_RECENT_TASKS)
        self._measured: deque[tuple[float, float]] = deque(maxlen=_RECENT_TASKS)

    def take(self, task: Task, cells: Sequence[CellRecord], seconds: float) -> None:
        """Add a task that has ended to the statistics.

        Parameters
        ----------
        task : Task
            The task.
        cells : sequence of CellRecord
            The records of the task's cells.
        seconds : float
            Seconds that the task took; 0 if unknown.
        """
        runtimes, expected = dict[str, tuple[float, str]](), task.seconds
        for record in cells:
            self._statuses[record.status.label] += 1
            if record.runtime_s is not None:
                runtimes[record.solve] = record.runtime_s, record.cell
            if record.status in TROUBLED:
                self._failures[record.reason] += 1
        self._slowest = heapq.nlargest(_SHOWN, [*self._slowest, *runtimes.values()])
        if seconds and expected:
            self._measured.append((expected, seconds))
        self._left_s -= expected
        self._core_s += seconds
        self._recent.append((time.monotonic(), len(cells)))

    def look(self, threads: Sequence[int], tasks: int) -> None:
        """Update each worker's number of threads and the tasks left; report if a report is due."""
        now = time.monotonic()
        if threads and not self._threads and not self._measured:
            self._recent[0] = now, 0
        self._threads, self.tasks = threads, tasks
        if now >= self._next:
            self.report()

    def report(self) -> None:
        """Report the statistics now."""
        now = time.monotonic()
        self._next = now + _SECONDS
        busy = min(sum(self._threads), self.tasks)
        planned, took = np.array(self._measured or [(1.0, 1.0)]).T
        core_left_s = max(self._left_s, 0.0) * float(took.sum() / planned.sum())
        left_s: tuple[float, float, float] | None = None
        ended, cells = np.array(self._recent).T
        if self._left_s <= _ROUNDING * self._planned_s:
            core_left_s, left_s = 0.0, (0.0, 0.0, 0.0)
        elif busy and self._measured:
            # each running task is assumed to have begun when one of the latest tasks ended, and to
            # use up at most an equal share of the time left, however long it takes
            running_s = np.minimum(now - ended[-busy:], core_left_s / self.tasks).sum()
            expected = max(core_left_s - float(running_s), _LEAST_LEFT_SECONDS) / busy
            deviation = float(np.std(np.log(took / planned))) / math.sqrt(len(took))
            spread = max(math.exp(_EIGHTY_PERCENT * deviation), _LEAST_SPREAD)
            spread = _SPREAD_OF_ONE if len(took) == 1 else spread
            left_s = expected, expected / spread, expected * spread
        work_s = self._core_s + core_left_s
        self._listen(
            Progressed(
                began=time.time() - (now - self._run_began),
                seconds=now - self._run_began,
                workers=len(self._threads),
                threads=sum(self._threads),
                running=busy,
                cells=self._cells,
                statuses=dict(self._statuses),
                rate=float(cells[1:].sum() / (now - ended[0])) if now > ended[0] else 0.0,
                share=self._core_s / work_s if work_s else 1.0,
                left_s=left_s,
                core_s=self._core_s,
                core_left_s=core_left_s,
                failures=dict(self._failures.most_common(_SHOWN)),
                slowest=tuple((self._label(cell), seconds) for seconds, cell in self._slowest),
            )
        )
