"""The figures of a run for Prometheus, which polls this process over HTTP."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sweep.errors import ClusterError
from sweep.events import Event, Listener, Progressed, ignore

_LOOPBACK = "127.0.0.1"


@contextmanager
def served(where: str | None) -> Iterator[Listener]:
    """A listener whose latest figures are served in this context.

    Parameters
    ----------
    where : str, optional
        ``PORT`` of this machine, or ``HOST:PORT``; None to serve nothing.

    Raises
    ------
    ClusterError
        If prometheus-client is not installed, or the port cannot be listened on.
    """
    if where is None:
        yield ignore
        return
    host, port = address_of(where)
    try:
        import prometheus_client
    except ImportError as error:
        raise ClusterError(
            "--prometheus needs the package prometheus-client; install fitness-sweep[prometheus]"
        ) from error
    gauges = _Gauges(prometheus_client)
    try:
        server, thread = prometheus_client.start_http_server(port, host, gauges.registry)
    except OSError as error:
        raise ClusterError(
            f"--prometheus {where}: {error.strerror or error}; give another port"
        ) from error
    try:
        yield gauges.hear
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def address_of(where: str) -> tuple[str, int]:
    """Host and port of ``PORT`` or ``HOST:PORT``.

    Raises
    ------
    ClusterError
        If it is neither.
    """
    host, _, port = where.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ClusterError(f"--prometheus {where!r}: expected PORT or HOST:PORT, as in 9100")
    return host.strip("[]") or _LOOPBACK, int(port)


class _Gauges:
    """One gauge for each figure.

    Parameters
    ----------
    library : module
        ``prometheus_client``.
    """

    def __init__(self, library: Any) -> None:
        self.registry = library.CollectorRegistry()

        def gauge(name: str, description: str, labels: tuple[str, ...] = ()) -> Any:
            return library.Gauge(f"sweep_{name}", description, labels, registry=self.registry)

        self._cells = gauge("cells", "Cells of this run by status", ("status",))
        self._running = gauge("tasks_running", "Tasks that workers are at")
        self._workers = gauge("workers", "Workers")
        self._threads = gauge("threads", "Threads of all workers")
        self._rate = gauge("cells_per_second", "Cells done per second, lately")
        self._left = gauge("seconds_left", "Seconds expected to be left", ("bound",))
        self._spent = gauge("core_seconds_spent", "Core seconds that tasks have taken")
        self._core_left = gauge("core_seconds_left", "Core seconds expected to be left")

    def hear(self, event: Event) -> None:
        """Show the figures of an event that has some."""
        if not isinstance(event, Progressed):
            return
        pending = max(event.cells - sum(event.statuses.values()), 0)
        for status, number in {**event.statuses, "pending": pending}.items():
            self._cells.labels(status=status).set(number)
        self._running.set(event.running)
        self._workers.set(event.workers)
        self._threads.set(event.threads)
        self._rate.set(event.rate)
        self._spent.set(event.core_s)
        self._core_left.set(event.core_left_s)
        bounds = event.left_s or (float("inf"),) * 3
        for bound, seconds in zip(("expected", "least", "most"), bounds, strict=True):
            self._left.labels(bound=bound).set(seconds)
