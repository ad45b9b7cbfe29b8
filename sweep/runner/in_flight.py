"""The tasks that are on the cluster, and how each of them ends."""

import asyncio
import pickle
import queue
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from sweep.cluster.workforce import known_workers
from sweep.plan.tasks import Task
from sweep.runner import lost_tasks
from sweep.store.view import StoreView
from sweep.worker import calls, compatibility
from sweep.worker.perform import Refusal, TaskOutcome, done_before, perform

Answer = TaskOutcome | Refusal | Exception
End = Answer | BaseException | str
"""How a task ends: with an outcome, refused, by an error, or lost for a reason."""

_DROPPED = ("cancelled", "lost")
_TICK_SECONDS = 0.5
_FETCH_SECONDS = 5.0
_LOOK_SECONDS = 1.0
_MOST_FETCHES = 20
_LEAST_IN_FLIGHT = 64
_IN_FLIGHT_PER_THREAD = 20
"""Tasks on the cluster for each thread: enough work while the driver writes a dataset."""
_MOST_AT_ONCE = 16
"""Outcomes in the driver's memory at a time, of up to a hundred cells each."""
_PYTHON_BYTES = 2**28
"""What a worker takes before it has anything to do."""
_SMALL_BYTES = 2**28
"""Expected memory below which any worker will do."""


class InFlightTasks:
    """The tasks that are on the cluster now; errors of tasks are returned, never raised."""

    def __init__(self, client: Any, view: StoreView) -> None:
        self.client, self.view = client, view
        self.tasks: dict[str, Task] = {}
        self._futures: dict[str, Any] = {}
        self._fetches: Counter[str] = Counter()
        self._landed: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._placed: dict[str, frozenset[str]] = {}
        self._next_look = 0.0
        self._room, self._next_count = _LEAST_IN_FLIGHT, 0.0

    @property
    def has_room(self) -> bool:
        """Whether more tasks should be sent: as many as keep all threads busy, and no more."""
        if time.monotonic() >= self._next_count:
            threads = sum(int(has["nthreads"]) for has in known_workers(self.client).values())
            self._room = max(_LEAST_IN_FLIGHT, _IN_FLIGHT_PER_THREAD * threads)
            self._next_count = time.monotonic() + _LOOK_SECONDS
        return len(self.tasks) < self._room

    def submit(self, task: Task, alone_on: str | None = None) -> None:
        """Send a task; to a given worker if it must run alone there."""
        where = self._large_enough(task) if alone_on is None else [alone_on]
        future = self._future(calls.serialised(perform, task, self.view), task.name, where)
        if where:
            self._placed[task.name] = frozenset(where)
        self.tasks[task.name], self._futures[task.name] = task, future
        if future is not None:
            self._watch(future)

    def move(self, client: Any) -> None:
        """Continue with another client, or with a scheduler that does not know the tasks sent.

        One that knows them begins none of them any more, though the last client be unheard.
        """
        last, self.client = self.client.id, client
        self._answer(_release, client, last, list(self._futures))

    def _large_enough(self, task: Task) -> list[str] | None:
        """The workers with enough memory for a task; None if all have it, or none has."""
        if task.bytes < _SMALL_BYTES:
            return None
        workers = known_workers(self.client)
        needed = task.bytes + _PYTHON_BYTES
        roomy = [worker for worker, has in workers.items() if not 0 < has["memory_limit"] < needed]
        return roomy if 0 < len(roomy) < len(workers) else None

    def stranded(self) -> list[tuple[Task, int]]:
        """Withdraw the tasks that only workers that are gone could do.

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

    def unheard(self) -> list[str]:
        """Names of the tasks whose futures have not ended here."""
        return [name for name, future in self._futures.items() if future and not future.done()]

    def loads(self) -> dict[str, int]:
        """How many tasks each worker has; empty if the scheduler does not answer."""
        return self._answer(_loads, self.client) or {}

    def _future(self, parcel: bytes, key: str, workers: list[str] | None) -> Any:
        """A future; None if the scheduler is gone, in which case the task stays in flight."""
        submit = self.client.submit
        try:
            return submit(pickle.loads, parcel, key=key, pure=False, workers=workers)
        except Exception:
            if self.client.status == "running":
                raise
            return None

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
        finished = [future for future in landed if future.status == "finished"]
        fetched = self._fetch(finished)
        ends = ((future, self._end(future, fetched)) for future in landed)
        return [(self._take(future.key), end) for future, end in ends if end is not None]

    def abandon(self) -> list[tuple[Task, TaskOutcome | None]]:
        """Every task in flight, with its outcome where the journal has it."""
        tasks = [self._take(key) for key in list(self._futures)]
        return [(task, done_before(task, self.view)) for task in tasks]

    def cancel(self) -> None:
        sent = [future for future in self._futures.values() if future]
        if self.client.status == "running":
            with suppress(Exception):
                self.client.cancel(sent, force=True)

    def _end(self, future: Any, fetched: dict[str, Answer]) -> End | None:
        status = future.status
        done = fetched.get(future.key) or done_before(self.tasks[future.key], self.view)
        if done is not None:
            return done
        if status in _DROPPED:
            return lost_tasks.DROPPED
        if status == "error":
            error: BaseException | Refusal | None = self._answer(_error, self.client, future)
            if error is not None:
                return error
        self._fetches[future.key] += status != "pending"
        if self._fetches[future.key] >= _MOST_FETCHES:
            return lost_tasks.NOT_FETCHED
        self._watch(future)
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
            return self.client.sync(ask, *args, callback_timeout=_FETCH_SECONDS)
        except Exception:
            return None

    def _take(self, key: str) -> Task:
        del self._futures[key]
        return self.tasks.pop(key)

    def _watch(self, future: Any) -> None:
        future.add_done_callback(self._landed.put)


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


async def _suspicions(client: Any, keys: Sequence[str]) -> dict[str, int]:
    """How many workers died while they had each of these tasks, as the scheduler counts."""
    counted: dict[str, int] = await client.run_on_scheduler(_suspicious, keys)
    return counted


def _suspicious(keys: Sequence[str], dask_scheduler: Any) -> dict[str, int]:
    known = dask_scheduler.tasks
    return {key: known[key].suspicious if key in known else 0 for key in keys}


async def _release(client: Any, last: str, keys: Sequence[str]) -> None:
    await client.run_on_scheduler(_released, keys, last)


def _released(keys: Sequence[str], client: str, dask_scheduler: Any) -> None:
    dask_scheduler.client_releases_keys(keys, client, "sweep-moved")


async def _error(client: Any, future: Any) -> BaseException | Refusal | None:
    """The error of a task; None if its future is no longer in the state ``error``.

    What only reading a task can raise is the refusal of a worker.
    """
    if future.status != "error":
        return None
    error: BaseException = await future.exception(asynchronous=True)
    if lost_tasks.retriable(error) or not isinstance(error, Exception):
        return error
    worker = await client.run_on_scheduler(_erred_on, future.key)
    return Refusal(worker, compatibility.unreadable(error))


def _erred_on(key: str, dask_scheduler: Any) -> str:
    worker: str = next(iter(dask_scheduler.tasks[key].erred_on))
    return worker
