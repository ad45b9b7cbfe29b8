"""The connection to the scheduler, and what to do when it breaks."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from sweep.cluster import clusters
from sweep.cluster.specification import ClusterSpec
from sweep.errors import ClusterError, SchedulerLostError
from sweep.events import Listener, SchedulerLost

_PAUSE_SECONDS = 0.5
_CLOSE_SECONDS = 5.0


def reconnected(
    lost: Any, spec: ClusterSpec, stack: ExitStack, tick: Callable[[], None], listen: Listener
) -> Any:
    """A client of the scheduler, once there is one at the same address again.

    A Dask client tries to reconnect for some seconds, then it closes. After that a new one is
    tried, if an address was given.

    Parameters
    ----------
    lost : distributed.Client
        The client that has lost it.
    spec : ClusterSpec
        How the cluster was reached, and for how long to wait.
    stack : ExitStack
        Closes the new client.
    tick : callable
        Called about every second.
    listen : Listener
        Hears that it is gone.

    Raises
    ------
    SchedulerLostError
        If it does not come back in time, or cannot be reached any more.
    """
    address, began = lost.scheduler.address, time.monotonic()
    listen(SchedulerLost(address, spec.patience))
    while time.monotonic() - began < spec.patience:
        tick()
        if lost.status == "running":
            return lost
        if lost.status == "closed":
            if spec.address is None:
                break
            try:
                return stack.enter_context(clusters.connected(spec))
            except ClusterError:
                pass
        time.sleep(_PAUSE_SECONDS)
    raise SchedulerLostError(
        f"scheduler {address} was lost {time.monotonic() - began:.0f} s ago and is not back; what "
        "was done is in the store and the rest is pending: the same command continues, and "
        "--patience SECONDS waits longer"
    )


@contextmanager
def another(stalled: Any) -> Iterator[Any]:
    """A second client of a client's scheduler.

    Raises
    ------
    OSError
        If the scheduler cannot be reached.
    """
    from distributed import Client

    scheduler = stalled.cluster or stalled.scheduler.address
    make: Any = Client
    client = make(scheduler, security=stalled.security, set_as_default=False)
    try:
        yield client
    finally:
        with suppress(Exception):
            client.close(timeout=_CLOSE_SECONDS)
