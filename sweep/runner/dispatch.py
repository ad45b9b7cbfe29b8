"""Tasks sent to the cluster and taken back; those that it loses are retried, then ``lost``."""

import asyncio
import queue
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from sweep.events import CellsDone, Listener, TaskRetried
from sweep.plan.tasks import Solve, Task, shared_workloads
from sweep.store.records import CellRecord, Record, Status
from sweep.store.view import StoreView
from sweep.worker.perform import TaskOutcome, done_before, perform
from sweep.worker.solve import build

_DROPPED = ("cancelled", "lost")
_TICK_SECONDS = 0.5
_FETCH_SECONDS = 5.0
_MOST_FETCHES = 20
_MOST_BUILDS = 3
_SCHEDULER_GONE = "the scheduler was lost or dropped it; run again to go on"
_NOT_FETCHED = "its worker returned a result that cannot be read here; run again to go on"
_UNEXPECTED = "the cluster returned results of something else; run again to go on"
_WORKER_DIED = (
    "its worker died each time (killed, crashed or out of memory); "
    "'sweep plan' shows the memory that it needs"
)

Tick = Callable[[], None]
Accept = Callable[[TaskOutcome], None]
OnLoss = Callable[[Task, str], None]


def execute(
    client: Any,
    planned: Sequence[Task],
    view: StoreView,
    accept: Accept,
    tick: Tick,
    listen: Listener,
) -> None:
    """Run all tasks.

    A task that is lost with its worker is split, so that one cell does not take others down
    with it; a single item that is lost is retried once with nothing else in flight, and only
    then recorded as ``lost``.

    Parameters
    ----------
    client : distributed.Client
        The client of the cluster.
    planned : sequence of Task
        The tasks, most urgent first.
    view : StoreView
        The part of the store that workers see.
    accept : callable
        Called with every task's outcome.
    tick : callable
        Called at least every few seconds; an error that it raises ends the execution.
    listen : Listener
        Called with an event for every task that ends.

    Raises
    ------
    KeyboardInterrupt
        If the user interrupts it; no task is in flight then.
    """
    flight = _Flight(client, planned, view)
    try:
        _Execution(flight, planned, accept, tick, listen).perform()
    except BaseException:
        flight.cancel()
        raise


class _Flight:
    """The tasks that are on the cluster now; errors of tasks are returned, never raised."""

    def __init__(self, client: Any, planned: Sequence[Task], view: StoreView) -> None:
        self.client, self.view = client, view
        self.tasks: dict[str, Task] = {}
        self._futures: dict[str, Any] = {}
        self._fetches: Counter[str] = Counter()
        self._landed: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._specs = shared_workloads(planned)
        self._uses = Counter(key for task in planned for key in task.workloads)
        self._workloads: dict[str, Any] = {}
        self._builds: Counter[str] = Counter()
        self._run = planned[0].name if planned else "none"

    def launch(self, task: Task) -> None:
        shared = {key: self._workload(key) for key in task.workloads if key in self._specs}
        future = self.client.submit(perform, task, self.view, shared, key=task.name, pure=False)
        self.tasks[task.name], self._futures[task.name] = task, future
        self._watch(future)

    def relaunch(self, task: Task) -> None:
        self._uses.update(task.workloads.keys())
        self.launch(task)

    def wait(self) -> list[Any]:
        """The futures that have ended since the last call; empty after half a second of none."""
        try:
            landed = [self._landed.get(timeout=_TICK_SECONDS)]
        except queue.Empty:
            return []
        while not self._landed.empty():
            landed.append(self._landed.get())
        return landed

    def land(self, landed: Iterable[Any]) -> list[tuple[Task, TaskOutcome | BaseException | str]]:
        """The ends of tasks whose futures have ended: an outcome, an error, or a reason.

        A future whose result was lost with its worker in the meantime stays in flight: the
        scheduler has it computed again.
        """
        finished = [future for future in landed if future.status == "finished"]
        fetched = self._fetch(finished)
        ends = ((future, self._end(future, fetched)) for future in landed)
        return [(self._take(future.key), end) for future, end in ends if end is not None]

    def abandon(self) -> list[tuple[Task, TaskOutcome | None]]:
        """Every task in flight, with its outcome where the journal has it."""
        tasks = [self._take(key) for key in list(self._futures)]
        return [(task, done_before(task, self.view)) for task in tasks]

    def cancel(self) -> None:
        with suppress(Exception):
            self.client.cancel([*self._futures.values(), *self._workloads.values()], force=True)

    def _end(
        self, future: Any, fetched: dict[str, TaskOutcome]
    ) -> TaskOutcome | BaseException | str | None:
        status = future.status
        done = fetched.get(future.key) or done_before(self.tasks[future.key], self.view)
        if done is not None:
            return done
        if status in _DROPPED:
            return _SCHEDULER_GONE
        if status == "error":
            error = self._answer(_error, future)
            if isinstance(error, BaseException):
                return error
        self._fetches[future.key] += status == "finished"
        if self._fetches[future.key] >= _MOST_FETCHES:
            return _NOT_FETCHED
        self._watch(future)
        return None

    def _fetch(self, futures: Sequence[Any]) -> dict[str, TaskOutcome]:
        """The results that can be fetched; one by one if fetching them together fails."""
        if not futures:
            return {}
        found = self._answer(_gathered, self.client, futures)
        if isinstance(found, dict):
            return {key: done for key, done in found.items() if isinstance(done, TaskOutcome)}
        if found is None or len(futures) == 1:
            return {}
        return {key: done for one in futures for key, done in self._fetch([one]).items()}

    def _answer(self, ask: Callable[..., Any], *about: Any) -> Any:
        """The result of a coroutine; None if it takes too long or the scheduler is gone."""
        try:
            return self.client.sync(ask, *about, callback_timeout=_FETCH_SECONDS)
        except Exception:
            return None

    def _take(self, key: str) -> Task:
        del self._futures[key]
        task = self.tasks.pop(key)
        self._uses.subtract(task.workloads.keys())
        for workload in task.workloads:
            if self._uses[workload] <= 0:
                self._workloads.pop(workload, None)
        return task

    def _watch(self, future: Any) -> None:
        future.add_done_callback(self._landed.put)

    def _workload(self, key: str) -> Any:
        """A workload on the cluster; rebuilt, a few times, if it was lost with its workers."""
        built = self._workloads.get(key)
        lost = built is not None and built.status in ("error", *_DROPPED)
        if built is None or (lost and self._builds[key] < _MOST_BUILDS):
            self._builds[key] += 1
            name = f"{self._run}-workload-{key}-{self._builds[key]}"
            built = self.client.submit(
                build, self._specs[key], self.view.code, key=name, pure=False
            )
            self._workloads[key] = built
        return built


class _Execution:
    """One pass of all tasks through the cluster, then one of each suspect by itself.

    Suspects are single items whose workers died: they may be what killed them.
    """

    def __init__(
        self,
        flight: _Flight,
        planned: Sequence[Task],
        accept: Accept,
        tick: Tick,
        listen: Listener,
    ) -> None:
        self._flight = flight
        self._planned = planned
        self._accept, self._tick, self._listen = accept, tick, listen
        self._total = sum(task.seconds for task in planned) or 1.0
        self._suspects: list[Task] = []

    def perform(self) -> None:
        for task in self._planned:
            self._flight.launch(task)
        self._drain(self._split_or_suspect)
        for task in self._suspects:
            self._relaunch(task.again())
            self._drain(self._give_up)

    def _drain(self, on_loss: OnLoss) -> None:
        client = self._flight.client
        while self._flight.tasks:
            self._tick()
            landed = self._flight.wait()
            if not landed and client.status == "closed":
                for task, done in self._flight.abandon():
                    self._settle(task, done or _lost(task, _SCHEDULER_GONE))
            for task, end in self._flight.land(landed):
                if isinstance(end, TaskOutcome):
                    self._settle(task, end if _belongs_to(task, end) else _lost(task, _UNEXPECTED))
                elif client.status == "running" and _is_loss(end):
                    on_loss(task, _reason(end))
                else:
                    self._give_up(task, _reason(end))

    def _settle(self, task: Task, done: TaskOutcome) -> None:
        self._accept(done)
        statuses = Counter(r.status.label for r in done.records if isinstance(r, CellRecord))
        self._listen(CellsDone(dict(statuses), task.seconds / self._total))

    def _split_or_suspect(self, task: Task, _reason: str) -> None:
        if len(task.items) > 1:
            for part in task.alone():
                self._relaunch(part)
        else:
            self._suspects.append(task)

    def _give_up(self, task: Task, reason: str) -> None:
        self._settle(task, _lost(task, reason))

    def _relaunch(self, task: Task) -> None:
        if self._flight.client.status != "running":
            self._give_up(task, _SCHEDULER_GONE)
            return
        self._listen(TaskRetried(len(task.cells)))
        self._flight.relaunch(task)


async def _gathered(client: Any, futures: Sequence[Any]) -> dict[str, Any] | Exception:
    """The results by key, None for those that have none.

    An error of a task is returned, never raised: SystemExit and KeyboardInterrupt would end
    the event loop that this runs in.
    """
    try:
        by_key = {future.key: future for future in futures}
        return dict(await client.gather(by_key, errors="skip", asynchronous=True))
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return RuntimeError(type(error).__name__)


async def _error(future: Any) -> BaseException | None:
    """The error of a task; None if its future has left the state ``error`` meanwhile."""
    return await future.exception(asynchronous=True) if future.status == "error" else None


def _belongs_to(task: Task, done: TaskOutcome) -> bool:
    """Whether all of an outcome is of this task."""
    results = {_result(record) for record in done.records}
    return done.name == task.name and results <= task.expected_results


def _result(record: Record) -> tuple[str, str]:
    if isinstance(record, CellRecord):
        return record.cell, record.solve
    return "", record.problem


def _is_loss(end: BaseException | str) -> bool:
    """Whether a retry may help: the failure is not one of the task's own code."""
    from distributed import KilledWorker

    lost = (str, KilledWorker, SystemExit, KeyboardInterrupt)
    return isinstance(end, lost)


def _reason(end: BaseException | str) -> str:
    from distributed import KilledWorker

    if isinstance(end, str):
        return end
    if isinstance(end, KilledWorker):
        return _WORKER_DIED
    return f"the cluster could not run it: {type(end).__name__}: {_first_line(end)}".rstrip(": ")


def _first_line(error: BaseException) -> str:
    try:
        return next(iter(str(error).splitlines()), "")
    except Exception:
        return ""


def _lost(task: Task, reason: str) -> TaskOutcome:
    records = tuple(
        CellRecord(
            cell=cell.id,
            solve=item.key,
            problem=item.problem,
            status=Status.LOST,
            attempt=cell.attempt,
            error=reason,
        )
        for item in task.items
        if isinstance(item, Solve)
        for cell in item.cells
    )
    return TaskOutcome(f"{task.name}-lost", records, written=False)
