"""The Dask cluster: started or connected to, kept quiet, and closed."""

import asyncio
import importlib
import inspect
import logging
import os
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from sweep.cluster import security, shutdown, signals
from sweep.cluster.specification import ClusterSpec
from sweep.errors import ClusterError, first_line

ALLOWED_FAILURES = 1
"""Dask's ``allowed-failures``: it gives a task up once more workers than this have died of it."""
CONNECT_SECONDS, LEAST_CONNECT_SECONDS = 20.0, 5.0
"""How long a scheduler may take to answer; less if the patience is less, but not less than this."""
_ANSWER_SECONDS = 2.0
_SLOW_SECONDS = 15.0
_TALKATIVE = ("distributed", "distributed.client", "tornado.application", "asyncio")
_OTHER_PORT = r"Port \d+ is already in use"
"""A warning about the dashboard, which then takes another port; its address is printed."""
_SHARED = "shared_temp_directory"
_START_HINT = (
    "check cluster.yaml; a script (not a notebook) has to call sweep.run under "
    "if __name__ == '__main__':, since its workers are processes that import the script"
)
_MEMORY_KEPT = {"MALLOC_TRIM_THRESHOLD_": 2**28, "MALLOC_MMAP_THRESHOLD_": 2**25}
"""For glibc in the workers: Dask makes it return memory at once, which can triple run times."""


def cluster_class(spec: ClusterSpec) -> Any:
    """The class that a specification names.

    Raises
    ------
    ClusterError
        If it cannot be imported.
    """
    try:
        return getattr(importlib.import_module(spec.module), spec.cls)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ClusterError(
            f"no cluster class {spec.cls!r} in module {spec.module!r} ({first_line(error)}); "
            "install its package here, or correct 'module' and 'class' in cluster.yaml"
        ) from error


@contextmanager
def connected(spec: ClusterSpec) -> Iterator[Any]:
    """A client of the cluster, closed at the end together with the cluster if it was started here.

    Parameters
    ----------
    spec : ClusterSpec
        The cluster to start, or the address of a running scheduler.

    Raises
    ------
    ClusterError
        If it cannot be started or reached.
    """
    import dask
    import distributed

    settings = {
        "distributed.scheduler.allowed-failures": ALLOWED_FAILURES,
        "distributed.admin.tick.limit": "1h",
        "distributed.nanny.pre-spawn-environ": {
            **dask.config.get("distributed.nanny.pre-spawn-environ"),
            **_MEMORY_KEPT,
        },
        **(security.settings(spec.security) if spec.security else {}),
    }
    client_class: Any = distributed.Client
    with dask.config.set(settings), _quiet():
        if spec.address is not None:
            keys = security.of_files(spec.security) if spec.security else None
            with _explained(f"scheduler {spec.address!r} cannot be reached"):
                if not spec.insecure:
                    security.refuse_exposed(spec.address)
                seconds = min(max(spec.patience, LEAST_CONNECT_SECONDS), CONNECT_SECONDS)
                _greet(spec.address, keys, seconds)
                client = client_class(spec.address, timeout=seconds, security=keys)
            with client:
                yield client
            return
        with _started(spec) as cluster:
            if not spec.insecure:
                security.refuse_exposed(cluster.scheduler_address)
            with _explained(f"cluster {spec.module}.{spec.cls} cannot be reached"):
                _size(cluster, spec)
                client = client_class(cluster)
            try:
                yield client
            finally:
                with suppress(Exception):
                    client.close(timeout=5)


def _greet(address: str, keys: Any, seconds: float) -> None:
    """Make sure that a scheduler answers: a client would wait for a silent one without limit.

    Raises
    ------
    OSError
        If it does not.
    """
    import distributed

    library: Any = distributed

    async def greet() -> None:
        arguments = (keys or library.Security()).get_connection_args("client")
        try:
            opened = library.comm.connect(address, timeout=seconds, **arguments)
            line = await asyncio.wait_for(opened, seconds + _ANSWER_SECONDS)
        except TimeoutError:
            raise OSError("what answers there is not a Dask scheduler") from None
        await line.close()

    with ThreadPoolExecutor(1) as another_loop:
        another_loop.submit(asyncio.run, greet()).result()


@contextmanager
def _started(spec: ClusterSpec) -> Iterator[Any]:
    """The cluster of a specification, closed at the end."""
    from distributed import LocalCluster

    _check_folder()
    cluster: Any = None
    name = f"{spec.module}.{spec.cls}"
    with ExitStack() as stack:
        try:
            with signals.handlers_kept():
                make = cluster_class(spec)
                with (
                    _explained(f"cluster {name} cannot be started", _START_HINT),
                    signals.postponed(),
                    warnings.catch_warnings(),
                    _warning_if_slow(name),
                ):
                    keys = stack.enter_context(_keys(spec, make))
                    warnings.filterwarnings("ignore", _OTHER_PORT)
                    ours = _of_this_machine(spec) if make is LocalCluster else {}
                    started = make(*spec.args, **{**ours, **spec.kwargs, **keys})
                    if not hasattr(started, "scheduler_address"):
                        kind = type(started).__name__
                        raise TypeError(f"it makes a {kind}, which is not a cluster")
                    cluster = started
            yield cluster
        finally:
            if cluster is not None:
                shutdown.close(cluster, name)


def _of_this_machine(spec: ClusterSpec) -> dict[str, Any]:
    """Arguments of a LocalCluster that keep tracebacks off the screen."""
    from sweep.cluster.nannies import LocalNanny

    processes = {"worker_class": LocalNanny} if spec.kwargs.get("processes", True) else {}
    return {"silence_logs": logging.CRITICAL, **processes}


@contextmanager
def _warning_if_slow(name: str) -> Iterator[None]:
    """Warn if the start takes long, since nothing else is printed during it."""

    def say() -> None:
        warnings.warn(
            f"cluster {name} has been starting for {_SLOW_SECONDS:g} s; the run waits for it, "
            "Ctrl-C twice ends it",
            stacklevel=2,
        )

    timer = threading.Timer(_SLOW_SECONDS, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _check_folder() -> None:
    """Refuse to start processes in a working directory that no longer exists."""
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise ClusterError(
            "the current folder has been removed, and workers cannot start in it; go to another"
        ) from error


def _size(cluster: Any, spec: ClusterSpec) -> None:
    """Scale a started cluster to the size that its specification asks for."""
    if spec.scale is not None:
        cluster.scale(spec.scale)
    if spec.adapt is not None:
        cluster.adapt(minimum=spec.adapt.minimum, maximum=spec.adapt.maximum)


@contextmanager
def _keys(spec: ClusterSpec, make: Any) -> Iterator[dict[str, Any]]:
    """The argument that closes a cluster to others; none where the specification says enough.

    A key that nobody is to have goes to the workers of this machine in memory, and to batch jobs
    in files.
    """
    from distributed import LocalCluster

    decided = spec.insecure or {"security", "protocol"} & spec.kwargs.keys()
    with ExitStack() as stack:
        keys = security.of_files(spec.security) if spec.security else None
        if decided or keys:
            pass
        elif make is LocalCluster and spec.kwargs.get("processes", True):
            keys = security.temporary()
        elif inspect.isclass(make) and _SHARED in inspect.signature(make).parameters:
            shared = Path(spec.kwargs.get(_SHARED, ".")).expanduser()
            keys = stack.enter_context(security.temporary_in_files(shared))
        yield {} if keys is None else {"security": keys}


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's log off the screen: what matters is in the journal."""
    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


@contextmanager
def _explained(what: str, hint: str = "check cluster.yaml") -> Iterator[None]:
    try:
        yield
    except (ClusterError, KeyboardInterrupt):
        raise
    except BaseException as error:
        first = told = error
        while (before := _before(first)) is not None:
            first = before
            if first_line(first) != type(first).__name__:
                told = first
        raise ClusterError(f"{what}: {first_line(told)}; {hint}") from error


def _before(error: BaseException) -> BaseException | None:
    """The error that led to this one, unless that is to be hidden."""
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)
