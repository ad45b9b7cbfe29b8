"""What runs on a worker: do the items of one task, write one journal segment."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from threadpoolctl import threadpool_limits

from sweep import journal
from sweep.graph import Solve, Task
from sweep.outcome import CellRecord, Record
from sweep.place import Place
from sweep.solving import Built, build, outcomes
from sweep.watchdog import left_behind, watched


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
        Done before, if a journal segment says so: a task that Dask runs again because a
        worker was lost is not solved again.
    """
    earlier = done_before(task, place)
    if earlier is not None:
        return earlier
    reachable = place.reachable
    known: dict[str, Built] = dict(built)
    records: list[Record] = left_behind(task, place) if reachable else []
    finished = {record.cell for record in records if isinstance(record, CellRecord)}
    weights: dict[str, Any] = {}
    with threadpool_limits(limits=_threads()):
        for item in task.items:
            if isinstance(item, Solve) and all(cell.id in finished for cell in item.cells):
                continue
            if item.workload_key not in known:
                with watched(item, task, place, records if reachable else None):
                    known[item.workload_key] = build(item.workload)
            with watched(item, task, place, records if reachable else None):
                records += outcomes(item, known[item.workload_key], place, weights)
    return Done(task.name, tuple(records), reachable and place.write(task.name, records))


def done_before(task: Task, place: Place) -> Done | None:
    """What a task handed back when it was done, if the journal has it."""
    segment = place.journal / (task.name + journal.SUFFIX)
    if not place.reachable or not segment.exists():
        return None
    return Done(task.name, tuple(journal.read_segment(segment)), written=True)


def _threads() -> int:
    from distributed import get_worker

    try:
        return int(get_worker().state.nthreads)
    except ValueError:
        return 1
