"""One task on a worker: its items are solved, their records written to the journal."""

import time
from dataclasses import dataclass
from typing import Any

from threadpoolctl import threadpool_limits

from solvers import mechanism
from sweep.errors import DamagedSegmentError
from sweep.plan.tasks import Task
from sweep.store import segments
from sweep.store.records import Record
from sweep.store.view import StoreView
from sweep.worker import compatibility
from sweep.worker.recording import earlier_records, recording, with_late_records
from sweep.worker.running_tasks import registered
from sweep.worker.solve import Built, outcomes
from sweep.worker.watchdog import watched
from sweep.worker.workload_cache import cached_workload


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
    """That the worker at this address does not do a task: ``said`` says how it differs."""

    worker: str
    said: str


def perform(task: Task, view: StoreView) -> TaskOutcome | Refusal:
    """Do a task: solve every item and record every outcome; never raises.

    Parameters
    ----------
    task : Task
        The task.
    view : StoreView
        The store to write to.

    Returns
    -------
    TaskOutcome or Refusal
        The earlier outcome if the journal has one: when Dask repeats a task because a worker
        was lost, recorded items are not solved again. A refusal, and nothing solved, if this
        worker's code or versions are not those that the view requires.
    """
    with registered(task, view.identity):
        return done_before(task, view) or _done_now(task, view)


def _done_now(task: Task, view: StoreView) -> TaskOutcome | Refusal:
    difference = compatibility.difference(view)
    if difference:
        worker = _worker()
        return Refusal("" if worker is None else worker.address, difference)
    task = with_late_records(task, view)
    started = time.perf_counter()
    known: dict[str, Built] = {}
    weights: dict[str, Any] = {}
    mechanism.add(dict(view.mechanisms))
    with (
        threadpool_limits(limits=_threads()),
        recording(task, view) as records,
    ):
        for item in task.items:
            if records.is_done(item):
                continue
            if item.workload_key not in known:
                with watched(item, records):
                    known[item.workload_key] = cached_workload(item.workload_key, item.workload)
            with watched(item, records):
                records.add(outcomes(item, known[item.workload_key], view, weights))
    written = records.finish()
    seconds = time.perf_counter() - started
    return TaskOutcome(task.name, *written, seconds, apart=not records.reachable)


def done_before(task: Task, view: StoreView) -> TaskOutcome | None:
    """The outcome of a task that an earlier run of it has completed, if it is undamaged."""
    last = view.journal / (task.name + segments.SUFFIX)
    if not view.reachable or not last.exists():
        return None
    try:
        records = (*earlier_records(task, view).of_this_run, *segments.read_segment(last))
    except DamagedSegmentError:
        return None
    return TaskOutcome(task.name, records, written=True)


def _threads() -> int:
    worker = _worker()
    return 1 if worker is None else int(worker.state.nthreads)


def _worker() -> Any:
    """The Dask worker that this runs on, if any."""
    from distributed import get_worker

    try:
        return get_worker()
    except ValueError:
        return None
