"""The workers of a cluster: watched, and waited for with patience."""

import time
from collections.abc import Collection, Sequence
from typing import Any

from sweep.cluster.exit_codes import ExitCodeReports
from sweep.cluster.started_cluster import StartedCluster
from sweep.errors import ClusterError, NoWorkersError, SchedulerLostError
from sweep.events import (
    ClusterReady,
    Listener,
    SchedulerSilent,
    WorkerRefused,
    WorkersMissing,
    WorkersUnwatched,
)

_LOOK_SECONDS = 1.0
_ANSWER_SECONDS = 5.0
_SAY_AFTER_SECONDS = 5.0
_SAY_AGAIN_SECONDS = 60.0


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
        self, client: Any, started: StartedCluster | None, patience: float, listen: Listener
    ) -> None:
        self._client, self._started = client, started
        self._patience, self._listen = patience, listen
        self._exits = ExitCodeReports()
        self._seen, self._unwatched = set[str](), 0
        self._next_look = 0.0
        self._missing_since: float | None = None
        self._silent_since: float | None = None
        self._came_since, self._refused = set[str](), ""
        self._ready = False
        self._told: tuple[float, str] | None = None
        self.threads: tuple[int, ...] = ()

    def look(self) -> None:
        """Check on the workers if it is time; returns within seconds.

        Raises
        ------
        NoWorkersError
            If there have been none for too long.
        SchedulerLostError
            If the scheduler has not answered for too long, though the connection stands.
        """
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        if self._started is not None:
            self._started.hold(now)
        workers = self._workers()
        self.threads = tuple((workers or {}).values())
        if workers is None:
            self._silent(now)
            return
        self._silent_since = None
        if workers:
            self._came_since.update(workers)
            self._present(self.threads)
            self._exits.watch(self._client, workers)
            self._look_for_nannies(workers)
        else:
            self._missing(now)

    def refuse(self, worker: str, said: str) -> None:
        """Close a worker that does not agree with the command, for a reason; others do its tasks.

        The time without workers goes on as if it had not come.

        Raises
        ------
        ClusterError
            If the scheduler cannot close it.
        """
        self._came_since.discard(worker)
        self._next_look = 0.0
        about = {"address": worker, "expected": True, "stimulus_id": "sweep-refused"}
        try:
            leave = self._client.scheduler.unregister
            self._client.sync(leave, **about, callback_timeout=_ANSWER_SECONDS)
        except Exception as error:
            if self._client.status == "running" and not isinstance(error, OSError):
                raise ClusterError(f"worker {worker}: {said}") from error
        if said != self._refused:
            self._refused = said
            self._listen(WorkerRefused(worker, said))

    def follow(self, client: Any) -> Any:
        """Take over the workers of a scheduler that came back; returns its client."""
        self._client = client
        self._ready, self._missing_since, self._told = False, None, None
        self._silent_since = None
        return client

    def _look_for_nannies(self, workers: Collection[str]) -> None:
        """Tell, once, of workers that no other process watches."""
        if self._unwatched or self._seen.issuperset(workers):
            return
        if not (known := known_workers(self._client)):
            return
        self._seen.update(workers)
        self._unwatched = sum(
            known[worker].get("nanny", "") is None for worker in workers if worker in known
        )
        if self._unwatched:
            self._listen(WorkersUnwatched(self._unwatched))

    def _present(self, threads: Sequence[int]) -> None:
        if not self._ready:
            dashboard = self._client.dashboard_link if self._started is not None else ""
            self._listen(ClusterReady(len(threads), sum(threads), dashboard or ""))
        self._ready, self._told = True, None

    def _silent(self, now: float) -> None:
        if self._client.status != "running":
            return
        address = self._client.scheduler.address
        if self._silent_since is None:
            self._silent_since = now
            self._listen(SchedulerSilent(address, self._patience))
        elif now - self._silent_since >= self._patience:
            raise SchedulerLostError(
                f"scheduler {address} has not answered for {now - self._silent_since:.0f} s; what "
                "was done is in the store and the rest is pending: the same command continues, and "
                "--patience SECONDS waits longer"
            )

    def _missing(self, now: float) -> None:
        if self._missing_since is None or self._came_since:
            self._missing_since, self._came_since = now, set()
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
        address = self._client.scheduler.address
        said = f"scheduler {address} has none; start some with 'dask worker {address}'"
        if self._started is not None:
            said = self._started.message
        return f"{said}; refused in this run: {self._refused}" if self._refused else said

    def _workers(self) -> dict[str, int] | None:
        """Number of threads of every worker; None if the scheduler does not answer."""
        try:
            ask = self._client.scheduler.ncores
            return dict(self._client.sync(ask, callback_timeout=_ANSWER_SECONDS))
        except Exception:
            return None


def known_workers(client: Any) -> dict[str, Any]:
    """What the scheduler knows of every worker, by address; empty if it does not answer.

    `Client.scheduler_info` may have none of them: every two seconds Dask's client replaces what it
    returns by a look that leaves out the workers.
    """
    try:
        return dict(client.sync(_identity, client, callback_timeout=_ANSWER_SECONDS)["workers"])
    except Exception:
        return {}


async def _identity(client: Any) -> Any:
    return await client.scheduler.identity(n_workers=-1)
