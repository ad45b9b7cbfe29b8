"""Records that arrive late, from workers of earlier runs.

A scheduler that was stopped or cut off leaves workers behind that the present cluster cannot ask
(`sweep.runner.orphans` asks those that it can). What they record after a run was planned is not
solved again: a task is told in which segments to look for it. One that waits on the cluster is
told by a file in the store, which its worker reads when it begins.
"""

import json
import time
from collections import defaultdict
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace

from sweep.plan.tasks import Task
from sweep.store import disk, segments
from sweep.store.view import StoreView
from sweep.worker.recording import Identity, identities, identity, undamaged_records

_LEAST_PAUSE = 2.0
_SHARE = 50.0
"""At most so small a part of the time goes into looking, if two looks in a row take long: a single
one does, too, if this process was stopped meanwhile."""


class LateRecords:
    """The segments that other runs have written since this one was planned.

    Parameters
    ----------
    view : StoreView
        The store as workers see it.
    known : collection of str
        File names of the segments that the plan is based on.
    run : str
        Beginning of the names of this run's own segments.
    """

    def __init__(self, view: StoreView, known: Collection[str], run: str) -> None:
        self._view, self._seen, self._run = view, set(known), run
        self._tasks: defaultdict[Identity, set[str]] = defaultdict(set)
        self._told: dict[str, list[str]] = {}
        self._untold = False
        self._next_look = self._last_took = 0.0

    def with_late_segments(self, task: Task) -> Task:
        """The task with the names of all segments that have records of its items."""
        self._look()
        new = self._new(task)
        return replace(task, earlier=(*task.earlier, *new)) if new else task

    def tell(self, sent: Iterable[Task]) -> None:
        """Tell tasks that are on the cluster; too late for those that have begun."""
        self._look()
        if not self._untold:
            return
        news = {task.name: new for task in sent if (new := self._new(task))}
        with suppress(OSError):  # they are told at the next call
            if news:
                disk.write(self._view.late, json.dumps(self._told | news))
                self._told |= news
            self._untold = False

    def end(self) -> None:
        """Remove what tasks were told by."""
        if self._told:
            with suppress(OSError):
                self._view.late.unlink(missing_ok=True)

    def _new(self, task: Task) -> list[str]:
        if not self._tasks:
            return []
        wanted = frozenset[Identity]().union(*map(identities, task.items))
        tasks = set[str]().union(*(self._tasks[item] for item in wanted & self._tasks.keys()))
        return sorted(tasks - set(task.earlier))

    def _look(self) -> None:
        began = time.monotonic()
        if began < self._next_look:
            return
        with suppress(OSError):
            for name in sorted(set(disk.names(self._view.journal)) - self._seen):
                if name.endswith(segments.SUFFIX) and not name.startswith(self._run):
                    self._take(name)
                self._seen.add(name)
        now = time.monotonic()
        took, self._last_took = min(now - began, self._last_took), now - began
        self._next_look = now + max(_LEAST_PAUSE, _SHARE * took)

    def _take(self, name: str) -> None:
        task = name.removesuffix(segments.SUFFIX).partition("+")[0]
        for record in undamaged_records(self._view.journal / name):
            self._untold = True
            self._tasks[identity(record)].add(task)
