"""Tasks that neither run nor end, because of Dask.

Dask sends what it has collected at a certain time of day. When a machine's clock is set back at
that moment, the messages wait until it is that time again, for hours or days, and so do the next
heartbeats. Direct questions take other connections and are answered, so nobody else notices. And
Dask begins no task at a worker with too much memory in use, even if nothing is running there that
would free some.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from distributed.core import Status

from sweep.worker.broadcast import answers

_LOOK_SECONDS = 5.0
_LOOKS = 6
"""Looks in a row with the same tasks at the same place before it is examined."""
_ANSWER_SECONDS = 5.0
_RESTART_SECONDS = 10.0
_MOST_ASKED = 1000
"""Tasks that the scheduler is asked for at a look, the oldest ones: those that are stuck remain."""

Place = str | None
"""The address of the worker that has a task; None if the task has ended or is not known."""


@dataclass(frozen=True)
class Stuck:
    """Where nothing goes on.

    Attributes
    ----------
    workers : tuple of str
        The workers that do not hear of their tasks, or are not heard.
    paused : tuple of str
        The workers that Dask keeps from working, though they hold nothing that anybody needs.
    driver : bool
        Whether this process does not hear of tasks that have ended, or is not heard.
    """

    workers: tuple[str, ...] = ()
    paused: tuple[str, ...] = ()
    driver: bool = False


class Stalls:
    """Finds where nothing goes on, though it should."""

    def __init__(self) -> None:
        self._next_look = 0.0
        self._tasks: Mapping[Place, frozenset[str]] = {}
        self._looks: Counter[Place] = Counter()

    def look(self, client: Any, unheard: Callable[[], Sequence[str]]) -> Stuck:
        """Where tasks are stuck, if it is time to look: at a worker, or on the way back from Dask.

        Parameters
        ----------
        client : distributed.Client
            Of the cluster.
        unheard : callable
            Gives the names of the tasks whose ends the driver has not heard of, oldest first.
        """
        now = time.monotonic()
        if now < self._next_look:
            return Stuck()
        self._next_look = now + _LOOK_SECONDS
        before, self._tasks = self._tasks, _by_place(client, unheard()[:_MOST_ASKED])
        same = [place for place, names in self._tasks.items() if before.get(place) == names]
        self._looks = Counter({place: self._looks[place] % _LOOKS + 1 for place in same})
        long = {place for place, looks in self._looks.items() if looks == _LOOKS}
        idle = _idle(client, sorted(place for place in long if place))
        return Stuck(
            tuple(worker for worker, status in idle.items() if status is Status.running),
            tuple(worker for worker, status in idle.items() if status is Status.paused),
            None in long,
        )


def restart(client: Any, workers: Collection[str]) -> None:
    """Restart workers, which then do their tasks again; one without a nanny is only closed."""
    with suppress(Exception):  # one that is still stalled is found again
        client.sync(
            client.scheduler.restart_workers,
            workers=[*workers],
            timeout=_RESTART_SECONDS,
            wait_for_workers=False,
            on_error="return",
            stimulus_id="sweep-stalled",
            callback_timeout=_RESTART_SECONDS + _ANSWER_SECONDS,
        )


def _by_place(client: Any, tasks: Collection[str]) -> Mapping[Place, frozenset[str]]:
    """The tasks at each place, under other names after each heartbeat of a worker that runs one.

    None that waits for a worker, and none at all if the scheduler is silent. A paused worker counts
    as a task of its own, since all others may be waiting.
    """
    by_place: defaultdict[Place, set[str]] = defaultdict(set)

    async def ask() -> dict[str, Place]:
        places: dict[str, Place] = await client.run_on_scheduler(_places, [*tasks])
        return places

    with suppress(Exception):
        for name, place in client.sync(ask, callback_timeout=_ANSWER_SECONDS).items():
            by_place[place].add(name)
    return {place: frozenset(names) for place, names in by_place.items()}


def _places(tasks: Collection[str], dask_scheduler: Any) -> dict[str, Place]:
    working: dict[str, Any] = {
        address: worker
        for address, worker in dask_scheduler.workers.items()
        if worker.status is Status.paused
    }
    ended: dict[str, Place] = {}
    for name in tasks:
        task = dask_scheduler.tasks.get(name)
        if task is None or task.state in ("memory", "erred"):
            ended[name] = None
        elif task.state == "processing":
            working[name] = task.processing_on
    return ended | {name + _heartbeat(worker): worker.address for name, worker in working.items()}


def _heartbeat(worker: Any) -> str:
    """The last heartbeat of a worker that was running something then."""
    return f", heard at {worker.last_seen}" if worker.executing else ""


def _idle(client: Any, workers: Collection[str]) -> dict[str, Status]:
    """The status of the workers that run nothing; one that does not answer may run something."""
    if not workers:
        return {}
    with suppress(Exception):
        said = answers(client, _status_if_idle, workers=workers)
        return {worker: answer for worker, answer in said.items() if isinstance(answer, Status)}
    return {}


def _status_if_idle(dask_worker: Any) -> Status | None:
    """The status of a worker that runs nothing and, if it is paused, keeps nothing either."""
    state, status = dask_worker.state, dask_worker.status
    kept = status is Status.paused and dask_worker.data
    return None if state.executing or state.long_running or kept else status
