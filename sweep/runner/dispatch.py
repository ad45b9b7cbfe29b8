"""Sends tasks to the cluster, collects their outcomes, and repeats lost tasks up to a limit."""

import math
import pickle
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import TypeVar

from distributed import Future, KilledWorker, Scheduler

import solvers
from sweep.cluster.workforce import Workforce
from sweep.events import TaskRetried, Warned
from sweep.plan.tasks import Solves, Task
from sweep.runner.session import Session
from sweep.store.folder import WorkerStore
from sweep.store.keys import Rows
from sweep.store.ledger import MAX_WORKER_DEATHS
from sweep.store.records import NO_CELL, BoundRecord, CellRecord, Status
from sweep.worker import checks
from sweep.worker.perform import Loss, TaskOutcome, pack_call, read_recorded

_WORKER_DIED = (
    "its worker died each time: ended at twice its time limit, killed, crashed or out of memory; "
    "'sweep plan' shows the memory that it needs"
)
_T = TypeVar("_T")
MOST_ALIKE = 20
"""A user's mechanism is stopped if its first `MOST_ALIKE` cells all fail with the same error.

A mistake in a function fails every cell; one that merely refuses the largest cells, which come
first, is not stopped by a handful of them.
"""
MOST_REPEATS = 20
"""Largest number of times that a task is sent again if it is lost without killing a worker.

Schedulers and batch jobs that end at their walltime lose a long task a few times; a task that no
worker can read is lost within seconds each time, and must end.
"""

_TICK_SECONDS = 0.5
"""Longest wait for the end of a task before Ctrl-C and the workers are looked at."""
_ANSWER_SECONDS = 5.0
"""Longest wait for a worker that has ended a task to send the outcome, a few kB.

The one thread that fetches outcomes waits meanwhile; a task that is given up too early is sent
again, and finds its records in the journal.
"""
SETTLED_SECONDS = 2.0
"""Least age, in seconds, of a worker on which a suspect is tried.

A suspect is a task that may have killed its worker. Dask does not replace a worker that dies before
this age.
"""
_LEAST_IN_FLIGHT = 64
"""Least number of tasks in flight, so that workers that join find work at once."""
_IN_FLIGHT_PER_THREAD = 20
"""Tasks in flight per worker thread, enough to keep it busy while the driver writes a dataset.

A block of cheap cells takes about half a second, and a dataset of a million cells some seconds. All
tasks in flight are held in memory by the driver and the scheduler.
"""
_PYTHON_BYTES = 2**28
"""Bytes of memory that a worker process uses before its first solve; 110 MB without BLAS."""
_SMALL_BYTES = 2**28
"""Bytes of memory that every worker is assumed to have available for a solve.

Tasks below it name no workers, so that Dask may queue and balance them freely.
"""


@dataclass(frozen=True)
class Flight:
    """A task that has been sent to the cluster.

    Attributes
    ----------
    task : Task
        The task.
    future : distributed.Future, optional
        The task's future; None if the scheduler was gone when the task was sent.
    where : list of str
        Addresses of the workers that may run the task; empty if all workers may run it.
    alone : bool
        Whether the task is a suspect, which runs as the only task of a worker.
    """

    task: Task
    future: Future[TaskOutcome | Loss] | None
    where: list[str]
    alone: bool


@dataclass(eq=False)
class Dispatch:
    """Sends all tasks to the cluster, no more at a time than are needed to keep it busy.

    A task whose worker died is split into its solves, so that one cell does not affect other cells.
    Each of these solves is then a suspect, which runs as the only task of a worker. A solve that
    has killed `MAX_WORKER_DEATHS` workers is recorded as ``lost``.

    Attributes
    ----------
    session : Session
        The session of the run, which accepts the outcome of every task.
    workforce : Workforce
        The workers, and the client of their cluster.
    work : Solves
        The solves.
    blocks : sequence of numpy.ndarray
        The numbers of the solves of every task, most urgent first; a task is created when it is
        sent.
    worker_store : WorkerStore
        The store as the workers see it.
    flights : dict of str to Flight
        The tasks that have been sent and have not ended, by name.
    suspects : deque of Task
        The suspects that have not been sent.
    landed : SimpleQueue
        The name and the end of every task that has ended since it was sent.
    """

    session: Session
    workforce: Workforce
    work: Solves
    blocks: Sequence[Rows]
    worker_store: WorkerStore
    flights: dict[str, Flight] = field(default_factory=dict)
    suspects: deque[Task] = field(default_factory=deque)
    landed: SimpleQueue[tuple[str, TaskOutcome | Loss]] = field(default_factory=SimpleQueue)
    _seen: dict[str, float] = field(default_factory=dict)
    _first_errors: dict[str, list[str]] = field(default_factory=dict)
    _stopped: set[str] = field(default_factory=set)

    def perform(self, tick: Callable[[], None]) -> None:
        """Send all tasks, and return when every task has ended.

        Parameters
        ----------
        tick : callable
            Called repeatedly, usually twice a second or more; an error that it raises ends the
            dispatch.

        Raises
        ------
        NoWorkersError, SchedulerLostError
            If the workers or the scheduler are missing for longer than the cluster's ``patience``.
        """
        workforce, flights, blocks, sent = self.workforce, self.flights, self.blocks, 0
        try:
            while left := len(flights) + len(self.suspects) + len(blocks) - sent:
                tick()
                # 1. workers that have come or gone
                if workforce.look():
                    self.try_suspects()
                self.session.meter.look(workforce.threads, left)
                # 2. send as many tasks as keep every thread busy
                room = max(_LEAST_IN_FLIGHT, _IN_FLIGHT_PER_THREAD * sum(workforce.threads))
                while sent < len(blocks) and len(flights) < room:
                    self._send(self.work.task(f"{self.session.run}-{sent:06d}", blocks[sent]))
                    sent += 1
                # 3. take the outcome of one task, or wait for a lost scheduler and send all anew
                ended = self.take_next_end()
                if workforce.client.status != "running":
                    lost = self.withdraw(flights)
                    workforce.regain(tick)
                    for flight in [*lost, *(ended or ())[:1]]:
                        self._send(flight.task.again())
                elif ended is not None:
                    self.handle(*ended)
        finally:
            self.withdraw(flights)

    def try_suspects(self) -> None:
        """Withdraw tasks whose workers are gone; try suspects if no other tasks are in flight."""
        workers, now = self.workforce.workers, time.monotonic()
        if not workers:  # also if the scheduler does not answer
            return
        # Dask leaves a task waiting for ever if all the workers that may run it are gone
        flights = self.flights.items()
        gone = [
            name
            for name, flight in flights
            if flight.where and workers.keys().isdisjoint(flight.where)
        ]
        if gone:
            deaths = self.count_deaths(gone)
            for flight in self.withdraw(gone):
                # only a task that ran alone is certain to have killed its worker
                self.handle(flight, Loss(deaths.get(flight.task.name, 0) if flight.alone else 0))
        # a suspect is tried only where nothing else runs that its death would take along
        trials = {flight.where[0] for _, flight in flights if flight.alone}
        self._seen = {worker: self._seen.get(worker, now) for worker in workers}
        settled = [worker for worker in workers if now - self._seen[worker] >= SETTLED_SECONDS]
        for worker in settled if len(flights) == len(trials) else ():
            if self.suspects and worker not in trials:
                task = self.suspects.popleft()
                self.session.emit(TaskRetried(task.cells))
                self.submit(task, alone_on=worker)

    def handle(self, flight: Flight, end: TaskOutcome | Loss) -> None:
        task = flight.task
        if isinstance(end, TaskOutcome):
            self._settle(task, end)
            return
        if flight.alone:
            task = replace(task, deaths=task.deaths + end.deaths)
        if end.worker:
            self.workforce.refuse(end.worker, end.message)
        if end.deaths and task.deaths >= MAX_WORKER_DEATHS:
            self.give_up(task, _WORKER_DIED)
        elif not end.deaths and len(task.earlier) >= MOST_REPEATS:
            self.give_up(task, f"no worker did it: {end.message}; run again to continue")
        elif end.deaths or flight.alone:
            self.suspects += task.alone()
        else:
            self._send(task.again())

    def give_up(self, task: Task, error: str) -> None:
        """Record the solves of a task as lost, except those that a worker has already recorded.

        The error is recorded for the task's bounds only if the task killed too many workers.
        """
        solved = read_recorded(task, self.worker_store)
        records = list(solved.values())
        started = time.time() if task.deaths else 0.0
        lost = CellRecord(*NO_CELL, Status.LOST, error=error, started=started, deaths=task.deaths)
        for solve in task.solves:
            if not solve.cells and task.deaths >= MAX_WORKER_DEATHS:
                records.append(BoundRecord(solve.problem, error=error, code=solve.code))
            records += [record for record in solve.records(lost) if record.cell not in solved]
        self._settle(task, TaskOutcome(f"{task.name}-lost", tuple(records), written=False))

    def _send(self, task: Task) -> None:
        if self._stopped:
            solves = [solve for solve in task.solves if solve.mechanism.shown not in self._stopped]
            task = replace(task, solves=tuple(solves))
        if task.solves:
            self.submit(task)

    def _settle(self, task: Task, done: TaskOutcome) -> None:
        """Accept an outcome; stop a user's mechanism if its first cells all fail with one error.

        A mechanism of this project is never stopped: it may refuse the large cells, which come
        first, and solve the rest.
        """
        mechanisms = {solve.key: solve.mechanism for solve in task.solves}
        for record in self.session.accept(task, done):
            mechanism = mechanisms[record.solve]
            definition = solvers.all_mechanisms()[mechanism.name]
            errors = self._first_errors.setdefault(mechanism.shown, [])
            theirs = definition.foreign or definition.runs_code
            if theirs and len(errors) < MOST_ALIKE and record.status is not Status.LOST:
                errors.append(record.error if record.status is Status.FAILED else "")
                if len(errors) == MOST_ALIKE and errors[0] and len(set(errors)) == 1:
                    self._stop(mechanism.shown, errors[0])

    def _stop(self, name: str, error: str) -> None:
        """Stop sending cells of the mechanism displayed as ``name``, and report ``error``."""
        self._stopped.add(name)
        self.session.emit(
            Warned(
                f"no more cells of {name} are sent, since the first {MOST_ALIKE} all failed with: "
                f"{error}; the rest stays pending, and the same command continues"
            )
        )
        flights = self.flights.items()
        concerned = [
            task
            for task, flight in flights
            if name in {solve.mechanism.shown for solve in flight.task.solves}
        ]
        for flight in self.withdraw(concerned):
            self._send(flight.task.again())

    def submit(self, task: Task, alone_on: str | None = None) -> None:
        """Send a task to the worker ``alone_on`` or, by default, to any worker with enough memory.

        If all or none of the workers have enough memory, any worker may run the task.
        """
        needed, workers = max(solve.cost.bytes for solve in task.solves), self.workforce.workers
        where = [] if alone_on is None else [alone_on]
        if not where and needed >= _SMALL_BYTES:
            # a memory limit of 0 means that the worker has no limit
            limits = {name: worker["memory_limit"] or math.inf for name, worker in workers.items()}
            large = [name for name in workers if limits[name] >= needed + _PYTHON_BYTES]
            where = large if len(large) < len(workers) else []
        call, future = pack_call(task, self.worker_store), None
        try:
            future = self.workforce.client.submit(
                pickle.loads, call, key=task.name, pure=False, workers=where or None
            )
        except Exception:  # if the scheduler is gone, the task stays in flight and is sent again
            if self.workforce.client.status == "running":
                raise
        self.flights[task.name] = Flight(task, future, where, alone_on is not None)
        if future is not None:
            future.add_done_callback(self.fetch)

    def fetch(self, future: Future[TaskOutcome | Loss]) -> None:
        """Fetch the outcome of a task for `take_next_end`; Dask calls this in a separate thread.

        If the outcome cannot be fetched, for instance because the worker has died since, the task
        counts as lost. When it is sent again, it finds the records of its solves in the journal.
        """
        key = future.key
        if key not in self.flights:
            return
        try:
            end: TaskOutcome | Loss = future.result(timeout=_ANSWER_SECONDS)
        except BaseException as error:
            end = Loss()
            if isinstance(error, KilledWorker):
                end = Loss(error.allowed_failures + 1)
            elif future.status == "error":  # `perform` raises nothing: the task cannot be unpickled
                worker = self._ask(lambda dask_scheduler: [*dask_scheduler.tasks[key].erred_on])
                end = Loss(0, (worker or [""])[0], checks.explain_unreadable(error))
        self.landed.put((key, end))

    def take_next_end(self) -> tuple[Flight, TaskOutcome | Loss] | None:
        """Return the next task that has ended, and its outcome or loss.

        None if no task ends within half a second, or if the task that ended was withdrawn.
        """
        try:
            key, end = self.landed.get(timeout=_TICK_SECONDS)
        except Empty:
            return None
        return (self.flights.pop(key), end) if key in self.flights else None

    def count_deaths(self, names: Collection[str]) -> dict[str, int]:
        """For each of the tasks named, the number of workers that died while they had the task.

        Workers that end normally do not count. The result is empty if the scheduler does not
        answer.
        """

        def count(dask_scheduler: Scheduler) -> dict[str, int]:
            tasks = dask_scheduler.tasks
            return {name: tasks[name].suspicious for name in names if name in tasks}

        return self._ask(count) or {}

    def _ask(self, question: Callable[..., _T]) -> _T | None:
        """Return the scheduler's reply to ``question``; None if it does not answer."""
        client, seconds = self.workforce.client, _ANSWER_SECONDS
        with suppress(Exception):
            answer: _T = client.sync(client.run_on_scheduler, question, callback_timeout=seconds)
            return answer
        return None

    def withdraw(self, names: Iterable[str]) -> list[Flight]:
        """Withdraw the tasks named, and return them.

        A solve that has begun continues, and its worker records the outcome.
        """
        flights, client = [self.flights.pop(name) for name in [*names]], self.workforce.client
        if client.status == "running":
            with suppress(Exception):
                futures = [flight.future for flight in flights if flight.future is not None]
                client.cancel(futures, force=True)
        return flights
