"""How worker processes end: the scheduler sees that one is gone, its nanny sees why."""

import asyncio
import signal
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from distributed.core import Status

from sweep.worker.guard import UNRECORDED

_TOPIC = "sweep-worker-exits"
_LOOK_SECONDS = 0.2
_UNKNOWN = 255
"""What a nanny has for an exit code that another part of its process has taken."""
_CLOSED = (Status.closing, Status.closed, Status.failed)

_watching: WeakSet[Any] = WeakSet()


class ExitCodeReports:
    """Makes the nannies of a cluster report to its scheduler how their workers end."""

    def __init__(self) -> None:
        self._asked = frozenset[str]()

    def watch(self, client: Any, workers: Collection[str]) -> None:
        """Ask the nannies of new workers; returns at once."""
        new = frozenset(workers) - self._asked
        self._asked = frozenset(workers)
        if not new:
            return

        async def ask() -> None:
            try:
                await client.run(_tell, workers=[*new], nanny=True, wait=False, on_error="ignore")
            except Exception:
                self._asked -= new  # one of them is gone already

        client.loop.add_callback(ask)


async def _tell(dask_worker: Any) -> None:
    """Report every worker that ends; runs in a nanny until it closes."""
    nanny, running = dask_worker, None
    if nanny in _watching:
        return
    _watching.add(nanny)
    while nanny.status not in _CLOSED:
        if running is not None and running[0].exitcode is not None:
            process, address = running
            nanny.log_event(_TOPIC, {"worker": address, "code": process.exitcode})
            running = None
        worker = nanny.process
        if worker is not None and worker.status is Status.running and worker.process is not None:
            running = worker.process, worker.worker_address
        await asyncio.sleep(_LOOK_SECONDS)


async def codes(client: Any, workers: Iterable[str]) -> list[int]:
    """The exit codes of workers that have ended, as far as their nannies have told them.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    workers : iterable of str
        Their addresses.

    Returns
    -------
    list of int
        Negative ones are signals.
    """
    events = await client.scheduler.events(topic=_TOPIC)
    latest = {event["worker"]: event["code"] for _, event in events}
    codes = (latest.get(worker, _UNKNOWN) for worker in workers)
    return [code for code in codes if code != _UNKNOWN]


def described(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"it ended with exit code {code}"
    if -code == UNRECORDED:
        return "a solve did not stop within twice its time limit"
    with suppress(ValueError):
        return f"it was killed by {signal.Signals(-code).name}, signal {-code}"
    return f"it was killed by signal {-code}"
