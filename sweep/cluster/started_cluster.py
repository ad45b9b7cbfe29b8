"""The cluster that a run has started, held at its number of workers."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import dask
from dask.utils import parse_timedelta
from distributed import Nanny, SpecCluster

from sweep.cluster import batch, shutdown
from sweep.cluster.specification import Adapt

_ASK_AGAIN_SECONDS = 30.0
_LONGER_THAN_DASK_SECONDS = 2.0


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
        workers = list(self._cluster.scheduler_info["workers"].values())  # it changes meanwhile
        self._last_seen |= {worker["name"]: now for worker in workers}
        if self._asking is not None:
            if not self._asking.done():
                return
            self._trouble = _error_text(self._asking.exception())
            self._asking = None
        ended = self._ended(now)
        waiting = now >= self._next_ask and bool(
            self._unseen() or shutdown.unstarted(self._cluster)
        )
        if ended or waiting:
            self._next_ask = now + _ASK_AGAIN_SECONDS
            loop = self._cluster.loop.asyncio_loop
            self._asking = asyncio.run_coroutine_threadsafe(self._ask_again(ended), loop)

    async def _ask_again(self, ended: Sequence[Any]) -> None:
        """Forget workers that have ended, and request as many again.

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
        for name in shutdown.unstarted(cluster):
            if name in cluster.workers:
                await cluster.workers[name]

    def _unseen(self) -> list[Any]:
        """Specifications of which no worker has come yet."""
        specs = dict(self._cluster.worker_spec)
        return [name for name, spec in specs.items() if not self._seen(name, spec)]

    def _seen(self, name: Any, spec: dict[str, Any]) -> list[float]:
        return [
            self._last_seen[worker] for worker in _workers(name, spec) if worker in self._last_seen
        ]

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
            for worker in _workers(name, self._cluster.worker_spec[name]):
                self._last_seen.pop(worker, None)
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


def _error_text(error: BaseException | None) -> str:
    """What went wrong, in one line: the output of the batch system if there is any."""
    if error is None:
        return ""
    text = str(error).partition("\nstderr:\n")[2].strip() or str(error).strip().partition("\n")[0]
    return "; ".join(text.splitlines()) or type(error).__name__
