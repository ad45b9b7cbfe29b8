"""The records of a running task: in memory, and written to the journal every few seconds."""

import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from sweep.errors import DamagedSegmentError
from sweep.plan.items import Item, Solve
from sweep.plan.tasks import Task
from sweep.store import disk, journal
from sweep.store.location import Location
from sweep.store.records import BoundRecord, Record
from sweep.store.view import StoreView

Identity = tuple[str, str]
"""What a record is about: ``"cell"`` and its id, or ``"bound"`` and the key of its problem."""


class Recording:
    """The records of one task.

    While the task runs they go into segments ``TASK+NNNNNN-RANDOM``; the last one, ``TASK``,
    holds the rest and marks the task as done. No record is in two segments, and another attempt
    at the task never replaces a segment.

    Parameters
    ----------
    task : Task
        The task that is running. Records of earlier attempts at it are taken over.
    view : StoreView
        The store to write to.
    """

    def __init__(self, task: Task, view: StoreView) -> None:
        self.reachable = view.reachable
        self._task, self._view = task, view
        self._written = left_behind(task, view) if self.reachable else []
        self._fresh: list[Record] = []
        self._done = {identity(record) for record in self._written}
        self._lock = threading.Lock()

    def is_done(self, item: Item) -> bool:
        """Whether an earlier attempt has recorded all of an item."""
        return identities(item) <= self._done

    def add(self, records: Iterable[Record]) -> None:
        """Take in the records of an item."""
        with self._lock:
            self._fresh += records

    def flush(self) -> None:
        """Write the records that are only in memory; they stay there if that fails."""
        with self._lock:
            name = self.next_segment()
            if self._fresh and self._view.write(name, self._fresh):
                self._written += self._fresh
                self._fresh = []

    @property
    def journal(self) -> str:
        """Path or address of the journal."""
        return str(self._view.journal)

    def next_segment(self) -> str:
        """A name, without suffix, for a segment of what was done since the last one."""
        return f"{self._task.name}+{len(self._written):06d}-{uuid.uuid4().hex[:8]}"

    def finish(self) -> tuple[tuple[Record, ...], bool]:
        """All records, and whether they are all in the journal, which makes the task done."""
        with self._lock:
            written = self.reachable and self._view.write(self._task.name, self._fresh)
            return (*self._written, *self._fresh), written


@contextmanager
def recording(task: Task, view: StoreView) -> Iterator[Recording]:
    """A task's recording, flushed every ``view.interval`` seconds by a thread."""
    made, over = Recording(task, view), threading.Event()

    def flush_regularly() -> None:
        while not over.wait(view.interval):
            made.flush()

    thread = threading.Thread(target=flush_regularly, daemon=True)
    if made.reachable:
        thread.start()
    try:
        yield made
    finally:
        over.set()
        if made.reachable:
            thread.join()


def left_behind(task: Task, view: StoreView) -> list[Record]:
    """Records from earlier attempts at a task, alone or as part of a larger one."""
    wanted = frozenset().union(*(identities(item) for item in task.items))
    parts = [
        view.journal / part
        for name in (*task.earlier, task.name)
        for part in disk.names(view.journal, f"{name}+")
        if part.endswith(journal.SUFFIX)
    ]
    ends = (view.journal / f"{name}{journal.SUFFIX}" for name in task.earlier)
    parts += (end for end in ends if end.exists())
    found = {
        identity(record): record
        for part in parts
        for record in read_sound(part)
        if identity(record) in wanted
    }
    return list(found.values())


def read_sound(segment: Location) -> list[Record]:
    """The records of a segment; none of a damaged one: what it was to hold is done again."""
    try:
        return journal.read_segment(segment)
    except DamagedSegmentError:
        return []


def identity(record: Record) -> Identity:
    """The cell or the problem that a record is about."""
    if isinstance(record, BoundRecord):
        return "bound", record.problem
    return "cell", record.cell


def identities(item: Item) -> frozenset[Identity]:
    """The cells or the problem that the records of an item are about."""
    if isinstance(item, Solve):
        return frozenset(("cell", cell.id) for cell in item.cells)
    return frozenset({("bound", item.problem)})
