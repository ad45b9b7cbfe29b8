"""The records of a running task: in memory, and written to the journal every few seconds."""

import json
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from sweep.errors import DamagedSegmentError
from sweep.plan.items import Item, Solve
from sweep.plan.tasks import Task
from sweep.store import disk, segments
from sweep.store.location import Location
from sweep.store.records import BoundRecord, ForgottenRecord, Record, Status
from sweep.store.view import StoreView

Identity = tuple[str, str]
"""What a record is about: ``"cell"`` and its id, or ``"bound"`` and the key of its problem."""


class Recording:
    """The records of one task.

    While the task runs they go into segments ``TASK+NNNNNN-RANDOM``; the last one, ``TASK``,
    holds the rest and marks the task as done. No record of this run is in two segments, and another
    attempt at the task never replaces a segment. What another run has recorded is written again,
    since its own segment does not count any more if the cell was forgotten or solved meanwhile.

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
        earlier = earlier_records(task, view) if self.reachable else EarlierRecords([], [])
        self._written, self._fresh = earlier.of_this_run, earlier.of_others
        self._done = {identity(record) for record in (*self._written, *self._fresh)}
        self._lock = threading.Lock()

    def is_done(self, item: Item) -> bool:
        """Whether an earlier attempt has recorded all of an item."""
        return identities(item) <= self._done

    def add(self, records: Iterable[Record]) -> None:
        """Add the records of an item."""
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
        """A name, without suffix, for a segment with the records since the last one."""
        return f"{self._task.name}+{len(self._written):06d}-{uuid.uuid4().hex[:8]}"

    def finish(self) -> tuple[tuple[Record, ...], bool]:
        """All records, and whether the journal has them all, in which case the task is done."""
        with self._lock:
            written = self.reachable and self._view.write(self._task.name, self._fresh)
            return (*self._written, *self._fresh), written


@contextmanager
def recording(task: Task, view: StoreView) -> Iterator[Recording]:
    """A task's recording, flushed every ``view.interval`` seconds by a thread."""
    records, over = Recording(task, view), threading.Event()

    def flush_regularly() -> None:
        while not over.wait(view.interval):
            records.flush()

    thread = threading.Thread(target=flush_regularly, daemon=True)
    if records.reachable:
        thread.start()
    try:
        yield records
    finally:
        over.set()
        if records.reachable:
            thread.join()


def with_late_records(task: Task, view: StoreView) -> Task:
    """The task with what arrived while it waited, as `sweep.runner.late_records` tells."""
    try:
        late = json.loads(disk.text(view.late)).get(task.name, ())
    except (OSError, ValueError):
        return task
    return replace(task, earlier=(*task.earlier, *late))


class EarlierRecords(NamedTuple):
    """Records from earlier attempts at a task, in this run and in others."""

    of_this_run: list[Record]
    of_others: list[Record]


def earlier_records(task: Task, view: StoreView) -> EarlierRecords:
    """Records from earlier attempts at a task, alone or as part of a larger one."""
    wanted = {key: item for item in task.items for key in identities(item)}
    run, ours, others = (
        segments.run_of(task.name),
        dict[Identity, Record](),
        dict[Identity, Record](),
    )
    for name in (*task.earlier, task.name):
        is_ours = segments.run_of(name) == run
        for part in _parts(view.journal, name, whole=name != task.name):
            for record in undamaged_records(part):
                about = identity(record)
                if about in wanted and is_ours:
                    ours[about] = record
                elif about in wanted and _serves(record, wanted[about]):
                    others[about] = record
    late = [record for about, record in others.items() if about not in ours]
    return EarlierRecords([*ours.values()], late)


def _parts(folder: Location, task: str, *, whole: bool) -> list[Location]:
    """The segments that a task wrote while it ran, and the last one if the whole is asked for."""
    names = [name for name in disk.names(folder, f"{task}+") if name.endswith(segments.SUFFIX)]
    last = folder / f"{task}{segments.SUFFIX}"
    return [folder / name for name in names] + ([last] if whole and last.exists() else [])


def _serves(record: Record, item: Item) -> bool:
    """Whether what another run has recorded spares doing an item: by its code, in its time."""
    if isinstance(record, ForgottenRecord) or record.code != item.code:
        return False
    if isinstance(record, BoundRecord):
        stopped = bool(record.error)
    elif record.status is Status.LOST:
        return False
    else:
        stopped = record.status is Status.TIMEOUT
    took, limit = record.runtime_s, item.time_limit
    return not stopped or (took is not None and limit is not None and took >= limit)


def undamaged_records(segment: Location) -> list[Record]:
    """The records of a segment; none if it is damaged, so that its work is done again."""
    try:
        return segments.read_segment(segment)
    except DamagedSegmentError:
        return []


def identity(record: Record) -> Identity:
    """The cell or problem of a record."""
    if isinstance(record, BoundRecord):
        return "bound", record.problem
    return "cell", record.cell


def identities(item: Item) -> frozenset[Identity]:
    """The cells or problem of an item."""
    if isinstance(item, Solve):
        return frozenset(("cell", cell.id) for cell in item.cells)
    return frozenset({("bound", item.problem)})
