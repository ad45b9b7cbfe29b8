"""Watches the workers of a run, waits for missing workers, and replaces workers that end."""

import asyncio
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from functools import partial
from importlib.util import find_spec
from typing import Any

from distributed import SpecCluster
from distributed.core import Status

from sweep.cluster import clusters
from sweep.cluster.specification import ClusterSpec
from sweep.errors import ClusterError, NoWorkersError, SchedulerLostError, first_line
from sweep.events import ClusterReady, Listener, Warned, WorkerLeft, WorkersMissing

LOOK_SECONDS = 1.0
"""Seconds between two checks of the workers, each a request to the scheduler of a few ms."""
ANSWER_SECONDS = 5.0
"""Seconds after which a scheduler that is busy is taken not to answer; the driver waits so long."""
_REPORT_AFTER_SECONDS = 5.0
"""A shorter gap without workers is not reported: a nanny starts a new worker in 2 to 4 s."""
ASK_AGAIN_SECONDS = 30.0
"""Seconds between two questions to the batch system, which administrators want to be rare."""
_GONE_SECONDS = 17.0
"""Seconds after which a missing worker is considered dead; Dask waits 15 s for its return."""

QUEUE_SECONDS = 10.0
"""Seconds after which ``squeue`` is taken not to answer, so that it delays no replacement."""
_SQUEUE = ("squeue", "--me", "--noheader", "--format=%i")


class Workforce:
    """Watches the workers of a run; if the sweep started the cluster, replaces workers that end.

    Dask's clusters start their workers once: a batch job that ends at its walltime is not replaced,
    not even by ``adapt``. This class restarts jobs whose workers have disappeared and jobs that
    Slurm no longer lists; jobs that wait in a queue keep their place.

    Parameters
    ----------
    client : distributed.Client
        The client of the cluster.
    spec : ClusterSpec
        The specification of the cluster. Its ``patience`` is the number of seconds without any
        worker, or without the scheduler, after which the run ends.
    listen : Listener
        Called with an event when there are no workers, when there are workers again, and when a
        worker leaves or is refused.
    stack : ExitStack
        Closes the new client that is created if a lost scheduler comes back.
    cluster : distributed.deploy.Cluster, optional
        The cluster, if the sweep started it.

    Attributes
    ----------
    client : distributed.Client
        The client that is connected now.
    address : str
        The address of the scheduler.
    workers : dict of str to dict
        The scheduler's information on every worker at the last check, by address.
    threads : tuple of int
        Number of threads of every worker at the last check.
    """

    def __init__(
        self,
        client: Any,
        spec: ClusterSpec,
        listen: Listener,
        stack: ExitStack,
        cluster: Any = None,
    ) -> None:
        self.client, self._spec, self._listen = client, spec, listen
        self._stack, self._cluster = stack, cluster
        self.address = client.scheduler.address  # a client that has closed no longer knows it
        self.workers: dict[str, Any] = {}
        self.threads: tuple[int, ...] = ()
        self._missing_since: float | None = None
        self._came_since, self._refused = set[str](), ""
        self._reported: str | None = None
        self._held = isinstance(cluster, SpecCluster) and bool(cluster.new_spec)
        self._last_seen: dict[object, float] = {}
        self._request: Future[None] | None = None
        self._next_look, self._next_retry, self._trouble = 0.0, 0.0, ""

    def look(self) -> bool:
        """Check the workers, at most once a second; returns whether this call checked them.

        Raises
        ------
        NoWorkersError
            If there were no workers, or the scheduler did not answer, for longer than the patience.
        """
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + LOOK_SECONDS
        if self._held and (self._request is None or self._request.done()):
            loop = self._cluster.loop.asyncio_loop
            self._request = asyncio.run_coroutine_threadsafe(self.replace(now), loop)
        before, answered, self.workers = self.workers, False, {}
        with suppress(Exception):
            # Dask's client often replaces `scheduler_info` with information that lacks workers
            ask = self.client.scheduler.identity
            scheduler = self.client.sync(ask, n_workers=-1, callback_timeout=ANSWER_SECONDS)
            answered, self.workers = True, dict(scheduler["workers"])
        for worker in sorted(before.keys() - self.workers) if answered else ():
            self._listen(WorkerLeft(worker, len(self.workers)))
        self.threads = tuple(int(worker["nthreads"]) for worker in self.workers.values())
        if self.workers:
            self._came_since.update(self.workers)
            if self._reported != "":
                has_pages = self._cluster is not None and find_spec("bokeh") is not None
                dashboard = self.client.dashboard_link or "" if has_pages else ""
                self._listen(ClusterReady(len(self.workers), sum(self.threads), dashboard))
            self._reported = ""
        elif answered or self.client.status == "running":
            silence = f"scheduler {self.address} does not answer"
            self._note_missing(now, self.reason if answered else silence)
        return True

    @property
    def reason(self) -> str:
        """A sentence for the user on why there are no workers."""
        address, name = self.address, type(self._cluster).__name__
        if self._cluster is None:
            reason = f"scheduler {address} has none; start some with 'dask worker {address}'"
        else:
            requested = "none are there; n_workers, scale or adapt in cluster.yaml requests them"
            reason = f"{name}: {self._trouble or requested}"
        return reason + (f"; refused in this run: {self._refused}" if self._refused else "")

    def refuse(self, worker: str, message: str) -> None:
        """Close a worker that cannot do the run's tasks; ``message`` says why.

        Other workers do the worker's tasks. The time without workers is measured as if this worker
        had never joined.
        """
        self._came_since.discard(worker)
        arguments = {"address": worker, "expected": True, "stimulus_id": "sweep-refused"}
        with suppress(Exception):  # if the scheduler does not answer, the worker is refused again
            leave = self.client.scheduler.unregister
            self.client.sync(leave, **arguments, callback_timeout=ANSWER_SECONDS)
        if message != self._refused:
            self._refused = message
            self._listen(Warned(f"worker {worker} is closed, its cells go to others: {message}"))

    def regain(self, tick: Callable[[], None]) -> None:
        """Wait for a lost scheduler to come back at the same address, and reconnect to it.

        A Dask client tries to reconnect for some seconds, then closes. After that, new clients try
        to connect, if the specification has an address.

        Parameters
        ----------
        tick : callable
            Called about every second.

        Raises
        ------
        SchedulerLostError
            If the scheduler does not come back in time, or can no longer be reached.
        """
        address, began = self.address, time.monotonic()
        self._listen(WorkersMissing(0.0, self._spec.patience, f"scheduler {address} is lost"))
        self._missing_since = self._reported = None
        while time.monotonic() - began < self._spec.patience:
            tick()
            if self.client.status == "running":
                return
            if self.client.status == "closed":
                if self._spec.address is None:
                    break
                with suppress(ClusterError):
                    self.client = self._stack.enter_context(clusters.connected(self._spec))
                    return
            time.sleep(LOOK_SECONDS)
        raise SchedulerLostError(
            f"scheduler {address} was lost {time.monotonic() - began:.0f} s ago and is not back; "
            "what was done is in the store and the rest is pending: the same command continues, "
            "and --patience SECONDS waits longer"
        )

    def _note_missing(self, now: float, reason: str) -> None:
        if self._missing_since is None or self._came_since:
            self._missing_since, self._came_since = now, set()
        seconds = now - self._missing_since
        if seconds >= self._spec.patience:
            raise NoWorkersError(
                f"the cluster has had no workers for {seconds:.0f} s ({reason}); finished cells "
                "are in the store, the rest are pending: the same command continues, and "
                "--patience SECONDS waits longer"
            )
        # a gap of some seconds between workers is not reported
        if reason != self._reported and (self._reported != "" or seconds >= _REPORT_AFTER_SECONDS):
            self._reported = reason
            self._listen(WorkersMissing(seconds, self._spec.patience, reason))

    async def replace(self, now: float) -> None:
        """Restart the jobs that have ended, and try again to start those that could not be started.

        ``now`` is the current value of `time.monotonic`.
        """
        cluster, last_seen = self._cluster, self._last_seen
        # jobs that had workers, none of which Dask still expects back
        present = {worker["name"] for worker in cluster.scheduler_info["workers"].values()}
        for name, spec in cluster.worker_spec.items():
            # a batch job has a group of workers
            names = {f"{name}{suffix}" for suffix in spec.get("group", ())} or {name}
            if present & names:
                last_seen[name] = now
        gone = now - _GONE_SECONDS
        ended = [name for name in cluster.worker_spec if last_seen.get(name, now) < gone]
        for name in ended:  # the new job has the same name
            del last_seen[name]
        # now and then, jobs that never had workers: gone from the queue, or refused by it
        unstarted = []
        if now >= self._next_retry:
            self._next_retry = now + ASK_AGAIN_SECONDS
            ended += await self._find_unlisted()
            unstarted = [job for job in cluster.workers.values() if job.status is Status.created]
        # close them, so that the cluster finds them missing and starts them anew
        try:
            for name in cluster.workers.keys() & ended:
                await cluster.workers.pop(name).close()
            if cluster.worker_spec.keys() - cluster.workers.keys():
                await cluster  # starts the missing jobs
            for job in unstarted:
                await job
            if ended or unstarted:
                self._trouble = ""
        except Exception as error:
            # the batch system's error output if there is any, else the error's first line
            text = str(error).partition("\nstderr:\n")[2].strip() or first_line(error)
            self._trouble = "; ".join(text.splitlines())

    async def _find_unlisted(self) -> list[object]:
        """Jobs without workers that Slurm no longer lists; empty if Slurm does not answer."""
        if getattr(getattr(self._cluster, "job_cls", None), "config_name", None) != "slurm":
            return []
        ask = partial(subprocess.check_output, _SQUEUE, text=True, timeout=QUEUE_SECONDS)
        try:
            answer = await asyncio.to_thread(ask, stderr=subprocess.DEVNULL)
        except (OSError, subprocess.SubprocessError):
            return []
        listed = {*answer.split(), None}  # a job that was not submitted has no id
        absent = self._cluster.workers.keys() - self._last_seen.keys()
        return [name for name in absent if self._cluster.workers[name].job_id not in listed]
