"""The workers of a cluster: watched, requested again when they end, waited for with patience."""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import dask
from dask.utils import parse_timedelta
from distributed import Nanny, SpecCluster
from distributed.core import Status

from sweep.errors import NoWorkersError
from sweep.events import ClusterReady, Listener, WorkersMissing
from sweep.runner.clusters import Adapt

_LOOK_SECONDS = 1.0
_ANSWER_SECONDS = 5.0
_SAY_AFTER_SECONDS = 5.0
_SAY_AGAIN_SECONDS = 60.0
_ASK_AGAIN_SECONDS = 30.0
_LONGER_THAN_DASK_SECONDS = 2.0


class Workforce:
    """The workers of a run.

    Parameters
    ----------
    client : distributed.Client
        The client of the cluster.
    started : StartedCluster, optional
        The cluster, if the sweep has started it.
    patience : float
        Seconds without any worker after which the run ends.
    listen : Listener
        Called with an event when there are no workers, and when there are some again.
    """

    def __init__(
        self, client: Any, started: "StartedCluster | None", patience: float, listen: Listener
    ) -> None:
        self._client, self._started = client, started
        self._patience, self._listen = patience, listen
        self._next_look = 0.0
        self._missing_since: float | None = None
        self._ready = False
        self._told: tuple[float, str] | None = None

    def look(self) -> None:
        """Check on the workers if it is time; returns within seconds.

        Raises
        ------
        NoWorkersError
            If there have been none for too long.
        """
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        if self._started is not None:
            self._started.hold(now)
        threads = self._threads()
        if threads:
            self._present(threads)
        elif threads is not None:
            self._missing(now)

    def follow(self, client: Any) -> None:
        """Look after the workers of a scheduler that came back."""
        self._client = client
        self._ready, self._missing_since, self._told = False, None, None

    def _present(self, threads: Sequence[int]) -> None:
        if not self._ready:
            self._listen(ClusterReady(len(threads), sum(threads)))
        self._ready, self._missing_since, self._told = True, None, None

    def _missing(self, now: float) -> None:
        if self._missing_since is None:
            self._missing_since = now
        seconds, message = now - self._missing_since, self._message
        if seconds >= self._patience:
            raise NoWorkersError(
                f"the cluster has had no workers for {seconds:.0f} s ({message}); finished cells "
                "are in the store, the rest are pending: the same command continues, and "
                "--patience SECONDS waits longer"
            )
        if self._is_news(seconds, message):
            self._told, self._ready = (seconds, message), False
            self._listen(WorkersMissing(seconds=seconds, patience=self._patience, message=message))

    def _is_news(self, seconds: float, message: str) -> bool:
        if self._told is None:
            return not self._ready or seconds >= _SAY_AFTER_SECONDS
        at, before = self._told
        return message != before or seconds >= at + _SAY_AGAIN_SECONDS

    @property
    def _message(self) -> str:
        if self._started is not None:
            return self._started.message
        address = self._client.scheduler.address
        return f"scheduler {address} has none; start some with 'dask worker {address}'"

    def _threads(self) -> list[int] | None:
        """Number of threads of every worker; None if the scheduler does not answer."""
        try:
            ask = self._client.scheduler.ncores
            return list(self._client.sync(ask, callback_timeout=_ANSWER_SECONDS).values())
        except Exception:
            return None


class StartedCluster:
    """A cluster that the sweep has started, held at the number of workers first requested.

    Dask's clusters start their workers once: a batch job that ends with its walltime is not
    replaced. Workers that were there and are gone are given up and requested again; jobs that
    wait in a queue keep their place in it.

    Parameters
    ----------
    cluster : distributed.deploy.Cluster
        The cluster.
    adapt : Adapt, optional
        Between how many workers Dask itself chooses: then nothing is held.
    """

    def __init__(self, cluster: Any, adapt: Adapt | None = None) -> None:
        self._cluster, self._adapt = cluster, adapt
        self._asked = len(cluster.plan) if adapt is None and _can_be_asked(cluster) else None
        self._last_seen: dict[Any, float] = {}
        self._asking: Future[None] | None = None
        self._next_ask = 0.0
        self._trouble = ""

    @property
    def message(self) -> str:
        """A sentence on why there are no workers, for the user."""
        name = type(self._cluster).__name__
        if self._trouble:
            return f"{name}: {self._trouble}"
        if self._asked == 0:
            return f"{name} was asked for no workers; set n_workers or scale in cluster.yaml"
        if self._adapt is not None:
            return f"{name} was asked for {self._adapt.minimum} to {self._adapt.maximum} workers"
        number = "its" if self._asked is None else self._asked
        came = "they are gone, new ones are requested" if self._last_seen else "none has come yet"
        return f"{name} was asked for {number} workers, {came}"

    def hold(self, now: float) -> None:
        """Request workers again that have ended or could not be started; returns at once."""
        if not self._asked:
            return
        self._last_seen |= dict.fromkeys(self._cluster.observed, now)
        if self._asking is not None:
            if not self._asking.done():
                return
            self._trouble = _first_line(self._asking.exception())
            self._asking = None
        ended, unstarted = self._ended(now), self._unstarted()
        if ended or (unstarted and now >= self._next_ask):
            self._next_ask = now + _ASK_AGAIN_SECONDS
            asking = _ask_again(self._cluster, self._asked, ended, unstarted)
            loop = self._cluster.loop.asyncio_loop
            self._asking = asyncio.run_coroutine_threadsafe(asking, loop)

    def _ended(self, now: float) -> list[Any]:
        """Specifications whose workers have all been gone for longer than Dask itself waits."""
        waits = parse_timedelta(dask.config.get("distributed.deploy.lost-worker-timeout"))
        since = now - waits - _LONGER_THAN_DASK_SECONDS
        seen = {
            name: [self._last_seen[one] for one in _workers(name, spec) if one in self._last_seen]
            for name, spec in dict(self._cluster.worker_spec).items()
        }
        ended = [
            name
            for name, times in seen.items()
            if times and max(times) < since and not _restarting(self._cluster.workers.get(name))
        ]
        for name in ended:
            for one in _workers(name, self._cluster.worker_spec[name]):
                self._last_seen.pop(one, None)
        return ended

    def _unstarted(self) -> list[Any]:
        workers = dict(self._cluster.workers)
        return [name for name, one in workers.items() if one.status is Status.created]


def _can_be_asked(cluster: Any) -> bool:
    return isinstance(cluster, SpecCluster) and bool(cluster.new_spec)


def _restarting(worker: Any) -> bool:
    """Whether it is a nanny that is starting a new worker."""
    process: Any = getattr(worker, "process", None)
    return isinstance(worker, Nanny) and process is not None and process.is_alive()


def _workers(name: Any, spec: dict[str, Any]) -> list[Any]:
    """Names of the workers of one specification: a batch job can have several."""
    return [f"{name}{suffix}" for suffix in spec["group"]] if "group" in spec else [name]


async def _ask_again(
    cluster: Any, number: int, ended: Sequence[Any], unstarted: Sequence[Any]
) -> None:
    if ended:
        await cluster.scale_down(ended)
        cluster.scale(number)
        await cluster
    for name in unstarted:
        if name in cluster.workers:
            await cluster.workers[name]


def _first_line(error: BaseException | None) -> str:
    if error is None:
        return ""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
