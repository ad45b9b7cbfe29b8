"""The end of a cluster that was started here, in whatever state it is."""

import multiprocessing
import threading
import warnings
from contextlib import suppress
from typing import Any

from sweep.cluster import signals
from sweep.errors import first_line

_CLOSE_SECONDS = 10.0
"""For a cluster to close; its nannies give a worker that solves four of them, then kill it."""
_LATE_SECONDS = 5.0


def close(cluster: Any, name: str) -> None:
    """Close a cluster in whatever state it is; it is not tried again when Python ends.

    It runs in a thread of its own, since a foreign class may ignore its timeout.
    """
    from distributed import Nanny
    from distributed.core import Status

    for worker in unstarted(cluster).values():
        worker.status = Status.failed  # what closing expects of it
    workers = list(getattr(cluster, "workers", {}).values())
    nannies = [worker for worker in workers if isinstance(worker, Nanny)]
    processes = [nanny.process for nanny in nannies]  # a nanny that has no time to close forgets it
    trouble = [f"it did not close within {_CLOSE_SECONDS + _LATE_SECONDS:g} s"]

    def ask() -> None:
        try:
            with suppress(AssertionError):  # Dask's: a batch job never has the status "closed"
                cluster.close(timeout=_CLOSE_SECONDS)
            trouble.clear()
        except BaseException as error:
            trouble[:] = [first_line(error)]

    closing = threading.Thread(target=ask, daemon=True, name=f"closing {name}")
    try:
        closing.start()
        closing.join(_CLOSE_SECONDS + _LATE_SECONDS)
        if trouble and not nannies:  # which are ended below
            warnings.warn(
                f"cluster {name} may have left workers behind; check for them: {trouble[0]}",
                stacklevel=2,
            )
    finally:  # also when a second Ctrl-C hurries it: Python would wait for what is left
        with signals.undisturbed():
            for nanny in nannies:
                if nanny.status is not Status.closed:
                    nanny.close_gracefully()  # what is killed now is not to be started again
            cluster.shutdown_on_close = False
            _kill({process.pid for process in processes if process is not None})


def _kill(pids: set[int | None]) -> None:
    """Kill those processes that a closed cluster was still starting, or could not end.

    They would find gone what they were to inherit from this one, and print a traceback.
    """
    for process in multiprocessing.active_children():
        if process.pid in pids:
            process.kill()
            process.join(_CLOSE_SECONDS)


def unstarted(cluster: Any) -> dict[Any, Any]:
    """The workers, by name, that a cluster could not start."""
    from distributed.core import Status

    workers = dict(getattr(cluster, "workers", {}))
    return {name: worker for name, worker in workers.items() if worker.status is Status.created}
