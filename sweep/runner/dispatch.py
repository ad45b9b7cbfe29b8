"""Sends tasks to the cluster and collects their results; lost tasks are repeated, then given up.

`InFlight` has the tasks that are on the cluster, and only it talks to Dask; `Suspects` has the
solves that may have killed their workers; `Dispatch` decides what happens to every task.
"""

import asyncio
import pickle
import queue
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from distributed import KilledWorker

import solvers
from sweep.cluster.workforce import known_workers
from sweep.errors import first_line
from sweep.events import CellsDone, Listener, TaskRetried, Warned
from sweep.grid.cells import MechanismSpec
from sweep.plan.tasks import Task, Tasks
from sweep.store.folder import WorkerStore
from sweep.store.ledger import MAX_WORKER_DEATHS
from sweep.store.records import BoundRecord, CellRecord, Status
from sweep.worker import checks
from sweep.worker.perform import Refusal, TaskOutcome, parcel, recorded

Answer = TaskOutcome | Refusal | Exception
End = Answer | BaseException | str
"""How a task ended: an outcome, a refusal, an error, or the reason why the task was lost."""

DROPPED = "the scheduler dropped it each time; run again to continue"
_NOT_FETCHED = "its worker returned a result that cannot be read here; run again to continue"
_WORKER_DIED = (
    "its worker died each time: ended at twice its time limit, killed, crashed or out of memory; "
    "'sweep plan' shows the memory that it needs"
)
MOST_ALIKE = 20
"""A user's mechanism is stopped if its first cells, this many, all fail with the same error."""
_MOST_REPEATS = 10
"""Largest number of times that a task is sent again if no worker has tried it."""

_TICK_SECONDS = 0.5
_ANSWER_SECONDS = 5.0
_LOOK_SECONDS = 1.0
_SETTLED_SECONDS = 2.0
"""Age from which a worker may get a trial; Dask does not replace a worker that dies earlier."""
_MOST_FETCHES = 20
_LEAST_IN_FLIGHT = 64
_IN_FLIGHT_PER_THREAD = 20
"""Tasks on the cluster for each thread: enough to keep it busy while a dataset is written."""
_MOST_AT_ONCE = 16
"""Largest number of outcomes that the driver fetches at a time, each of up to a hundred cells."""
_PYTHON_BYTES = 2**28
"""Memory of a worker that has not solved anything."""
_SMALL_BYTES = 2**28
"""Expected memory below which any worker is large enough."""


class Dispatch:
    """Passes all tasks through the cluster, with just enough in flight to keep it busy.

    A task that is lost with its workers is split, so that one cell does not affect others, and each
    of its solves is tried on a worker of its own. A solve that has killed `MAX_WORKER_DEATHS`
    workers is recorded as ``lost``.

    Parameters
    ----------
    client : distributed.Client
        The client of the cluster.
    planned : Tasks
        The tasks, most urgent first; each is created when it is sent.
    worker_store : WorkerStore
        The workers' part of the store.
    accept : callable
        Called with every task and its outcome.
    tick : callable
        Called at least every few seconds; returns the number of threads of the cluster. An error
        that it raises ends the dispatch.
    regain : callable
        Returns a client when there is a scheduler again, given the client that has lost it; an
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
        worker_store: WorkerStore,
        accept: Callable[[Task, TaskOutcome], None],
        tick: Callable[[], int],
        regain: Callable[[Any], Any],
        refuse: Callable[[str, str], None],
        listen: Listener,
    ) -> None:
        self._in_flight, self._suspects = InFlight(client, worker_store), Suspects()
        self._repeats = Counter[str]()
        self._first_errors: dict[str, list[str]] = {}
        self._stopped = set[str]()
        self._planned, self._accept, self._tick = planned, accept, tick
        self._regain, self._refuse, self._listen = regain, refuse, listen

    def perform(self) -> None:
        """Do all tasks.

        Raises
        ------
        KeyboardInterrupt
            If the user interrupts; no task is in flight then.
        """
        in_flight, suspects = self._in_flight, self._suspects
        sent = threads = 0
        try:
            while in_flight.tasks or sent < len(self._planned) or suspects.waiting:
                room = max(_LEAST_IN_FLIGHT, _IN_FLIGHT_PER_THREAD * threads)
                while sent < len(self._planned) and len(in_flight.tasks) < room:
                    self._send(self._planned[sent])
                    sent += 1
                threads = self._tick()
                landed = in_flight.wait()
                if in_flight.client.status != "running":
                    lost = in_flight.withdraw(list(in_flight.tasks))
                    in_flight.client = self._regain(in_flight.client)
                    for task in lost:
                        suspects.end_trial(task, 0)
                        self._send(task.again())
                    continue
                for task, deaths in in_flight.stranded():
                    # only a task that ran alone is certain to have killed its worker
                    tried = deaths and task.name in suspects.trials
                    self._handle(task, _WORKER_DIED if tried else DROPPED, deaths)
                for task, end in in_flight.collect(landed):
                    self._handle(task, end)
                if suspects.waiting:
                    # busy workers are used if there is nothing else to do
                    busy = len(in_flight.tasks) > len(suspects.trials)
                    for task, worker in suspects.next_trials(in_flight.loads(), busy=busy):
                        self._listen(TaskRetried(task.cells))
                        in_flight.submit(task, worker)
        except BaseException:
            in_flight.withdraw(list(in_flight.tasks))
            raise

    def _handle(self, task: Task, end: End, deaths: int = 0) -> None:
        if isinstance(end, KilledWorker):
            deaths = end.allowed_failures + 1
        on_trial = self._suspects.end_trial(task, deaths)
        hopeless = on_trial and self._suspects.deaths(task) >= MAX_WORKER_DEATHS
        retriable = isinstance(end, str | KilledWorker | SystemExit | KeyboardInterrupt)
        if isinstance(end, TaskOutcome):
            self._settle(task, end)
        elif isinstance(end, Refusal) or end == DROPPED:
            reason = DROPPED
            if isinstance(end, Refusal):
                self._refuse(end.worker, end.message)
                reason = f"workers refused it each time, the last one because {end.message}"
                reason += "; run again to continue"
            self._repeats[task.stem] += 1
            if self._repeats[task.stem] > _MOST_REPEATS:
                self._give_up(task, reason)
            elif on_trial:
                self._suspects.add(task)
            else:
                self._send(task.again())
        # a trial that was lost without a death would be lost again: it is given up below
        elif retriable and not hopeless and (deaths or not on_trial):
            self._suspects.add(task)
        elif isinstance(end, str | KilledWorker):
            self._give_up(task, end if isinstance(end, str) else _WORKER_DIED)
        else:
            self._give_up(task, f"the cluster could not run it: {first_line(end)}")

    def _give_up(self, task: Task, error: str) -> None:
        """Record the solves of a task as lost, except those that workers have recorded.

        The task's bounds are recorded, as errors, only if they killed too many workers.
        """
        known, deaths = recorded(task, self._in_flight.worker_store), self._suspects.deaths(task)
        records = list(known.values())
        for solve in task.solves:
            if not solve.cells and deaths >= MAX_WORKER_DEATHS:
                records.append(BoundRecord(solve.problem, error=error, code=solve.code))
            started = time.time() if deaths else 0.0
            lost = solve.records(status=Status.LOST, started=started, error=error, deaths=deaths)
            records += [record for record in lost if record.cell not in known]
        self._settle(task, TaskOutcome(f"{task.name}-lost", tuple(records), written=False))

    def _settle(self, task: Task, done: TaskOutcome) -> None:
        self._accept(task, done)
        records = [record for record in done.records if isinstance(record, CellRecord)]
        statuses = dict(Counter(record.status.label for record in records))
        self._listen(CellsDone(statuses, task.name))
        mechanisms = {solve.key: solve.mechanism for solve in task.solves}
        for record in records:
            self._judge(mechanisms[record.solve], record)

    def _send(self, task: Task) -> None:
        solves = tuple(one for one in task.solves if one.mechanism.shown not in self._stopped)
        if solves:
            self._in_flight.submit(replace(task, solves=solves))

    def _judge(self, mechanism: MechanismSpec, record: CellRecord) -> None:
        """Stop a user's mechanism whose first cells all fail with the same error.

        A mechanism of `solvers` may refuse the large cells, which come first, and solve the rest.
        """
        known, name = solvers.all_mechanisms()[mechanism.name], mechanism.shown
        errors = self._first_errors.setdefault(name, [])
        users = known.foreign or known.runs_code
        if record.status is Status.LOST or len(errors) == MOST_ALIKE or not users:
            return
        errors.append(record.error if record.status is Status.FAILED else "")
        if len(errors) < MOST_ALIKE or not record.error or set(errors) != {record.error}:
            return
        self._stopped.add(name)
        self._listen(
            Warned(
                f"no more cells of {name} are sent, since the first {MOST_ALIKE} all failed with: "
                f"{record.error}; the rest stays pending, and the same command continues"
            )
        )
        in_flight = self._in_flight.tasks.items()
        named = [at for at, task in in_flight if name in {s.mechanism.shown for s in task.solves}]
        for task in self._in_flight.withdraw(named):
            self._suspects.end_trial(task, 0)
            self._send(task.again())


class InFlight:
    """The tasks that are on the cluster; errors of tasks are returned, never raised."""

    def __init__(self, client: Any, worker_store: WorkerStore) -> None:
        self.client, self.worker_store = client, worker_store
        self.tasks: dict[str, Task] = {}
        self._futures: dict[str, Any] = {}
        self._fetches: Counter[str] = Counter()
        self._landed: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._placed: dict[str, frozenset[str]] = {}
        self._next_look = 0.0

    def submit(self, task: Task, alone_on: str | None = None) -> None:
        """Send a task; if it must run alone, to the worker ``alone_on``."""
        where = self._large_enough(task) if alone_on is None else [alone_on]
        call, future = parcel(task, self.worker_store), None
        try:
            future = self.client.submit(
                pickle.loads, call, key=task.name, pure=False, workers=where
            )
        except Exception:  # if the scheduler is gone, the task stays in flight and is sent again
            if self.client.status == "running":
                raise
        if where:
            self._placed[task.name] = frozenset(where)
        self.tasks[task.name], self._futures[task.name] = task, future
        if future is not None:
            future.add_done_callback(self._landed.put)

    def _large_enough(self, task: Task) -> list[str] | None:
        """The workers with enough memory for a task; None if all or none have it."""
        needed = max(solve.bytes for solve in task.solves)
        if needed < _SMALL_BYTES:
            return None
        workers = known_workers(self.client) or {}
        least = needed + _PYTHON_BYTES
        # a limit of 0 means that there is none
        roomy = [worker for worker, has in workers.items() if not 0 < has["memory_limit"] < least]
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
        scheduler computes it again.
        """
        known = [future for future in landed if future.key in self.tasks]
        ends = (known and self._answer(_ends, self.client, known)) or [None] * len(known)
        collected = list[tuple[Task, End]]()
        for future, end in zip(known, ends, strict=True):
            # a pending future is being computed again; all others were asked in vain
            self._fetches[future.key] += end is None and future.status != "pending"
            if end is None and self._fetches[future.key] < _MOST_FETCHES:
                future.add_done_callback(self._landed.put)
            else:
                collected.append((self._take(future.key), end or _NOT_FETCHED))
        return collected

    def stranded(self) -> list[tuple[Task, int]]:
        """Withdraw the tasks whose only possible workers are gone.

        Returns each with the number of workers that died of it, not counting those that ended
        normally.
        """
        if not self._placed or time.monotonic() < self._next_look:
            return []
        self._next_look = time.monotonic() + _LOOK_SECONDS
        present, placed = self.loads().keys(), self._placed
        self._placed = {name: where for name, where in placed.items() if name in self.tasks}
        gone = [name for name, where in self._placed.items() if not where & present]
        deaths = self._answer(_suspicions, self.client, gone) if present and gone else None
        if deaths is None:
            return []  # if the scheduler cannot answer yet, it is asked again next time
        return [(task, deaths[task.name]) for task in self.withdraw(gone)]

    def withdraw(self, names: Sequence[str]) -> list[Task]:
        """Withdraw some tasks; a solve that has begun continues, and its worker records it."""
        if self.client.status == "running":
            with suppress(Exception):
                futures = filter(None, (self._futures[name] for name in names))
                self.client.cancel(list(futures), force=True)
        return [self._take(name) for name in names]

    def loads(self) -> dict[str, int]:
        """The number of tasks on each worker; empty if the scheduler does not answer."""
        return self._answer(_loads, self.client) or {}

    def _answer(self, ask: Callable[..., Any], *args: Any) -> Any:
        """The result of a coroutine; None if it takes too long or the scheduler is gone."""
        try:
            return self.client.sync(ask, *args, callback_timeout=_ANSWER_SECONDS)
        except Exception:
            return None

    def _take(self, key: str) -> Task:
        del self._futures[key]
        return self.tasks.pop(key)


async def _loads(client: Any) -> dict[str, int]:
    tasks = await client.scheduler.processing(workers=None)
    return {worker: len(keys) for worker, keys in tasks.items()}


async def _suspicions(client: Any, keys: Sequence[str]) -> dict[str, int]:
    """The scheduler's counts of workers that died while they had each of these tasks."""

    def suspicious(dask_scheduler: Any) -> dict[str, int]:
        known = dask_scheduler.tasks
        return {key: known[key].suspicious if key in known else 0 for key in keys}

    counted: dict[str, int] = await client.run_on_scheduler(suspicious)
    return counted


async def _ends(client: Any, futures: Sequence[Any]) -> list[End | None]:
    """The ends of tasks; None for an end that is not available now."""
    return await asyncio.gather(*(_end(client, future) for future in futures))


async def _end(client: Any, future: Any) -> End | None:
    """The end of a task; None if it is not available now.

    The task's error is returned, never raised: SystemExit and KeyboardInterrupt would end the event
    loop in which this runs. `sweep.worker.perform` raises nothing, so an ordinary error means that
    the worker could not unpickle the task.
    """
    status, key = future.status, future.key
    if status in ("cancelled", "lost"):
        return DROPPED
    try:
        if status == "finished":
            done = (await client.gather({key: future}, errors="skip", asynchronous=True)).get(key)
            return done if isinstance(done, Answer) else None
        if status != "error":
            return None
        error: BaseException = await future.exception(asynchronous=True)
        if isinstance(error, KilledWorker) or not isinstance(error, Exception):
            return error

        def erred_on(dask_scheduler: Any) -> str:
            worker: str = next(iter(dask_scheduler.tasks[key].erred_on))
            return worker

        return Refusal(await client.run_on_scheduler(erred_on), checks.unreadable(error))
    except asyncio.CancelledError:
        raise
    except BaseException:
        return None


class Suspects:
    """Single-solve tasks that may have killed their workers, and the results of trying them.

    Attributes
    ----------
    waiting : deque of Task
        Tasks to be tried.
    trials : dict of str to str
        The worker of each task that is being tried, by the task's name.
    """

    def __init__(self) -> None:
        self.waiting: deque[Task] = deque()
        self.trials: dict[str, str] = {}
        self._deaths: Counter[str] = Counter()
        self._seen: dict[str, float] = {}

    def add(self, task: Task) -> None:
        """Add every solve of a task, to be tried on its own."""
        self.waiting += task.alone()

    def next_trials(self, loads: Mapping[str, int], *, busy: bool) -> list[tuple[Task, str]]:
        """The tasks to send now, each with its worker.

        Parameters
        ----------
        loads : Mapping of str to int
            The number of tasks on each worker.
        busy : bool
            Whether the run has other tasks in flight, so that only idle workers are used.
        """
        now, taken = time.monotonic(), self.trials.values()
        self._seen = {worker: self._seen.get(worker, now) for worker in loads}
        free = [
            worker
            for worker, load in loads.items()
            if worker not in taken
            and not (load and busy)
            and now - self._seen[worker] >= _SETTLED_SECONDS
        ]
        pairs = [(self.waiting.popleft(), worker) for worker in free[: len(self.waiting)]]
        self.trials |= {task.name: worker for task, worker in pairs}
        return pairs

    def end_trial(self, task: Task, deaths: int) -> bool:
        """End a task's trial and count the workers that died; False if it was not on trial."""
        on_trial = self.trials.pop(task.name, None) is not None
        if on_trial:
            self._deaths[task.solves[0].key] += deaths
        return on_trial

    def deaths(self, task: Task) -> int:
        """The number of workers that died while they ran only this task's solve."""
        return self._deaths[task.solves[0].key] if len(task.solves) == 1 else 0
