"""What runs on a worker: do the items of one task, record them in the journal."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from threadpoolctl import threadpool_limits

from sweep.plan.tasks import Task
from sweep.store import code, journal
from sweep.store.records import Record, Status
from sweep.store.view import Place
from sweep.worker.recording import left_behind, recording
from sweep.worker.solve import Built, Unbuilt, build, outcomes
from sweep.worker.watchdog import watched


@dataclass(frozen=True)
class Done:
    """What a task hands back.

    Attributes
    ----------
    name : str
        The task's name.
    records : tuple of Record
        Its outcomes.
    written : bool
        Whether the worker has put them into the journal.
    """

    name: str
    records: tuple[Record, ...]
    written: bool


def perform(task: Task, place: Place, built: Mapping[str, Built]) -> Done:
    """Do a task: every item solved, every outcome recorded, nothing raised.

    Parameters
    ----------
    task : Task
        What to do.
    place : Place
        Where to write.
    built : Mapping of str to workload
        The workloads that were built elsewhere, by key; the others are built here.

    Returns
    -------
    Done
        Done before, if a journal segment says so: what is recorded is not solved again when
        Dask runs a task again because a worker was lost. All ``failed``, and nothing done, if
        this worker has other code than the place asks for.
    """
    earlier = done_before(task, place)
    if earlier is not None:
        return earlier
    difference = code.difference(place.code)
    if difference:
        nothing = Unbuilt(Status.FAILED.label, difference, "")
        refusals = (outcomes(item, nothing, place, {}) for item in task.items)
        return Done(task.name, tuple(chain.from_iterable(refusals)), written=False)
    known: dict[str, Built] = dict(built)
    weights: dict[str, Any] = {}
    with threadpool_limits(limits=_threads()), recording(task, place) as records:
        for item in task.items:
            if records.has(item):
                continue
            if item.workload_key not in known:
                with watched(item, records):
                    known[item.workload_key] = build(item.workload, place.code)
            with watched(item, records):
                records.add(outcomes(item, known[item.workload_key], place, weights))
    return Done(task.name, *records.finish())


def done_before(task: Task, place: Place) -> Done | None:
    """What a task handed back when it was done, if the journal has it."""
    last = place.journal / (task.name + journal.SUFFIX)
    if not place.reachable or not last.exists():
        return None
    records = (*left_behind(task, place), *journal.read_segment(last))
    return Done(task.name, records, written=True)


def _threads() -> int:
    from distributed import get_worker

    try:
        return int(get_worker().state.nthreads)
    except ValueError:
        return 1
