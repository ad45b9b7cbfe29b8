"""One task on a worker: its items are solved, their records written to the journal.

Nothing is raised: an error, a time limit or an answer that contradicts its certificate becomes the
status of its cell.
"""

import pickle
import socket
import threading
import time
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from distributed import get_worker, protocol
from threadpoolctl import threadpool_limits

import workloads
from solvers import mechanism
from sweep.errors import DamagedSegmentError
from sweep.grid.cells import WorkloadSpec
from sweep.plan.tasks import Bound, Item, Solve, Task
from sweep.store import code
from sweep.store.journal import SUFFIX, read_segment, segment_text
from sweep.store.places import Location
from sweep.store.records import BoundRecord, CellRecord, Record, Status
from sweep.store.worker_store import WorkerStore
from sweep.worker.kill_timer import kill_timer
from sweep.worker.solve import Built, Failure, TaskState, build, outcomes

_dumps: Any = protocol.pickle.dumps
_MOST_WORKLOADS = 16
_MOST_WORKLOAD_BYTES = 2**28
_DOUBLE = 8

LIMIT_FACTOR, GRACE_SECONDS = 2.0, 30.0
"""A worker is ended once an item takes this factor times its time limit and these seconds."""

Identity = tuple[str, str]
"""The subject of a record: ``"cell"`` and its id, or ``"bound"`` and the key of its problem."""


@dataclass(frozen=True)
class TaskOutcome:
    """The result of a task.

    Attributes
    ----------
    name : str
        The task's name.
    records : tuple of Record
        A record for every cell and bound of the task.
    written : bool
        Whether the worker has written them to the journal; if not, the driver has to.
    seconds : float
        Its duration on the worker, without queueing; 0 if unknown.
    apart : bool
        Whether the worker does not see the store.
    """

    name: str
    records: tuple[Record, ...]
    written: bool
    seconds: float = 0.0
    apart: bool = False


@dataclass(frozen=True)
class Refusal:
    """A worker's refusal to do a task: its address, and how it differs from the command."""

    worker: str
    message: str


class _Call:
    """Unpickles to the result of a call."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self._call = function, args

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._call


def parcel(task: Task, view: WorkerStore) -> bytes:
    """A call of `perform` as bytes; `pickle.loads` makes the call, or says why it cannot.

    Dask itself ends a worker that cannot import the function of a task.
    """
    packed = zlib.compress(_dumps(_Call(perform, task, view)), level=1)
    return pickle.dumps(_Call(pickle.loads, _Call(zlib.decompress, packed)))


def perform(task: Task, view: WorkerStore) -> TaskOutcome | Refusal | Exception:
    """Do a task: solve every item and record every outcome; never raises.

    Parameters
    ----------
    task : Task
        The task.
    view : WorkerStore
        The store to write to.

    Returns
    -------
    TaskOutcome, Refusal or Exception
        The earlier outcome if the journal has one: when Dask repeats a task because a worker
        was lost, recorded items are not solved again. A refusal, and nothing solved, if this
        worker's code or versions are not those that the view requires. An error of this module.
    """
    try:
        return done_before(task, view) or _done_now(task, view)
    except Exception as error:
        return error


def _done_now(task: Task, view: WorkerStore) -> TaskOutcome | Refusal:
    try:
        worker: Any = get_worker()
    except ValueError:
        worker = None  # not called by Dask
    difference = code.worker_difference(view.code, view.versions)
    if difference:
        return Refusal("" if worker is None else worker.address, difference)
    started = time.perf_counter()
    known: dict[str, Built] = {}
    state = TaskState()
    mechanism.add(dict(view.mechanisms))
    nanny = worker is not None and worker.nanny is not None
    with (
        threadpool_limits(limits=1 if worker is None else int(worker.state.nthreads)),
        recording(task, view) as records,
    ):
        for item in task.items:
            if records.is_done(item):
                continue
            if item.workload_key not in known:
                with time_limited(item, records, nanny=nanny):
                    known[item.workload_key] = cached_workload(item.workload_key, item.workload)
            with time_limited(item, records, nanny=nanny):
                records.add(outcomes(item, known[item.workload_key], view, state))
    written = records.finish()
    seconds = time.perf_counter() - started
    return TaskOutcome(task.name, *written, seconds, apart=not records.reachable)


@contextmanager
def time_limited(item: Item, records: "Recording", *, nanny: bool) -> Iterator[None]:
    """End this process if an item ignores its time limit; Dask has no time limits for tasks.

    Its cells are recorded as ``timeout`` before, without numbers. The nanny starts a new worker,
    where the task continues after them; without a nanny nothing is ended. Where the store is out of
    reach nothing is recorded, and the driver takes the end for a worker's death.
    """
    if item.time_limit is None or not nanny:
        yield
        return
    seconds = LIMIT_FACTOR * item.time_limit + GRACE_SECONDS
    file = str(records.next_file)
    text = segment_text(_stopped(item, seconds)) if records.reachable else ""
    kill_timer().start(file, seconds, text)
    try:
        yield
    finally:
        kill_timer().cancel(file)


def _stopped(item: Item, seconds: float) -> list[Record]:
    error = f"did not stop within {seconds:g} s; its worker was ended"
    if isinstance(item, Bound):
        return [BoundRecord(item.problem, runtime_s=seconds, error=error, code=item.code)]
    blank = CellRecord(
        cell="",
        solve=item.key,
        problem=item.problem,
        status=Status.TIMEOUT,
        host=socket.gethostname(),
        started=time.time(),
        error=error,
        code=item.code,
    )
    return [replace(blank, cell=cell.id, attempt=cell.attempt) for cell in item.cells]


_workloads: OrderedDict[str, Built] = OrderedDict()
_lock = threading.Lock()


def cached_workload(key: str, spec: WorkloadSpec) -> Built:
    """A workload, built here unless one of the last few tasks needed it too.

    Workloads are not passed between workers: Dask sends a task to the worker that holds what the
    task depends on, and the others would be idle.
    """
    with _lock:
        if key in _workloads:
            _workloads.move_to_end(key)
            return _workloads[key]
        while (
            len(_workloads) >= _MOST_WORKLOADS
            or sum(map(_bytes, _workloads.values())) > _MOST_WORKLOAD_BYTES
        ):
            _workloads.popitem(last=False)
    workload = build(spec)
    if not isinstance(workload, Failure):
        with _lock:
            _workloads[key] = workload
    return workload


def _bytes(workload: Built) -> int:
    return workload.m * workload.d * _DOUBLE if isinstance(workload, workloads.Workload) else 0


class Recording:
    """The records of one task, in memory and written to the journal every few seconds.

    While the task runs they go into segments ``TASK+NNNNNN-RANDOM``; the last one, ``TASK``,
    holds the rest and marks the task as done. No record is in two segments, and another attempt at
    the task never replaces a segment.

    Parameters
    ----------
    task : Task
        The task that is running. Records of earlier attempts at it are taken over.
    view : WorkerStore
        The store to write to.
    """

    def __init__(self, task: Task, view: WorkerStore) -> None:
        self.reachable = view.reachable
        self._task, self._view = task, view
        self._written = earlier_records(task, view) if self.reachable else []
        self._done = set(map(_identity, self._written))
        self._fresh: list[Record] = []
        self._lock = threading.Lock()

    def is_done(self, item: Item) -> bool:
        """Whether an earlier attempt has recorded all of an item."""
        return bool(self._done) and _identities(item) <= self._done

    def add(self, records: Iterable[Record]) -> None:
        """Add the records of an item."""
        with self._lock:
            self._fresh += records

    def flush(self) -> None:
        """Write the records that are only in memory; they stay there if that fails."""
        with self._lock:
            if self._fresh and self._view.write(self._next_segment(), self._fresh):
                self._written += self._fresh
                self._fresh = []

    @property
    def next_file(self) -> Location:
        """A file for a segment with the records since the last one."""
        return self._view.journal / (self._next_segment() + SUFFIX)

    def _next_segment(self) -> str:
        return f"{self._task.name}+{len(self._written):06d}-{uuid.uuid4().hex[:8]}"

    def finish(self) -> tuple[tuple[Record, ...], bool]:
        """All records, and whether the journal has them all, in which case the task is done."""
        with self._lock:
            written = self.reachable and self._view.write(self._task.name, self._fresh)
            return (*self._written, *self._fresh), written


@contextmanager
def recording(task: Task, view: WorkerStore) -> Iterator[Recording]:
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


def done_before(task: Task, view: WorkerStore) -> TaskOutcome | None:
    """The outcome of a task that an earlier run of it has completed, if it is undamaged."""
    last = view.journal / (task.name + SUFFIX)
    if not view.reachable or not last.exists():
        return None
    try:
        records = (*earlier_records(task, view), *read_segment(last))
    except DamagedSegmentError:
        return None
    return TaskOutcome(task.name, records, written=True)


def earlier_records(task: Task, view: WorkerStore) -> list[Record]:
    """Records from earlier attempts at a task, alone or as part of a larger one.

    A damaged segment has none, so that its work is done again.
    """
    wanted = frozenset[Identity]().union(*map(_identities, task.items))
    found: dict[Identity, Record] = {}
    for name in (*task.earlier, task.name):
        parts = [one for one in view.journal.names(f"{name}+") if one.endswith(SUFFIX)]
        last = f"{name}{SUFFIX}"
        if name != task.name and (view.journal / last).exists():
            parts.append(last)
        for part in parts:
            try:
                records = read_segment(view.journal / part)
            except DamagedSegmentError:
                continue
            found |= {about: one for one in records if (about := _identity(one)) in wanted}
    return [*found.values()]


def _identity(record: Record) -> Identity:
    """The cell or problem of a record."""
    if isinstance(record, BoundRecord):
        return "bound", record.problem
    return "cell", record.cell


def _identities(item: Item) -> frozenset[Identity]:
    """The cells or problem of an item."""
    if isinstance(item, Solve):
        return frozenset(("cell", cell.id) for cell in item.cells)
    return frozenset({("bound", item.problem)})
