"""Does the solves of one task on a worker and writes their records to the journal.

Nothing is raised: an error, an exceeded time limit or an answer that contradicts its certificate
is recorded in the cell's status.
"""

import pickle
import socket
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from distributed import Worker, get_worker, protocol
from threadpoolctl import threadpool_limits

import workloads
from solvers import mechanism
from solvers.dual.programs import Weights
from sweep.errors import DamagedSegmentError, first_line
from sweep.experiment.canonical import Spec
from sweep.plan.tasks import Solve, Task
from sweep.store import code
from sweep.store.folder import WorkerStore
from sweep.store.journal import SUFFIX, read_segment, segment_text
from sweep.store.records import NO_CELL, BoundRecord, CellRecord, Record, Status
from sweep.worker.kill_timer import kill_timer
from sweep.worker.solve import Built, build, solve_and_record

_dumps: Callable[[object], bytes] = protocol.pickle.dumps
_MOST_WORKLOADS = 16
"""Most workloads that a worker keeps; tasks are sorted by workload, so that few are used again."""
MOST_WORKLOAD_BYTES = 2**28
"""Bytes of matrices that a worker keeps, as many as Python itself uses; one may be larger."""
_DOUBLE = 8

LIMIT_FACTOR, GRACE_SECONDS = 2.0, 30.0
"""A solve's worker is ended after this factor times the time limit, plus these seconds.

A mechanism that heeds its limit ends within one iteration of it, and then verifies its answer; only
one that does not is worth a worker, whose restart takes seconds.
"""


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
        Whether the worker has written the records to the journal; otherwise the driver writes them.
    seconds : float
        The task's duration on the worker, without queueing; 0 if unknown.
    """

    name: str
    records: tuple[Record, ...]
    written: bool
    seconds: float = 0.0


@dataclass(frozen=True)
class Loss:
    """How a task without an outcome ended.

    Attributes
    ----------
    deaths : int
        Number of workers that died while they had the task.
    worker : str
        Address of the worker that refused the task; empty if no worker refused it.
    message : str
        Why the task was not done, if no worker died.
    """

    deaths: int = 0
    worker: str = ""
    message: str = "the scheduler dropped it"


@dataclass(frozen=True)
class _Call:
    """A call that is made when this object is unpickled; the result takes the object's place."""

    function: Callable[..., object]
    args: tuple[object, ...]

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.function, self.args


def pack_call(task: Task, worker_store: WorkerStore) -> bytes:
    """Pickle a call of `perform`; `pickle.loads` of the bytes makes the call or raises an error.

    Dask itself then imports nothing. (It ends a worker that cannot import a task's function.)
    """
    packed = zlib.compress(_dumps(_Call(perform, (task, worker_store))), level=1)
    return pickle.dumps(_Call(pickle.loads, (_Call(zlib.decompress, (packed,)),)))


def perform(task: Task, worker_store: WorkerStore) -> TaskOutcome | Loss:
    """Do a task and record the outcome of every solve; never raises.

    Parameters
    ----------
    task : Task
        The task.
    worker_store : WorkerStore
        The store to write to.

    Returns
    -------
    TaskOutcome or Loss
        The outcome, if the task was done; solves that earlier attempts have recorded are not
        repeated. A loss, if this worker's code or versions are not those that the command requires,
        or if an error arose outside the solves, for instance when the store was read.
    """
    try:
        worker: Worker | None = None
        with suppress(ValueError):  # not called by Dask
            worker = get_worker()
        difference = code.worker_difference(worker_store.code, worker_store.versions)
        if difference:
            return Loss(0, "" if worker is None else worker.address, difference)
        started = time.perf_counter()
        built: dict[str, Future[Built]] = {}
        weights: dict[str, Weights] = {}
        mechanism.add(dict(worker_store.mechanisms))
        nanny = worker is not None and worker.nanny is not None
        recording = Recording(task, worker_store)
        with threadpool_limits(limits=1 if worker is None else int(worker.state.nthreads)):
            for solve in task.solves:
                if recording.recorded and solve.subjects <= recording.recorded.keys():
                    continue
                key = solve.workload_key
                if key not in built:
                    built[key] = Future()
                    with limit_time(solve, recording, nanny=nanny):
                        try:
                            built[key].set_result(get_workload(key, solve.workload))
                        except BaseException as error:
                            built[key].set_exception(error)
                with limit_time(solve, recording, nanny=nanny):
                    recording.add(solve_and_record(solve, built[key], worker_store, weights))
        return recording.outcome(time.perf_counter() - started)
    except Exception as error:
        return Loss(message=first_line(error))


@contextmanager
def limit_time(solve: Solve, recording: "Recording", *, nanny: bool) -> Iterator[None]:
    """End this process if a solve ignores its time limit; Dask has no time limits for tasks.

    Just before the end, the solve's cells are recorded as ``timeout``, without numbers. The nanny
    starts a new worker, which continues the task after these cells; without a nanny, the process is
    not ended. If the store is out of reach, nothing is recorded, and the driver counts the end as a
    worker's death.
    """
    if solve.cost.time_limit is None or not nanny:
        yield
        return
    seconds = LIMIT_FACTOR * solve.cost.time_limit + GRACE_SECONDS
    error = f"did not stop within {seconds:g} s; its worker was ended"
    host, now = socket.gethostname(), time.time()
    stopped = CellRecord(
        *NO_CELL, Status.TIMEOUT, host=host, started=now, error=error, code=solve.code
    )
    bound = BoundRecord(solve.problem, runtime_s=seconds, error=error, code=solve.code)
    text = segment_text(solve.records(stopped) or [bound])
    file = str(recording.worker_store.store.journal / (recording.next_segment + SUFFIX))
    with kill_timer(file, seconds, text if recording.reachable else ""):
        yield


kept_workloads: dict[str, Built] = {}
"""The workloads that this process has built last, oldest first, by their keys."""
_lock = threading.Lock()


def get_workload(key: str, spec: Spec) -> Built:
    """Return the workload of a specification, from this worker's cache or else newly built.

    Workloads are not passed between workers: Dask would send tasks to the worker that has the
    workload, and the other workers would be idle.
    """
    with _lock:
        if key in kept_workloads:
            return kept_workloads[key]
        while sum(map(_count_bytes, kept_workloads.values())) >= MOST_WORKLOAD_BYTES:
            del kept_workloads[next(iter(kept_workloads))]
    workload = build(spec)
    with _lock:
        kept_workloads[key] = workload
    return workload


def _count_bytes(workload: Built) -> float:
    """Bytes of a workload's matrix, but at least the cache's limit divided by `_MOST_WORKLOADS`.

    The cache thus holds at most `_MOST_WORKLOADS` workloads.
    """
    size = workload.m * workload.d * _DOUBLE if isinstance(workload, workloads.Workload) else 0
    return max(size, MOST_WORKLOAD_BYTES / _MOST_WORKLOADS)


class Recording:
    """Collects the records of one task; writes them to the journal at intervals and at the end.

    During the task, records go into segments ``TASK+NNNNNN-RANDOM``, where TASK is the task's name.
    The last segment, ``TASK``, has the remaining records and marks the task as done. No record is
    in two segments, and no attempt at a task replaces a segment.

    Parameters
    ----------
    task : Task
        The task that is running.
    worker_store : WorkerStore
        The store to write to.

    Attributes
    ----------
    recorded : dict of str to Record
        The task's records in the journal, from earlier attempts and from this one, by `subject`.
    reachable : bool
        Whether this machine has access to the store; otherwise nothing is written.
    """

    def __init__(self, task: Task, worker_store: WorkerStore) -> None:
        self.reachable = worker_store.reachable
        self.recorded = read_recorded(task, worker_store) if self.reachable else {}
        self.worker_store, self._task = worker_store, task
        self._fresh: list[Record] = []
        self._next_write = time.monotonic() + worker_store.interval

    def add(self, records: list[Record]) -> None:
        """Add the records of a solve; write all unwritten records if the interval has passed."""
        self._fresh += records
        if not self.reachable or time.monotonic() < self._next_write:
            return
        if self.worker_store.write(self.next_segment, self._fresh):
            self.recorded |= {subject(record): record for record in self._fresh}
            self._fresh = []
        self._next_write = time.monotonic() + self.worker_store.interval

    @property
    def next_segment(self) -> str:
        """A new, unique name for the segment that gets the unwritten records."""
        return f"{self._task.name}+{len(self.recorded):06d}-{uuid.uuid4().hex[:8]}"

    def outcome(self, seconds: float) -> TaskOutcome:
        """Write the remaining records, and return the task's outcome."""
        name, store = self._task.name, self.worker_store
        # an attempt that found everything done must not replace the last segment with an empty one
        done = not self._fresh and (store.store.journal / (name + SUFFIX)).is_file()
        written = self.reachable and (done or store.write(name, self._fresh))
        records = (*self.recorded.values(), *self._fresh)
        return TaskOutcome(name, records, written, seconds)


def read_recorded(task: Task, worker_store: WorkerStore) -> dict[str, Record]:
    """Return the journal's records of a task's solves, from all attempts at the task, by `subject`.

    A damaged segment is skipped, so that its solves are repeated.
    """
    journal, records = worker_store.store.journal, list[Record]()
    for name in (*task.earlier, task.name):
        for file in journal.names():
            if file.endswith(SUFFIX) and file.removesuffix(SUFFIX).partition("+")[0] == name:
                with suppress(DamagedSegmentError):
                    records += read_segment(journal / file)
    if not records:
        return {}
    subjects = {about for solve in task.solves for about in solve.subjects}
    return {about: record for record in records if (about := subject(record)) in subjects}


def subject(record: Record) -> str:
    """What a record is about: the id of its cell, or for a bound the key of its problem."""
    return record.problem if isinstance(record, BoundRecord) else record.cell
