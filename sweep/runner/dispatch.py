"""Tasks sent to the cluster and taken back; those that it loses are retried, then ``lost``."""

import asyncio
import queue
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from sweep.events import CellsDone, Listener, TaskRetried
from sweep.plan.tasks import Bound, Solve, Task, shared_workloads
from sweep.store.ledger import DEADLY
from sweep.store.records import BoundRecord, CellRecord, Record, Status
from sweep.store.view import StoreView
from sweep.worker.perform import TaskOutcome, done_before, perform
from sweep.worker.solve import build

_DROPPED = ("cancelled", "lost")
_TICK_SECONDS = 0.5
_FETCH_SECONDS = 5.0
_LOOK_SECONDS = 5.0
_MOST_FETCHES = 20
_SMALL_BYTES = 2**28
"""Expected memory below which any worker will do."""
_MOST_BUILDS = 3
_MOST_DROPS = 5
_SCHEDULER_DROPPED = "the scheduler dropped it each time; run again to go on"
_NOT_FETCHED = "its worker returned a result that cannot be read here; run again to go on"
_UNEXPECTED = "the cluster returned results of something else; run again to go on"
_WORKER_DIED = (
    "its worker died each time (killed, crashed or out of memory); "
    "'sweep plan' shows the memory that it needs"
)

Tick = Callable[[], None]
Accept = Callable[[TaskOutcome], None]
OnLoss = Callable[[Task, str], None]
Regain = Callable[[Any], Any]


def execute(
    client: Any,
    planned: Sequence[Task],
    view: StoreView,
    accept: Accept,
    tick: Tick,
    listen: Listener,
    regain: Regain,
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
    regain : callable
        Gives a client that has lost its scheduler, or another one, once that is back; an error
        that it raises ends the execution.

    Raises
    ------
    KeyboardInterrupt
        If the user interrupts it; no task is in flight then.
    """
    flight = _Flight(client, planned, view)
    try:
        _Execution(flight, planned, accept, tick, listen, regain).perform()
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
        self._placed: dict[str, frozenset[str]] = {}
        self._next_look = 0.0

    def launch(self, task: Task) -> None:
        built = {key: self._workload(key) for key in task.workloads if key in self._specs}
        shared = {key: workload for key, workload in built.items() if workload is not None}
        about, roomy = (perform, task, self.view, shared), self._roomy(task)
        future = self._submit(*about, key=task.name, workers=roomy)
        if roomy:
            self._placed[task.name] = frozenset(roomy)
        self.tasks[task.name], self._futures[task.name] = task, future
        if future is not None:
            self._watch(future)

    def move(self, client: Any) -> None:
        """Go on with another client, or with a scheduler that knows nothing of what was sent."""
        self.client = client
        self._workloads.clear()
        self._builds.clear()

    def _roomy(self, task: Task) -> list[str] | None:
        """The workers with enough memory for a task; None if all have it, or none has."""
        if task.bytes < _SMALL_BYTES:
            return None
        workers = self._workers()
        roomy = [one for one, has in workers.items() if not 0 < has["memory_limit"] < task.bytes]
        return roomy if 0 < len(roomy) < len(workers) else None

    def stranded(self) -> list[Task]:
        """Take back the tasks whose workers, the only ones with enough memory, are gone."""
        if not self._placed or time.monotonic() < self._next_look:
            return []
        self._next_look = time.monotonic() + _LOOK_SECONDS
        present, placed = self._workers().keys(), self._placed
        self._placed = {name: where for name, where in placed.items() if name in self.tasks}
        gone = [name for name, where in self._placed.items() if not where & present]
        if not present or not gone:
            return []
        with suppress(Exception):
            self.client.cancel([self._futures[name] for name in gone if self._futures[name]])
        return [self._take(name) for name in gone]

    def _workers(self) -> dict[str, Any]:
        """What the scheduler knows of every worker, by address; empty if it does not answer."""
        try:
            return dict(self.client.scheduler_info()["workers"])
        except Exception:
            return {}

    def _submit(
        self,
        function: Callable[..., Any],
        *about: Any,
        key: str,
        workers: list[str] | None = None,
    ) -> Any:
        """A future; none if the scheduler is gone: what was to be done is then still in flight."""
        try:
            return self.client.submit(function, *about, key=key, pure=False, workers=workers)
        except Exception:
            if self.client.status == "running":
                raise
            return None

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
        landed = [future for future in landed if future.key in self.tasks]
        finished = [future for future in landed if future.status == "finished"]
        fetched = self._fetch(finished)
        ends = ((future, self._end(future, fetched)) for future in landed)
        return [(self._take(future.key), end) for future, end in ends if end is not None]

    def abandon(self) -> list[tuple[Task, TaskOutcome | None]]:
        """Every task in flight, with its outcome where the journal has it."""
        tasks = [self._take(key) for key in list(self._futures)]
        return [(task, done_before(task, self.view)) for task in tasks]

    def cancel(self) -> None:
        sent = [one for one in (*self._futures.values(), *self._workloads.values()) if one]
        if self.client.status == "running":
            with suppress(Exception):
                self.client.cancel(sent, force=True)

    def _end(
        self, future: Any, fetched: dict[str, TaskOutcome]
    ) -> TaskOutcome | BaseException | str | None:
        status = future.status
        done = fetched.get(future.key) or done_before(self.tasks[future.key], self.view)
        if done is not None:
            return done
        if status in _DROPPED:
            return _SCHEDULER_DROPPED
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
            built = self._submit(build, self._specs[key], self.view.code, key=name)
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
        regain: Regain,
    ) -> None:
        self._flight = flight
        self._regain = regain
        self._deaths: Counter[str] = Counter()
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
        while self._flight.tasks:
            self._tick()
            landed = self._flight.wait()
            if self._flight.client.status != "running":
                self._start_over()
                continue
            for task in self._flight.stranded():
                self._relaunch(task.again())
            for task, end in self._flight.land(landed):
                self._count_deaths(task, end)
                if isinstance(end, TaskOutcome):
                    self._settle(task, end if _belongs_to(task, end) else _lost(task, _UNEXPECTED))
                elif end == _SCHEDULER_DROPPED and len(task.earlier) < _MOST_DROPS:
                    self._flight.relaunch(task.again())
                elif _is_loss(end):
                    on_loss(task, _reason(end))
                else:
                    self._give_up(task, _reason(end))

    def _start_over(self) -> None:
        """Send to a scheduler that came back what is not in the journal."""
        self._flight.move(self._regain(self._flight.client))
        for task, done in self._flight.abandon():
            if done is None:
                self._flight.relaunch(task.again())
            else:
                self._settle(task, done)

    def _count_deaths(self, task: Task, end: object) -> None:
        """Note the workers that died while they did one thing alone."""
        from distributed import KilledWorker

        if isinstance(end, KilledWorker) and len(task.items) == 1:
            self._deaths[_subject(task)] += end.allowed_failures + 1

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
        deaths = self._deaths[_subject(task)] if len(task.items) == 1 else 0
        self._settle(task, _lost(task, reason, deaths))

    def _relaunch(self, task: Task) -> None:
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
    return "", record.problem if isinstance(record, BoundRecord) else ""


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


def _subject(task: Task) -> str:
    """What the only item of a task is about."""
    (item,) = task.items
    return item.key if isinstance(item, Solve) else f"bound {item.problem}"


def _lost(task: Task, reason: str, deaths: int = 0) -> TaskOutcome:
    """What is said of a task that was lost; nothing of its bounds, unless they are deadly."""
    cells = (
        CellRecord(
            cell=cell.id,
            solve=item.key,
            problem=item.problem,
            status=Status.LOST,
            attempt=cell.attempt,
            error=reason,
            deaths=deaths,
        )
        for item in task.items
        if isinstance(item, Solve)
        for cell in item.cells
    )
    deadly = (
        BoundRecord(item.problem, error=reason, code=item.code)
        for item in task.items
        if isinstance(item, Bound) and deaths >= DEADLY
    )
    return TaskOutcome(f"{task.name}-lost", (*cells, *deadly), written=False)
