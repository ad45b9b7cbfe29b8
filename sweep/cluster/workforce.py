"""The workers of a cluster: watched, requested again when they end, waited for with patience."""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import dask
from dask.utils import parse_timedelta
from distributed import Nanny, SpecCluster

from sweep.cluster import batch, clusters
from sweep.cluster.exits import Exits
from sweep.cluster.specification import Adapt
from sweep.errors import NoWorkersError
from sweep.events import ClusterReady, Listener, WorkersMissing

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

    Attributes
    ----------
    threads : tuple of int
        Number of threads of every worker when it was last looked.
    """

    def __init__(
        self, client: Any, started: "StartedCluster | None", patience: float, listen: Listener
    ) -> None:
        self._client, self._started = client, started
        self._patience, self._listen = patience, listen
        self._exits = Exits()
        self._next_look = 0.0
        self._missing_since: float | None = None
        self._ready = False
        self._told: tuple[float, str] | None = None
        self.threads: tuple[int, ...] = ()

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
        found = self._workers()
        self.threads = tuple((found or {}).values())
        if found:
            self._present(self.threads)
            self._exits.watch(self._client, found)
        elif found is not None:
            self._missing(now)

    def follow(self, client: Any) -> None:
        """Look after the workers of a scheduler that came back."""
        self._client = client
        self._ready, self._missing_since, self._told = False, None, None

    def _present(self, threads: Sequence[int]) -> None:
        if not self._ready:
            dashboard = self._client.dashboard_link if self._started is not None else ""
            self._listen(ClusterReady(len(threads), sum(threads), dashboard or ""))
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

    def _workers(self) -> dict[str, int] | None:
        """Number of threads of every worker; None if the scheduler does not answer."""
        try:
            ask = self._client.scheduler.ncores
            return dict(self._client.sync(ask, callback_timeout=_ANSWER_SECONDS))
        except Exception:
            return None


class StartedCluster:
    """A cluster that the sweep has started, held at the number of workers first requested.

    Dask's clusters start their workers once: a batch job that ends with its walltime is not
    replaced. Workers that were there and are gone, and jobs that the batch system does not list any
    more, are given up and requested again; jobs that wait in a queue keep their place in it.

    Parameters
    ----------
    cluster : distributed.deploy.Cluster
        The cluster.
    adapt : Adapt, optional
        Between how many workers Dask itself chooses, and requests again once those that have
        ended are given up: it counts a job of several workers as there for ever.
    """

    def __init__(self, cluster: Any, adapt: Adapt | None = None) -> None:
        self._cluster, self._adapt = cluster, adapt
        self._batch = batch.Queue(cluster)
        self._held = _can_be_asked(cluster)
        self._asked = len(cluster.plan) if adapt is None and self._held else None
        self._last_seen: dict[Any, float] = {}
        self._asking: Future[None] | None = None
        self._next_ask = 0.0
        self._trouble = ""
        self._queue = ""

    @property
    def message(self) -> str:
        """A sentence on why there are no workers, for the user."""
        name = type(self._cluster).__name__
        if self._trouble:
            return f"{name}: {self._trouble}"
        if self._asked == 0:
            return f"{name} was asked for no workers; set n_workers or scale in cluster.yaml"
        number = "its" if self._asked is None else str(self._asked)
        if self._adapt is not None:
            number = f"{self._adapt.minimum} to {self._adapt.maximum}"
        came = "they are gone, new ones are requested" if self._last_seen else "none has come yet"
        queue = f" (the queue says: {self._queue})" if self._queue else ""
        return f"{name} was asked for {number} workers, {came}{queue}"

    def hold(self, now: float) -> None:
        """Request workers again that have ended or could not be started; returns at once."""
        if not self._held or self._asked == 0:
            return
        self._last_seen |= dict.fromkeys(self._cluster.observed, now)
        if self._asking is not None:
            if not self._asking.done():
                return
            self._trouble = _said(self._asking.exception())
            self._asking = None
        ended = self._ended(now)
        waiting = now >= self._next_ask and bool(
            self._unseen() or clusters.unstarted(self._cluster)
        )
        if ended or waiting:
            self._next_ask = now + _ASK_AGAIN_SECONDS
            loop = self._cluster.loop.asyncio_loop
            self._asking = asyncio.run_coroutine_threadsafe(self._ask_again(ended), loop)

    async def _ask_again(self, ended: Sequence[Any]) -> None:
        """Give up what has ended, and request as many workers as there were.

        With ``adapt`` Dask requests them itself, once it does not count those any more.
        """
        cluster, known = self._cluster, await self._batch.states()
        if known is not None:
            unseen = self._unseen()
            ended = [*ended, *self._batch.over(unseen, known)]
            self._queue = self._batch.summary(unseen, known)
        if ended:
            await cluster.scale_down(ended)
            if self._asked is not None:
                cluster.scale(self._asked)
                await cluster
        for name in clusters.unstarted(cluster):
            if name in cluster.workers:
                await cluster.workers[name]

    def _unseen(self) -> list[Any]:
        """Specifications of which no worker has come yet."""
        specs = dict(self._cluster.worker_spec)
        return [name for name, spec in specs.items() if not self._seen(name, spec)]

    def _seen(self, name: Any, spec: dict[str, Any]) -> list[float]:
        return [self._last_seen[one] for one in _workers(name, spec) if one in self._last_seen]

    def _ended(self, now: float) -> list[Any]:
        """Specifications whose workers have all been gone for longer than Dask itself waits."""
        waits = parse_timedelta(dask.config.get("distributed.deploy.lost-worker-timeout"))
        since = now - waits - _LONGER_THAN_DASK_SECONDS
        specs = dict(self._cluster.worker_spec)
        seen = {name: self._seen(name, spec) for name, spec in specs.items()}
        ended = [
            name
            for name, times in seen.items()
            if times and max(times) < since and not _restarting(self._cluster.workers.get(name))
        ]
        for name in ended:
            for one in _workers(name, self._cluster.worker_spec[name]):
                self._last_seen.pop(one, None)
        return ended


def _can_be_asked(cluster: Any) -> bool:
    return isinstance(cluster, SpecCluster) and bool(cluster.new_spec)


def _restarting(worker: Any) -> bool:
    """Whether it is a nanny that is starting a new worker."""
    process: Any = getattr(worker, "process", None)
    return isinstance(worker, Nanny) and process is not None and process.is_alive()


def _workers(name: Any, spec: dict[str, Any]) -> list[Any]:
    """Names of the workers of one specification: a batch job can have several."""
    return [f"{name}{suffix}" for suffix in spec["group"]] if "group" in spec else [name]


def _said(error: BaseException | None) -> str:
    """What went wrong, in a line: what the batch system wrote, if it did."""
    if error is None:
        return ""
    said = str(error).partition("\nstderr:\n")[2].strip() or str(error).strip().partition("\n")[0]
    return "; ".join(said.splitlines()) or type(error).__name__
