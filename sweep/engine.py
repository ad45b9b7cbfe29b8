"""Tasks onto the cluster and back; what the infrastructure loses is tried again, then lost."""

import queue
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sweep import solving, worker
from sweep.events import CellsDone, Listener, TaskRetried
from sweep.graph import Solve, Task, shared_workloads
from sweep.outcome import CellRecord, Status
from sweep.place import Place
from sweep.worker import Done

_DROPPED = ("cancelled", "lost")
_TICK_SECONDS = 0.5
_SCHEDULER_GONE = "the scheduler was lost or dropped it; run again to go on"

Tick = Callable[[], None]
Accept = Callable[[Done], None]


@dataclass
class _Flight:
    """What is on the cluster now."""

    client: Any
    place: Place
    specs: Mapping[str, Any]
    uses: Counter[str]
    prefix: str
    landed: "queue.SimpleQueue[Any]" = field(default_factory=queue.SimpleQueue)
    tasks: dict[str, Task] = field(default_factory=dict)
    futures: dict[str, Any] = field(default_factory=dict)
    workloads: dict[str, Any] = field(default_factory=dict)

    def launch(self, task: Task) -> None:
        shared = {key: self._workload(key) for key in task.workloads if key in self.specs}
        future = self.client.submit(
            worker.perform, task, self.place, shared, key=task.name, pure=False
        )
        self.tasks[task.name], self.futures[task.name] = task, future
        future.add_done_callback(self.landed.put)

    def wait(self) -> list[Any]:
        """The futures that have landed since; after half a second none, if none has."""
        try:
            landed = [self.landed.get(timeout=_TICK_SECONDS)]
        except queue.Empty:
            return []
        while not self.landed.empty():
            landed.append(self.landed.get())
        return landed

    def land(self, future: Any) -> Task:
        del self.futures[future.key]
        task = self.tasks.pop(future.key)
        self.uses.subtract(task.workloads.keys())
        for key in task.workloads:
            if self.uses[key] <= 0:
                self.workloads.pop(key, None)
        return task

    def _workload(self, key: str) -> Any:
        if key not in self.workloads:
            self.workloads[key] = self.client.submit(
                solving.build,
                self.specs[key],
                self.place.code,
                key=f"{self.prefix}-workload-{key}",
                pure=False,
            )
        return self.workloads[key]


def execute(
    client: Any,
    planned: Sequence[Task],
    place: Place,
    accept: Accept,
    tick: Tick,
    listen: Listener,
) -> None:
    """Do all tasks.

    A task that is lost with its worker is split, so that one cell takes none with it; what
    is lost alone is tried once more with nothing else in flight, and only then ``lost``.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    planned : sequence of Task
        What to do, in order of urgency.
    place : Place
        Where the workers write.
    accept : callable
        Takes every task's outcome.
    tick : callable
        Called at least every half second.
    listen : Listener
        Hears of every task that ends.

    Raises
    ------
    KeyboardInterrupt
        If the user ends it; nothing is in flight then.
    """
    specs = shared_workloads(planned)
    uses = Counter(key for task in planned for key in task.workloads)
    total = sum(task.seconds for task in planned) or 1.0
    prefix = planned[0].name if planned else "none"
    flight = _Flight(client, place, specs, uses, prefix)
    suspects: list[Task] = []

    def settle(done: Done, task: Task) -> None:
        accept(done)
        statuses = Counter(r.status for r in done.records if isinstance(r, CellRecord))
        listen(CellsDone(dict(statuses), task.seconds / total))

    def relaunch(task: Task) -> None:
        listen(TaskRetried(len(task.cells)))
        flight.uses.update(task.workloads.keys())
        flight.launch(task)

    def drain(on_loss: Callable[[Task, str], None]) -> None:
        while flight.futures:
            tick()
            landed = flight.wait()
            if not landed and client.status == "closed":
                abandon()
                return
            results = _gathered(client, landed)
            for future in landed:
                task = flight.land(future)
                done = results.get(future.key) or worker.done_before(task, place)
                if done is not None:
                    settle(done, task)
                elif client.status == "running" and _is_loss(future):
                    on_loss(task, _reason(future))
                else:
                    settle(_lost(task, _reason(future)), task)

    def abandon() -> None:
        for future in list(flight.futures.values()):
            task = flight.land(future)
            settle(worker.done_before(task, place) or _lost(task, _SCHEDULER_GONE), task)

    def split_or_suspect(task: Task, reason: str) -> None:
        if len(task.items) > 1:
            for part in task.alone():
                relaunch(part)
        else:
            suspects.append(task)

    try:
        for task in planned:
            flight.launch(task)
        drain(split_or_suspect)
        for task in suspects:
            relaunch(task.again())
            drain(lambda task, reason: settle(_lost(task, reason), task))
    except BaseException:
        with suppress(OSError, CancelledError):
            client.cancel([*flight.futures.values(), *flight.workloads.values()], force=True)
        raise


def _gathered(client: Any, futures: Sequence[Any]) -> dict[str, Done]:
    """The results of those that have one, by key; none if the scheduler is gone meanwhile."""
    finished = [future for future in futures if future.status == "finished"]
    try:
        results = client.gather(finished)
    except (OSError, CancelledError):
        return {}
    return {future.key: done for future, done in zip(finished, results, strict=True)}


def _is_loss(future: Any) -> bool:
    """Whether the infrastructure, not the task's code, made it fail."""
    from distributed import KilledWorker

    return future.status in _DROPPED or isinstance(future.exception(), KilledWorker)


def _reason(future: Any) -> str:
    if future.status in (*_DROPPED, "finished"):
        return _SCHEDULER_GONE
    error = future.exception()
    if _is_loss(future):
        return (
            "its worker died each time: killed, crashed or out of memory; "
            "'sweep plan' shows the memory that it needs"
        )
    return f"the cluster could not run it: {type(error).__name__}: {error}".splitlines()[0]


def _lost(task: Task, reason: str) -> Done:
    records = tuple(
        CellRecord(cell.id, item.key, item.problem, Status.LOST.label, cell.attempt, error=reason)
        for item in task.items
        if isinstance(item, Solve)
        for cell in item.cells
    )
    return Done(f"{task.name}-lost", records, written=False)
