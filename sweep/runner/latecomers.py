"""Records that come in late, from workers of runs that are over.

A scheduler that was stopped or cut off leaves workers behind that the present cluster cannot ask
(`sweep.runner.orphans` asks those that it can). What they record after a run was planned is not
solved again: a task is told in which segments to look for it.
"""

import time
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

from sweep.plan.tasks import Task
from sweep.store import disk, journal
from sweep.store.location import Location
from sweep.worker.recording import Identity, identities, identity, read_sound

_LEAST_PAUSE = 2.0
_SHARE = 50.0
"""At most so small a part of the time goes into looking."""


class Latecomers:
    """The segments that other runs have written since this one was planned.

    Parameters
    ----------
    folder : Path or ObjectPath
        The journal's folder.
    known : collection of str
        File names of the segments that the plan has taken in.
    run : str
        Beginning of the names of this run's own segments.
    """

    def __init__(self, folder: Location, known: Collection[str], run: str) -> None:
        self._folder, self._seen, self._run = folder, set(known), run
        self._tasks: defaultdict[Identity, set[str]] = defaultdict(set)
        self._next_look = 0.0

    def heeded(self, task: Task) -> Task:
        """The task, told of every segment that has records of its items."""
        self._look()
        about = frozenset[Identity]().union(*map(identities, task.items))
        found = set[str]().union(*(self._tasks[one] for one in about & self._tasks.keys()))
        new = sorted(found - set(task.earlier))
        return replace(task, earlier=(*task.earlier, *new)) if new else task

    def _look(self) -> None:
        began = time.monotonic()
        if began < self._next_look:
            return
        with suppress(OSError):
            for name in set(disk.names(self._folder)) - self._seen:
                self._seen.add(name)
                if name.endswith(journal.SUFFIX) and not name.startswith(self._run):
                    self._take(name)
        now = time.monotonic()
        self._next_look = now + max(_LEAST_PAUSE, _SHARE * (now - began))

    def _take(self, name: str) -> None:
        task = name.removesuffix(journal.SUFFIX).partition("+")[0]
        for record in read_sound(self._folder / name):
            self._tasks[identity(record)].add(task)
