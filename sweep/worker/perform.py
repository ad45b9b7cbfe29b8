"""One task on a worker: its items done, their records written to the journal."""

import time
from dataclasses import dataclass
from itertools import chain
from typing import Any

from threadpoolctl import threadpool_limits

from solvers import registry
from sweep.errors import DamagedSegmentError
from sweep.plan.tasks import Task
from sweep.store import journal
from sweep.store.records import Record, Status
from sweep.store.view import StoreView
from sweep.worker import agreement
from sweep.worker.built import built
from sweep.worker.recording import left_behind, recording
from sweep.worker.running import noted
from sweep.worker.solve import BuildFailure, Built, outcomes
from sweep.worker.watchdog import watched


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
        What it took on the worker, besides the queue; 0 if that is not known.
    apart : bool
        Whether the worker does not see the store.
    """

    name: str
    records: tuple[Record, ...]
    written: bool
    seconds: float = 0.0
    apart: bool = False


def perform(task: Task, view: StoreView) -> TaskOutcome:
    """Do a task: every item solved, every outcome recorded, nothing raised.

    Parameters
    ----------
    task : Task
        The task.
    view : StoreView
        The store to write to.

    Returns
    -------
    TaskOutcome
        The earlier outcome if the journal has one: when Dask repeats a task because a worker
        was lost, recorded items are not solved again. All ``failed`` and nothing solved if
        this worker's code or versions are not those that the view requires.
    """
    earlier = done_before(task, view)
    if earlier is not None:
        return earlier
    difference = agreement.difference(view.code, view.versions)
    if difference:
        refusal = BuildFailure(Status.FAILED, difference, "")
        refusals = (outcomes(item, refusal, view, {}) for item in task.items)
        return TaskOutcome(task.name, tuple(chain.from_iterable(refusals)), written=False)
    started = time.perf_counter()
    known: dict[str, Built] = {}
    weights: dict[str, Any] = {}
    registry.add(dict(view.mechanisms))
    with (
        threadpool_limits(limits=_threads()),
        noted(task, view.identity),
        recording(task, view) as records,
    ):
        for item in task.items:
            if records.is_done(item):
                continue
            if item.workload_key not in known:
                with watched(item, records):
                    known[item.workload_key] = built(item.workload_key, item.workload, view.code)
            with watched(item, records):
                records.add(outcomes(item, known[item.workload_key], view, weights))
    written = records.finish()
    seconds = time.perf_counter() - started
    return TaskOutcome(task.name, *written, seconds, apart=not records.reachable)


def done_before(task: Task, view: StoreView) -> TaskOutcome | None:
    """The outcome of a task that an earlier run of it has completed, if it is undamaged."""
    last = view.journal / (task.name + journal.SUFFIX)
    if not view.reachable or not last.exists():
        return None
    try:
        records = (*left_behind(task, view), *journal.read_segment(last))
    except DamagedSegmentError:
        return None
    return TaskOutcome(task.name, records, written=True)


def _threads() -> int:
    from distributed import get_worker

    try:
        return int(get_worker().state.nthreads)
    except ValueError:
        return 1
