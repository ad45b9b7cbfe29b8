"""Tasks sent to the cluster and collected; those that it loses are retried, then ``lost``.

`InFlight` has the tasks that are on the cluster, and is all that talks to Dask; `Suspects` has the
solves that may have killed their workers; `Dispatch` decides what becomes of every task.
"""

import asyncio
import pickle
import queue
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from distributed import KilledWorker

import solvers
from sweep.cluster.workforce import known_workers
from sweep.errors import first_line
from sweep.events import CellsDone, Listener, MechanismStopped, TaskRetried
from sweep.grid.cells import MechanismSpec
from sweep.plan.tasks import Bound, Item, Solve, Task, Tasks
from sweep.store.ledger import MAX_WORKER_DEATHS
from sweep.store.records import BoundRecord, CellRecord, Record, Status
from sweep.store.worker_store import WorkerStore
from sweep.worker import checks
from sweep.worker.perform import Refusal, TaskOutcome, done_before, parcel

Answer = TaskOutcome | Refusal | Exception
End = Answer | BaseException | str
"""How a task ends: with an outcome, refused, by an error, or lost for a reason."""

DROPPED = "the scheduler dropped it each time; run again to continue"
_NOT_FETCHED = "its worker returned a result that cannot be read here; run again to continue"
_UNEXPECTED = "the cluster returned results of another task; run again to continue"
_WORKER_DIED = (
    "its worker died each time: ended at twice its time limit, killed, crashed or out of memory; "
    "'sweep plan' shows the memory that it needs"
)
MOST_ALIKE = 20
"""A user's mechanism is stopped if its first cells, this many, all fail with the same error."""
_MOST_REPEATS = 10
"""Most repetitions of a task that no worker has tried."""

_TICK_SECONDS = 0.5
_ANSWER_SECONDS = 5.0
_LOOK_SECONDS = 1.0
_SETTLED_SECONDS = 2.0
"""Dask does not replace a worker that dies while its nanny is still busy starting it."""
_MOST_FETCHES = 20
_LEAST_IN_FLIGHT = 64
_IN_FLIGHT_PER_THREAD = 20
"""Tasks on the cluster for each thread: enough work while the driver writes a dataset."""
_MOST_AT_ONCE = 16
"""The driver holds at most this many outcomes at a time, each of up to a hundred cells."""
_PYTHON_BYTES = 2**28
"""Memory of a worker that has not solved anything."""
_SMALL_BYTES = 2**28
"""Expected memory below which any worker will do."""


class Dispatch:
    """Passes all tasks through the cluster, with only as many at a time as keep it busy.

    A task that is lost with its workers is split, so that one cell does not take others down
    with it, and each of its items is tried on a worker of its own. An item that has killed
    `MAX_WORKER_DEATHS` workers is recorded as ``lost``.

    Parameters
    ----------
    client : distributed.Client
        The client of the cluster.
    planned : Tasks
        The tasks, most urgent first; each is made when it is sent.
    view : WorkerStore
        The part of the store that workers see.
    accept : callable
        Called with every task and its outcome.
    tick : callable
        Called at least every few seconds; returns the number of threads of the cluster. An error
        that it raises ends the dispatch.
    regain : callable
        Returns a client once there is a scheduler again, given the client that has lost it; an
        error that it raises ends the dispatch.
    refuse : callable
        Closes a worker that differs from the command, given its address and the difference.
    listen : Listener
        Called with an event for every task that ends.
    """

    def __init__(
        self,
        client: Any,
        planned: Tasks,
        view: WorkerStore,
        accept: Callable[[Task, TaskOutcome], None],
        tick: Callable[[], int],
        regain: Callable[[Any], Any],
        refuse: Callable[[str, str], None],
        listen: Listener,
    ) -> None:
        self._in_flight, self._suspects = InFlight(client, view), Suspects()
        self._repeats = Counter[str]()
        self._alike: dict[str, tuple[str, int]] = {}
        self._stopped = set[str]()
        known = solvers.all_mechanisms().values()
        self._users = {one.name for one in known if one.foreign or one.runs_code}
        self._planned, self._accept, self._tick = planned, accept, tick
        self._regain, self._refuse, self._listen = regain, refuse, listen

    def perform(self) -> None:
        """Do all tasks.

        Raises
        ------
        KeyboardInterrupt
            If the user interrupts it; no task is in flight then.
        """
        sent = threads = 0
        try:
            while self._in_flight.tasks or sent < len(self._planned) or self._suspects:
                room = max(_LEAST_IN_FLIGHT, _IN_FLIGHT_PER_THREAD * threads)
                while sent < len(self._planned) and len(self._in_flight.tasks) < room:
                    self._send(self._planned[sent])
                    sent += 1
                threads = self._tick()
                landed = self._in_flight.wait()
                if self._in_flight.client.status != "running":
                    self._start_over(self._regain(self._in_flight.client))
                    continue
                for task, deaths in self._in_flight.stranded():
                    self._stranded(task, deaths)
                for task, end in self._in_flight.collect(landed):
                    self._handle(task, end)
                if self._suspects:
                    self._try_suspects()
        except BaseException:
            self._in_flight.cancel()
            raise

    def _handle(self, task: Task, end: End) -> None:
        died = end.allowed_failures + 1 if isinstance(end, KilledWorker) else 0
        on_trial = self._suspects.on_trial(task)
        hopeless = on_trial and self._suspects.end_trial(task, died)
        retriable = isinstance(end, str | KilledWorker | SystemExit | KeyboardInterrupt)
        if isinstance(end, TaskOutcome):
            ours = _belongs_to(task, end)
            self._settle(task, end if ours else lost(task, _UNEXPECTED))
        elif isinstance(end, Refusal):
            self._refuse(end.worker, end.message)
            reason = f"workers refused it each time, the last one because {end.message}"
            self._repeat(task, on_trial, f"{reason}; run again to continue")
        elif end == DROPPED:
            self._repeat(task, on_trial, DROPPED)
        elif retriable and not hopeless and (died or not on_trial):
            self._suspects.add(task)
        else:
            self._settle(task, lost(task, _reason(end), self._suspects.deaths(task)))

    def _repeat(self, task: Task, alone: bool, reason: str) -> None:
        """Send a task that no worker has tried again, up to a limit."""
        self._repeats[task.stem] += 1
        if self._repeats[task.stem] > _MOST_REPEATS:
            self._settle(task, lost(task, reason, self._suspects.deaths(task)))
        elif alone:
            self._suspects.add(task)
        else:
            self._send(task.again())

    def _stranded(self, task: Task, deaths: int) -> None:
        """Handle a task whose only possible workers are gone."""
        done, on_trial = done_before(task, self._in_flight.view), self._suspects.on_trial(task)
        hopeless = on_trial and self._suspects.end_trial(task, deaths)
        if done is not None:
            self._settle(task, done)
        elif hopeless:
            self._settle(task, lost(task, _WORKER_DIED, self._suspects.deaths(task)))
        elif not on_trial:
            self._listen(TaskRetried(len(task.cells)))
            self._send(task.again())
        else:
            self._suspects.add(task)

    def _try_suspects(self) -> None:
        """Send suspects to idle workers; to busy ones if nothing else is left to do."""
        busy = len(self._in_flight.tasks) > self._suspects.trials
        for task, worker in self._suspects.next_trials(self._in_flight.loads(), busy=busy):
            self._listen(TaskRetried(len(task.cells)))
            self._in_flight.submit(task, worker)

    def _start_over(self, client: Any) -> None:
        """Send the tasks that the journal lacks to the scheduler of a new client."""
        self._in_flight.client = client
        for task, done in self._in_flight.abandon():
            if self._suspects.on_trial(task):
                self._suspects.end_trial(task, 0)
            if done is None:
                self._send(task.again())
            else:
                self._settle(task, done)

    def _settle(self, task: Task, done: TaskOutcome) -> None:
        self._accept(task, done)
        statuses = Counter(r.status.label for r in done.records if isinstance(r, CellRecord))
        self._listen(CellsDone(dict(statuses), task.name))
        solves = {item.key: item for item in task.items if isinstance(item, Solve)}
        for record in done.records:
            if isinstance(record, CellRecord) and record.status is not Status.LOST:
                self._judge(solves[record.solve].mechanism, record)

    def _send(self, task: Task) -> None:
        if items := task.without(self._stopped).items:
            self._in_flight.submit(replace(task, items=items))

    def _judge(self, mechanism: MechanismSpec, record: CellRecord) -> None:
        """Stop a mechanism of the user's whose first cells all fail with the same error.

        A mechanism of `solvers` may refuse the large cells, which come first, and solve the rest.
        """
        if mechanism.name not in self._users:
            return
        name = mechanism.shown
        error, cells = self._alike.get(name, (record.error, 0))
        if record.status is not Status.FAILED or record.error != error or cells < 0:
            self._alike[name] = "", -1
            return
        self._alike[name] = error, cells + 1
        if cells + 1 == MOST_ALIKE:
            self._stopped.add(name)
            self._listen(MechanismStopped(name, MOST_ALIKE, error))
            for task in self._in_flight.withdraw(self._stopped):
                self._send(task.again())


class InFlight:
    """The tasks that are on the cluster now; errors of tasks are returned, never raised."""

    def __init__(self, client: Any, view: WorkerStore) -> None:
        self.client, self.view = client, view
        self.tasks: dict[str, Task] = {}
        self._futures: dict[str, Any] = {}
        self._fetches: Counter[str] = Counter()
        self._landed: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._placed: dict[str, frozenset[str]] = {}
        self._next_look = 0.0

    def submit(self, task: Task, alone_on: str | None = None) -> None:
        """Send a task; to a given worker if it must run alone there."""
        where = self._large_enough(task) if alone_on is None else [alone_on]
        try:
            future = self.client.submit(
                pickle.loads, parcel(task, self.view), key=task.name, pure=False, workers=where
            )
        except Exception:
            if self.client.status == "running":
                raise
            future = None  # the scheduler is gone: the task stays in flight, to be sent again
        if where:
            self._placed[task.name] = frozenset(where)
        self.tasks[task.name], self._futures[task.name] = task, future
        if future is not None:
            future.add_done_callback(self._landed.put)

    def _large_enough(self, task: Task) -> list[str] | None:
        """The workers with enough memory for a task; None if all have it, or none has."""
        if task.bytes < _SMALL_BYTES:
            return None
        workers = known_workers(self.client) or {}
        needed = task.bytes + _PYTHON_BYTES
        roomy = [worker for worker, has in workers.items() if not 0 < has["memory_limit"] < needed]
        return roomy if 0 < len(roomy) < len(workers) else None

    def wait(self) -> list[Any]:
        """Some of the futures that have ended; empty if none ends within half a second."""
        try:
            landed = [self._landed.get(timeout=_TICK_SECONDS)]
        except queue.Empty:
            return []
        while not self._landed.empty() and len(landed) < _MOST_AT_ONCE:
            landed.append(self._landed.get())
        return landed

    def collect(self, landed: Iterable[Any]) -> list[tuple[Task, End]]:
        """The ends of tasks whose futures have ended: an outcome, an error, or a reason.

        A future whose result was lost with its worker in the meantime stays in flight: the
        scheduler has it computed again.
        """
        landed = [future for future in landed if future.key in self.tasks]
        fetched = self._fetch([future for future in landed if future.status == "finished"])
        ends = ((future, self._end(future, fetched)) for future in landed)
        return [(self._take(future.key), end) for future, end in ends if end is not None]

    def stranded(self) -> list[tuple[Task, int]]:
        """Withdraw the tasks whose only possible workers are gone.

        With each, how many workers have died of it, not counting those that ended orderly.
        """
        if not self._placed or time.monotonic() < self._next_look:
            return []
        self._next_look = time.monotonic() + _LOOK_SECONDS
        present, placed = self.loads().keys(), self._placed
        self._placed = {name: where for name, where in placed.items() if name in self.tasks}
        gone = [name for name, where in self._placed.items() if not where & present]
        if not present or not gone:
            return []
        deaths = self._answer(_suspicions, self.client, gone)
        if deaths is None:
            return []  # a scheduler that cannot say yet is asked again at the next look
        with suppress(Exception):
            self.client.cancel([self._futures[name] for name in gone if self._futures[name]])
        return [(self._take(name), deaths[name]) for name in gone]

    def withdraw(self, mechanisms: Collection[str]) -> list[Task]:
        """Withdraw the tasks with solves by these mechanisms that have not begun."""
        begun = self._answer(_begun, self.client)
        if begun is None:
            return []
        named = [
            name
            for name, task in self.tasks.items()
            if name not in begun and task.without(mechanisms) is not task
        ]
        with suppress(Exception):
            self.client.cancel([self._futures[name] for name in named if self._futures[name]])
        return [self._take(name) for name in named]

    def loads(self) -> dict[str, int]:
        """How many tasks each worker has; empty if the scheduler does not answer."""
        return self._answer(_loads, self.client) or {}

    def abandon(self) -> list[tuple[Task, TaskOutcome | None]]:
        """Every task in flight, with its outcome where the journal has it."""
        tasks = [self._take(key) for key in list(self._futures)]
        return [(task, done_before(task, self.view)) for task in tasks]

    def cancel(self) -> None:
        """Withdraw all tasks."""
        sent = [future for future in self._futures.values() if future]
        if self.client.status == "running":
            with suppress(Exception):
                self.client.cancel(sent, force=True)

    def _end(self, future: Any, fetched: dict[str, Answer]) -> End | None:
        status = future.status
        done = fetched.get(future.key) or done_before(self.tasks[future.key], self.view)
        if done is not None:
            return done
        if status in ("cancelled", "lost"):
            return DROPPED
        if status == "error":
            error: BaseException | Refusal | None = self._answer(_error, self.client, future)
            if error is not None:
                return error
        self._fetches[future.key] += status != "pending"
        if self._fetches[future.key] >= _MOST_FETCHES:
            return _NOT_FETCHED
        future.add_done_callback(self._landed.put)
        return None

    def _fetch(self, futures: Sequence[Any]) -> dict[str, Answer]:
        """The results that can be fetched; one by one if fetching them together fails."""
        if not futures:
            return {}
        results = self._answer(_gathered, self.client, futures)
        if isinstance(results, dict):
            return {key: done for key, done in results.items() if isinstance(done, Answer)}
        if results is None or len(futures) == 1:
            return {}
        return {key: done for future in futures for key, done in self._fetch([future]).items()}

    def _answer(self, ask: Callable[..., Any], *args: Any) -> Any:
        """The result of a coroutine; None if it takes too long or the scheduler is gone."""
        try:
            return self.client.sync(ask, *args, callback_timeout=_ANSWER_SECONDS)
        except Exception:
            return None

    def _take(self, key: str) -> Task:
        del self._futures[key]
        return self.tasks.pop(key)


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


async def _loads(client: Any) -> dict[str, int]:
    tasks = await client.scheduler.processing(workers=None)
    return {worker: len(keys) for worker, keys in tasks.items()}


async def _begun(client: Any) -> set[str]:
    """The tasks that workers run now, as of their last heartbeats."""

    def executing(dask_scheduler: Any) -> set[str]:
        return {task.key for worker in dask_scheduler.workers.values() for task in worker.executing}

    begun: set[str] = await client.run_on_scheduler(executing)
    return begun


async def _suspicions(client: Any, keys: Sequence[str]) -> dict[str, int]:
    """How many workers died while they had each of these tasks, as the scheduler counts."""

    def suspicious(dask_scheduler: Any) -> dict[str, int]:
        known = dask_scheduler.tasks
        return {key: known[key].suspicious if key in known else 0 for key in keys}

    counted: dict[str, int] = await client.run_on_scheduler(suspicious)
    return counted


async def _error(client: Any, future: Any) -> BaseException | Refusal | None:
    """The error of a task; None if its future is no longer in the state ``error``.

    `sweep.worker.perform` raises nothing, so an ordinary error means that the worker could not
    unpickle the task.
    """
    if future.status != "error":
        return None
    error: BaseException = await future.exception(asynchronous=True)
    if isinstance(error, KilledWorker) or not isinstance(error, Exception):
        return error

    def erred_on(dask_scheduler: Any) -> str:
        worker: str = next(iter(dask_scheduler.tasks[future.key].erred_on))
        return worker

    return Refusal(await client.run_on_scheduler(erred_on), checks.unreadable(error))


class Suspects:
    """Tasks of one item each that may have killed their workers, and the results of trying them."""

    def __init__(self) -> None:
        self._waiting: deque[Task] = deque()
        self._trials: dict[str, str] = {}
        self._deaths: Counter[str] = Counter()
        self._seen: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, task: Task) -> None:
        """Add every item of a task, to be tried by itself."""
        self._waiting += task.alone() if len(task.items) > 1 else (task.again(),)

    def next_trials(self, loads: Mapping[str, int], *, busy: bool) -> list[tuple[Task, str]]:
        """The tasks to send now, each with its worker.

        Parameters
        ----------
        loads : Mapping of str to int
            How many tasks each worker has.
        busy : bool
            Whether the run has other tasks in flight: only idle workers will do then.
        """
        now, taken = time.monotonic(), self._trials.values()
        self._seen = {worker: self._seen.get(worker, now) for worker in loads}
        free = [
            worker
            for worker, load in loads.items()
            if worker not in taken
            and not (load and busy)
            and now - self._seen[worker] >= _SETTLED_SECONDS
        ]
        pairs = [(self._waiting.popleft(), worker) for worker in free[: len(self._waiting)]]
        self._trials |= {task.name: worker for task, worker in pairs}
        return pairs

    def on_trial(self, task: Task) -> bool:
        """Whether a task in flight has a worker of its own."""
        return task.name in self._trials

    @property
    def trials(self) -> int:
        """How many tasks in flight have a worker of their own."""
        return len(self._trials)

    def end_trial(self, task: Task, deaths: int) -> bool:
        """Count the workers that died of a trial; whether the task is given up."""
        del self._trials[task.name]
        self._deaths[_subject(task.items[0])] += deaths
        return self.deaths(task) >= MAX_WORKER_DEATHS

    def deaths(self, task: Task) -> int:
        """How many workers died while they ran only this task."""
        return self._deaths[_subject(task.items[0])] if len(task.items) == 1 else 0


def _subject(item: Item) -> str:
    """The solve or problem of an item."""
    return item.key if isinstance(item, Solve) else f"bound {item.problem}"


def _reason(end: BaseException | str) -> str:
    """Why a task ended without an outcome, in words."""
    if isinstance(end, str):
        return end
    if isinstance(end, KilledWorker):
        return _WORKER_DIED
    return f"the cluster could not run it: {first_line(end)}"


def lost(task: Task, error: str, deaths: int = 0) -> TaskOutcome:
    """The records of a lost task; none for its bounds, unless they are deadly."""
    cells = (
        CellRecord(
            cell=cell.id,
            solve=item.key,
            problem=item.problem,
            status=Status.LOST,
            attempt=cell.attempt,
            started=time.time() if deaths else 0.0,
            error=error,
            deaths=deaths,
        )
        for item in task.items
        if isinstance(item, Solve)
        for cell in item.cells
    )
    deadly = (
        BoundRecord(item.problem, error=error, code=item.code)
        for item in task.items
        if isinstance(item, Bound) and deaths >= MAX_WORKER_DEATHS
    )
    return TaskOutcome(f"{task.name}-lost", (*cells, *deadly), written=False)


def _belongs_to(task: Task, done: TaskOutcome) -> bool:
    """Whether an outcome has only results of this task."""
    results = {_result(record) for record in done.records}
    return done.name == task.name and results <= task.expected_results


def _result(record: Record) -> tuple[str, str]:
    if isinstance(record, CellRecord):
        return record.cell, record.solve
    return "", record.problem if isinstance(record, BoundRecord) else ""
