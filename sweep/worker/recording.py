"""What a task has done so far: in memory, and every few seconds in the journal."""

import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sweep.errors import DamagedSegmentError
from sweep.plan.tasks import Item, Solve, Task
from sweep.store import journal
from sweep.store.records import CellRecord, Record
from sweep.store.view import StoreView


class Recording:
    """The records of one task.

    What was done so far goes into segments of its own, ``TASK+NNNNNN-RANDOM``; the last one,
    ``TASK``, holds the rest and says that the task is done. No record is in two of them,
    and no segment is ever replaced by another try of the task.

    Parameters
    ----------
    task : Task
        What is being done. What an earlier try of it has recorded is taken over.
    place : Place
        Where to write.
    """

    def __init__(self, task: Task, view: StoreView) -> None:
        self.reachable = view.reachable
        self._task, self._view = task, view
        self._written = left_behind(task, view) if self.reachable else []
        self._fresh: list[Record] = []
        self._done = {identity(record) for record in self._written}
        self._lock = threading.Lock()

    def has(self, item: Item) -> bool:
        """Whether an item is done."""
        return identities(item) <= self._done

    def add(self, records: Iterable[Record]) -> None:
        """Take in what became of an item."""
        with self._lock:
            self._fresh += records

    def put_down(self) -> None:
        """Write what is in memory alone; it stays there if the disk does not take it."""
        with self._lock:
            name = f"{self._task.name}+{len(self._written):06d}-{uuid.uuid4().hex[:8]}"
            if self._fresh and self._view.write(name, self._fresh):
                self._written += self._fresh
                self._fresh = []

    def finish(self) -> tuple[tuple[Record, ...], bool]:
        """All records, and whether all of them are in the journal: the task is done."""
        with self._lock:
            written = self.reachable and self._view.write(self._task.name, self._fresh)
            return (*self._written, *self._fresh), written


@contextmanager
def recording(task: Task, view: StoreView) -> Iterator[Recording]:
    """A task's recording, put down every ``view.interval`` seconds by a thread of its own."""
    made, over = Recording(task, view), threading.Event()

    def keep_up() -> None:
        while not over.wait(view.interval):
            made.put_down()

    thread = threading.Thread(target=keep_up, daemon=True)
    if made.reachable:
        thread.start()
    try:
        yield made
    finally:
        over.set()
        if made.reachable:
            thread.join()


def left_behind(task: Task, view: StoreView) -> list[Record]:
    """What earlier tries of a task, also as a part of a larger one, have recorded of it."""
    wanted = frozenset().union(*(identities(item) for item in task.items))
    parts = [
        part
        for name in (*task.earlier, task.name)
        for part in sorted(view.journal.glob(f"{name}+*{journal.SUFFIX}"))
    ]
    ends = (view.journal / f"{name}{journal.SUFFIX}" for name in task.earlier)
    parts += filter(Path.exists, ends)
    found = {
        identity(record): record
        for part in parts
        for record in read_sound(part)
        if identity(record) in wanted
    }
    return list(found.values())


def read_sound(segment: Path) -> list[Record]:
    """The records of a segment; none of a damaged one: what it was to hold is done again."""
    try:
        return journal.read_segment(segment)
    except DamagedSegmentError:
        return []


def identity(record: Record) -> tuple[str, str]:
    """What a record is about."""
    return ("cell", record.cell) if isinstance(record, CellRecord) else ("bound", record.problem)


def identities(item: Item) -> frozenset[tuple[str, str]]:
    """What the records of an item are about."""
    if isinstance(item, Solve):
        return frozenset(("cell", cell.id) for cell in item.cells)
    return frozenset({("bound", item.problem)})
