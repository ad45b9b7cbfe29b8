"""Starts a Dask cluster or connects to one, and closes it.

A Dask scheduler runs any code that it is sent, so a cluster on this machine or in a batch queue
gets a temporary key of its own. Any other cluster that other machines can reach needs keys in
files, unless ``cluster.yaml`` has ``insecure: true``.
"""

import gc
import importlib
import logging
import multiprocessing
import os
import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import dask
import distributed

from sweep.cluster import signals
from sweep.cluster.specification import LOCAL, ClusterSpec
from sweep.errors import ClusterError, NoWorkersError, first_line

ALLOWED_FAILURES = 1
"""Dask's ``allowed-failures``: Dask gives up on a task that has killed more workers than this.

With 0, a task that merely waited on a worker killed by another would count as a killer; each higher
number costs one more worker for every deadly cell before the sweep tries the cell alone.
"""
CONNECT_SECONDS, LEAST_CONNECT_SECONDS = 20.0, 5.0
"""Longest and shortest wait for a scheduler's first answer; between them, ``patience`` decides.

A scheduler that is up answers in milliseconds, on a loaded machine in a second or two. While a lost
scheduler is waited for, each attempt blocks Ctrl-C's message for at most the longest wait.
"""
START_SECONDS = 600.0
"""Longest start of a cluster. Slow starts that succeed take a minute or two (a pod whose image is
pulled, many workers on a loaded machine); jobs that wait in a queue do not count, as a batch
cluster does not wait for them."""
CLOSE_SECONDS, LATE_SECONDS = 10.0, 5.0
"""Timeout passed to a cluster's ``close``, and extra seconds before any late call is abandoned.

Workers in the middle of a solve are killed by Dask after 4 s; the command itself may take 20 s to
end (`sweep.cli.common.END_SECONDS`).
"""
_TALKATIVE = ("distributed", "distributed.client", "tornado.application", "asyncio")
_EXPECTED_WARNINGS = r"Port \d+ is already in use|Using a temporary security object"
"""Suppressed warnings: that the dashboard uses another port (its address is printed anyway), and
that dask-jobqueue writes the temporary key to the current folder."""
_CHECK = "check cluster.yaml"
_SCRIPT_HINT = (
    "a script (not a notebook) has to call sweep.run under if __name__ == '__main__':, since its "
    "workers are processes that import the script"
)
_START_HINT = f"{_CHECK} and that the package of its class is installed here; {_SCRIPT_HINT}"
_LOCAL_HINT = f"run again if a worker was killed or memory ran out; {_SCRIPT_HINT}"
_LOOPBACK = re.compile(r"127(\.\d+){3}|::1|localhost")
_MACHINES = "every machine that reaches it"
_NO_PAUSE = "export DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE=False"


class _Client(distributed.Client):
    """A client that its owner closes, and that leaves no thread and no open file behind.

    Dask's own client keeps its event loop if it cannot connect or has lost its scheduler, waits for
    ever for a server that is not a scheduler, and closes itself when it is collected as garbage,
    which blocks for ever if another client or cluster is starting at that moment.
    """

    def start(self, **options: Any) -> None:
        """Connect to the scheduler, or stop the event loop."""
        late = options["timeout"] + LATE_SECONDS
        try:
            distributed.Client.start(self, callback_timeout=late, **options)
        except BaseException:
            self._loop_runner.stop()
            raise

    def close(self, timeout: float = LATE_SECONDS) -> None:
        """Close the connection, if it is still open, and stop the event loop."""
        try:
            distributed.Client.close(self, timeout)
        finally:
            self._loop_runner.stop()

    def __del__(self) -> None:
        pass


@contextmanager
def connected(spec: ClusterSpec) -> Iterator[distributed.Client]:
    """Yield a client of a cluster; then close the client, and the cluster if this call started it.

    Parameters
    ----------
    spec : ClusterSpec
        The cluster to start, or the address of a running scheduler.

    Raises
    ------
    ClusterError
        If the cluster cannot be started or reached.
    """
    settings = {
        "distributed.scheduler.allowed-failures": ALLOWED_FAILURES,
        # a worker that pauses with nothing in flight would wait forever; its nanny limits memory
        "distributed.worker.memory.pause": False,
        # thresholds of glibc, in bytes; with Dask's own, memory is returned to the kernel at once,
        # which can triple run times
        "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 2**28,
        "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 2**25,
        **(spec.security.dask_settings if spec.security else {}),
    }
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(settings))
        for logger in map(logging.getLogger, _TALKATIVE):  # the journal has everything important
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL)
        # errors in Dask's tasks that nobody awaits are logged when the tasks are collected: here
        stack.callback(gc.collect)
        cluster: Any = None if spec.address else start_cluster(spec, stack)
        address = spec.address or cluster.scheduler_address
        with _explain_errors(f"scheduler {address!r} cannot be reached"):
            if not spec.insecure and describe_exposure(address) == _MACHINES:
                raise ClusterError(
                    f"scheduler {address} has no key: anyone who can reach it over the network can "
                    "run code as you; give 'security: {ca: FILE, cert: FILE, key: FILE}' in "
                    "cluster.yaml, or 'insecure: true' if you trust everybody who can"
                )
            seconds = min(max(spec.patience, LEAST_CONNECT_SECONDS), CONNECT_SECONDS)
            if spec.scale is not None:
                cluster.scale(spec.scale)
            if spec.adapt is not None:
                cluster.adapt(minimum=spec.adapt.minimum, maximum=spec.adapt.maximum)
            connect = partial(_Client, cluster or address, timeout=seconds, set_as_default=False)
            client = signals.without_interrupts(connect, seconds + 2 * LATE_SECONDS)
        try:
            yield client
        finally:
            with suppress(Exception):
                client.close()


def describe_exposure(address: str) -> str:
    """Say in a phrase who can run code on a cluster with this address; empty if keys are needed."""
    place = urlsplit(address if "://" in address else f"tcp://{address}")
    if place.scheme not in ("tcp", "ws", "ucx"):
        return ""
    return "every user of this machine" if _LOOPBACK.fullmatch(place.hostname or "") else _MACHINES


def count_threads(spec: ClusterSpec) -> int:
    """Return the number of tasks that a cluster can run at once, according to its specification.

    A running scheduler is asked for the number. For a cluster class, the number follows from the
    arguments that Dask's cluster classes share; with ``adapt`` it is the largest possible number.

    Raises
    ------
    ClusterError
        If the scheduler cannot be reached or has no workers, or the specification does not give
        the number of workers.
    """
    if spec.address is not None:
        with connected(spec) as client:
            threads = sum(client.ncores().values())
        if not threads:
            raise ClusterError(f"scheduler {spec.address} has no workers; start some")
        return int(threads)
    kwargs = {**spec.kwargs, **(spec.kwargs.get("worker_options") or {})}
    stated = Counter({name: number for name, number in kwargs.items() if isinstance(number, int)})
    processes = stated["processes"] or 1  # processes of a batch job, which share its cores
    threads = max(stated["threads_per_worker"], stated["nthreads"], stated["cores"] // processes, 1)
    workers = stated["n_workers"] or stated["jobs"] * processes
    if spec.cls == "SSHCluster":  # the first host runs the scheduler
        workers = (len(kwargs.get("hosts") or spec.args[0]) - 1) * (workers or 1)
    elif spec.cls == "LocalCluster":
        workers = workers or max((os.cpu_count() or 1) // threads, 1)
    workers = spec.adapt.maximum if spec.adapt else spec.scale or workers
    if not workers:
        raise ClusterError(f"cluster.yaml does not say how many workers {spec.cls} has; give scale")
    return workers * threads


def start_cluster(spec: ClusterSpec, stack: ExitStack) -> Any:
    """Start the cluster of a specification; it is closed when ``stack`` is closed."""
    what = f"cluster {spec.module}.{spec.cls} cannot be started"
    default = spec.kwargs is LOCAL.kwargs  # without a cluster.yaml to check
    with (
        _explain_errors(what, *((_LOCAL_HINT, NoWorkersError) if default else (_START_HINT,))),
        warnings.catch_warnings(),
        signals.deferred_interrupt(signals.WHILE_STARTING) as check_interrupts,
    ):
        warnings.filterwarnings("ignore", _EXPECTED_WARNINGS)
        with signals.restored_handlers():
            make = getattr(importlib.import_module(spec.module), spec.cls)
        kwargs = _complete_arguments(spec, make)
        start = partial(make, *spec.args, **kwargs)
        try:
            cluster = signals.without_interrupts(start, START_SECONDS)
        except (
            RuntimeError
        ):  # perhaps a worker was killed, which Dask does not survive at the start
            if make is not distributed.LocalCluster:
                raise
            cluster = signals.without_interrupts(start, START_SECONDS)
        _ = cluster.scheduler_address  # an error if this is not a cluster
        stack.callback(_close, cluster)
        check_interrupts()
    return cluster


def _complete_arguments(spec: ClusterSpec, make: Any) -> dict[str, Any]:
    """Return a cluster class's keyword arguments, with the key that keeps others out, if any.

    Dask passes a temporary key to workers on this machine in memory. To batch jobs it passes the
    key in files that only the user can read, which are removed at the end.
    """
    kwargs = dict(spec.kwargs)
    job = getattr(make, "job_cls", None)  # only classes of dask-jobqueue have one
    if make is distributed.LocalCluster:
        kwargs.setdefault("silence_logs", logging.CRITICAL)
    gets_key = job is not None or (
        make is distributed.LocalCluster and spec.kwargs.get("processes", True)
    )
    if spec.security:
        kwargs["security"] = distributed.Security()  # uses the settings above
    elif gets_key and not (spec.insecure or {"security", "protocol"} & spec.kwargs.keys()):
        kwargs["security"] = distributed.Security.temporary()
    if job is not None:  # batch jobs do not inherit the settings above
        default = dask.config.get(f"jobqueue.{job.config_name}.job-script-prologue", None)
        prologue = kwargs.get("job_script_prologue") or default or []
        kwargs["job_script_prologue"] = [*prologue, _NO_PAUSE]
    return kwargs


@contextmanager
def _explain_errors(
    what: str, hint: str = _CHECK, kind: type[ClusterError] = ClusterError
) -> Iterator[None]:
    """Turn any error into a ClusterError that quotes the deepest cause that has a message."""
    try:
        yield
    except (ClusterError, KeyboardInterrupt):
        raise
    except BaseException as error:
        shown = cause = error
        # from the error to its first cause, as Python shows them; the last with a message is quoted
        while earlier := (
            cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
        ):
            cause = earlier
            shown = cause if first_line(cause) != type(cause).__name__ else shown
        raise kind(f"{what}: {first_line(shown)}; {hint}") from error


def _close(cluster: Any) -> None:
    """Close a cluster in any state, so that it is not closed again when Python exits.

    The cluster's ``close`` runs in a separate thread, because the class may ignore the timeout.
    """
    workers = getattr(cluster, "workers", {}).values()
    # a nanny that closes too slowly loses track of its process
    nannies = {
        worker: worker.process for worker in workers if isinstance(worker, distributed.Nanny)
    }
    try:
        close = partial(cluster.close, timeout=CLOSE_SECONDS)
        with suppress(AssertionError):  # Dask asserts a status that a batch job never has
            signals.without_interrupts(close, CLOSE_SECONDS + LATE_SECONDS)
    except (Exception, SystemExit) as error:
        if not nannies:  # their processes are killed below
            left = f"{type(cluster).__name__} may have left workers behind; check for them"
            warnings.warn(f"{left}: {first_line(error)}", stacklevel=2)
    finally:  # also if a second Ctrl-C interrupts: Python would wait for remaining processes
        with signals.ignored_interrupt():
            for nanny in nannies:
                if nanny.status is not distributed.Status.closed:
                    nanny.close_gracefully()  # so that no killed worker is restarted
            cluster.shutdown_on_close = False
            unclosed = {process.pid for process in nannies.values() if process is not None}
            for child in multiprocessing.active_children():
                if child.pid in unclosed:
                    child.kill()
                    child.join(CLOSE_SECONDS)
            for value in vars(cluster).values():
                if isinstance(value, tempfile._TemporaryFileWrapper):
                    value.close()  # a key of dask-jobqueue, whose file would outlive the process
            with suppress(AttributeError):  # not a class of Dask
                cluster._loop_runner.stop()  # still runs if ``close`` has failed
