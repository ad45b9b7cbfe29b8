"""Watches the workers of a run, waits for them with patience, and replaces them."""

import asyncio
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from typing import Any

import dask
from dask.utils import parse_timedelta
from distributed import SpecCluster

from sweep.cluster import clusters
from sweep.cluster.specification import Adapt, ClusterSpec
from sweep.errors import ClusterError, NoWorkersError, SchedulerLostError, first_line
from sweep.events import ClusterReady, Listener, SchedulerLost, Warned, WorkersMissing

_LOOK_SECONDS = 1.0
_ANSWER_SECONDS = 5.0
_REPORT_AFTER_SECONDS = 5.0
_PAUSE_SECONDS = 0.5
_ASK_AGAIN_SECONDS = 30.0
_LONGER_THAN_DASK_SECONDS = 2.0
_QUEUE_SECONDS = 10.0
_SQUEUE = ("squeue", "--me", "--noheader", "--format=%i %T %r")


class Workforce:
    """Watches the workers of a run.

    Parameters
    ----------
    client : distributed.Client
        The client of the cluster.
    spec : ClusterSpec
        The specification by which the cluster was reached, with the patience: the seconds without
        any worker, or without the scheduler, after which the run ends.
    listen : Listener
        Called with an event when workers or the scheduler are missing, and when there are workers
        again.
    started : StartedCluster, optional
        The cluster, if the sweep started it.

    Attributes
    ----------
    threads : tuple of int
        Number of threads of every worker when last checked.
    """

    def __init__(
        self,
        client: Any,
        spec: ClusterSpec,
        listen: Listener,
        started: "StartedCluster | None" = None,
    ) -> None:
        self._client, self._started = client, started
        self._spec, self._listen = spec, listen
        self._next_look = 0.0
        self._missing_since: float | None = None
        self._came_since, self._refused = set[str](), ""
        self._ready = False
        self._reported = ""
        self.threads: tuple[int, ...] = ()

    def look(self) -> None:
        """Check the workers, at most once a second; returns within seconds.

        Raises
        ------
        NoWorkersError
            If for longer than the patience there were no workers, or the scheduler did not answer.
        """
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        if self._started is not None:
            self._started.hold(now)
        workers = known_workers(self._client)
        self.threads = tuple(int(has["nthreads"]) for has in (workers or {}).values())
        if workers:
            self._came_since.update(workers)
            if not self._ready:
                has_pages = self._started is not None and find_spec("bokeh") is not None
                dashboard = self._client.dashboard_link or "" if has_pages else ""
                self._listen(ClusterReady(len(workers), sum(self.threads), dashboard))
            self._ready, self._reported = True, ""
        elif workers is not None or self._client.status == "running":
            address = self._client.scheduler.address
            reason = f"scheduler {address} has none; start some with 'dask worker {address}'"
            if self._started is not None:
                reason = self._started.message
            if self._refused:
                reason += f"; refused in this run: {self._refused}"
            silence = f"scheduler {address} does not answer"
            self._missing(now, silence if workers is None else reason)

    def refuse(self, worker: str, message: str) -> None:
        """Close a worker whose versions or code differ from the command's; ``message`` says how.

        Other workers do its tasks, and the time without workers is measured as if it had never
        joined.
        """
        self._came_since.discard(worker)
        self._next_look = 0.0
        arguments = {"address": worker, "expected": True, "stimulus_id": "sweep-refused"}
        with suppress(Exception):  # if the scheduler does not answer, the worker is refused again
            leave = self._client.scheduler.unregister
            self._client.sync(leave, **arguments, callback_timeout=_ANSWER_SECONDS)
        if message != self._refused:
            self._refused = message
            self._listen(Warned(f"worker {worker} is closed, its cells go to others: {message}"))

    def regain(self, tick: Callable[[], None], stack: ExitStack) -> Any:
        """Wait for a lost scheduler to come back at the same address; returns a client of it.

        A Dask client tries to reconnect for some seconds, then closes. After that, new clients are
        tried, if the specification has an address.

        Parameters
        ----------
        tick : callable
            Called about every second.
        stack : ExitStack
            Closes a new client when the stack ends.

        Raises
        ------
        SchedulerLostError
            If the scheduler does not come back in time, or can no longer be reached.
        """
        address, began = self._client.scheduler.address, time.monotonic()
        self._listen(SchedulerLost(address, self._spec.patience))
        self._ready, self._missing_since, self._reported = False, None, ""
        while time.monotonic() - began < self._spec.patience:
            tick()
            if self._client.status == "running":
                return self._client
            if self._client.status == "closed":
                if self._spec.address is None:
                    break
                with suppress(ClusterError):
                    self._client = stack.enter_context(clusters.connected(self._spec))
                    return self._client
            time.sleep(_PAUSE_SECONDS)
        raise SchedulerLostError(
            f"scheduler {address} was lost {time.monotonic() - began:.0f} s ago and is not back; "
            "what was done is in the store and the rest is pending: the same command continues, "
            "and --patience SECONDS waits longer"
        )

    def _missing(self, now: float, reason: str) -> None:
        if self._missing_since is None or self._came_since:
            self._missing_since, self._came_since = now, set()
        seconds = now - self._missing_since
        if seconds >= self._spec.patience:
            raise NoWorkersError(
                f"the cluster has had no workers for {seconds:.0f} s ({reason}); finished cells "
                "are in the store, the rest are pending: the same command continues, and "
                "--patience SECONDS waits longer"
            )
        if reason != self._reported and (not self._ready or seconds >= _REPORT_AFTER_SECONDS):
            self._reported, self._ready = reason, False
            self._listen(WorkersMissing(seconds, self._spec.patience, reason))


class StartedCluster:
    """A cluster that the sweep has started; it maintains the number of workers first requested.

    Dask's clusters start their workers once: a batch job that ends at its walltime is not replaced,
    not even by ``adapt``. Jobs whose workers have disappeared, and jobs that Slurm no longer lists,
    are given up and requested again; jobs that wait in a queue keep their place.

    Parameters
    ----------
    cluster : distributed.deploy.Cluster
        The cluster.
    adapt : Adapt, optional
        The range in which Dask itself chooses the number of workers; then ended jobs are only given
        up here.
    """

    def __init__(self, cluster: Any, adapt: Adapt | None = None) -> None:
        self._cluster, self._adapt = cluster, adapt
        self._held = isinstance(cluster, SpecCluster) and bool(cluster.new_spec)
        self._wanted = len(cluster.plan) if adapt is None and self._held else None
        self._last_seen: dict[Any, float] = {}
        self._request: Future[None] | None = None
        self._next_retry = 0.0
        self._trouble = self._queue = ""

    @property
    def message(self) -> str:
        """A sentence for the user on why there are no workers."""
        name = type(self._cluster).__name__
        if self._trouble:
            return f"{name}: {self._trouble}"
        if self._wanted == 0:
            return f"{name} was asked for no workers; set n_workers or scale in cluster.yaml"
        number = "its" if self._wanted is None else str(self._wanted)
        if self._adapt is not None:
            number = f"{self._adapt.minimum} to {self._adapt.maximum}"
        came = "they are gone, new ones are requested" if self._last_seen else "none has come yet"
        queue = f" (the queue says: {self._queue})" if self._queue else ""
        return f"{name} was asked for {number} workers, {came}{queue}"

    def hold(self, now: float) -> None:
        """Request replacements for workers that have ended or did not start; returns at once."""
        if self._held and self._wanted != 0 and (self._request is None or self._request.done()):
            loop = self._cluster.loop.asyncio_loop
            self._request = asyncio.run_coroutine_threadsafe(self.replace(now), loop)

    async def replace(self, now: float) -> None:
        """Give up the jobs that have ended, and request as many new ones."""
        cluster, last_seen = self._cluster, self._last_seen
        present = {worker["name"] for worker in cluster.scheduler_info["workers"].values()}
        for name, spec in cluster.worker_spec.items():
            # a batch job has a group of workers
            names = {f"{name}{suffix}" for suffix in spec.get("group", ())} or {name}
            if present & names:
                last_seen[name] = now
        # Dask itself waits this long for a worker to come back
        waits = parse_timedelta(dask.config.get("distributed.deploy.lost-worker-timeout"))
        gone = now - waits - _LONGER_THAN_DASK_SECONDS
        ended = [name for name in cluster.worker_spec if last_seen.get(name, now) < gone]
        unstarted = []
        if now >= self._next_retry:
            self._next_retry = now + _ASK_AGAIN_SECONDS
            ended += await self._unlisted()
            unstarted = clusters.unstarted(cluster)
        try:
            if ended:
                await cluster.scale_down(ended)
                if self._wanted is not None:  # with adapt, Dask requests them
                    cluster.scale(self._wanted)
                    await cluster
            for worker in unstarted:
                await worker
            if ended or unstarted:
                self._trouble = ""
        except Exception as error:
            # the batch system's error output if there is any, else the error's first line
            text = str(error).partition("\nstderr:\n")[2].strip() or first_line(error)
            self._trouble = "; ".join(text.splitlines())

    async def _unlisted(self) -> list[Any]:
        """The jobs without workers that Slurm does not list; notes the states of the others."""
        workers = self._cluster.workers.items()
        unseen = {name: worker for name, worker in workers if name not in self._last_seen}
        jobs = {name: getattr(worker, "job_id", None) for name, worker in unseen.items()}
        jobs = {name: job for name, job in jobs.items() if job is not None}
        config_name = getattr(getattr(self._cluster, "job_cls", None), "config_name", None)
        states = await asyncio.to_thread(slurm_jobs) if jobs and config_name == "slurm" else None
        if states is None:
            return []
        counted = Counter(states[job] for job in jobs.values() if job in states)
        self._queue = ", ".join(f"{n} {state}" for state, n in counted.most_common())
        return [name for name, job in jobs.items() if job not in states]


def slurm_jobs() -> dict[str, str] | None:
    """State and reason of every Slurm job of the user; None if Slurm does not answer."""
    asked: dict[str, Any] = {"capture_output": True, "text": True, "timeout": _QUEUE_SECONDS}
    try:
        output = subprocess.run(_SQUEUE, check=True, **asked).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    states: dict[str, str] = {}
    for job, state, *reason in (line.split(maxsplit=2) for line in output.splitlines()):
        states[job] = state if reason in ([], ["None"]) else f"{state} ({reason[0]})"
    return states


def known_workers(client: Any) -> dict[str, Any] | None:
    """What the scheduler knows of every worker, by address; None if the scheduler does not answer.

    `Client.scheduler_info` may lack all workers, because every two seconds Dask's client replaces
    its content with information that leaves them out.
    """
    ask, seconds = client.scheduler.identity, _ANSWER_SECONDS
    try:
        return dict(client.sync(ask, n_workers=-1, callback_timeout=seconds)["workers"])
    except Exception:
        return None
