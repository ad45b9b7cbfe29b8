"""The Dask cluster: a ``cluster.yaml`` in dask-ctl's form, checked, started and closed."""

import importlib
import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sweep.errors import ClusterError
from sweep.experiment import document
from sweep.experiment.files import text_of

PATIENCE = 600.0
ALLOWED_FAILURES = 1
"""Dask's ``allowed-failures``: it gives a task up once more workers than this have died of it."""
CONNECT_SECONDS = 20.0
_TALKATIVE = ("distributed", "tornado.application", "asyncio")
_START_HINT = (
    "check cluster.yaml; a script (not a notebook) has to call sweep.run under "
    "if __name__ == '__main__':, since its workers are processes that import the script"
)
_MEMORY_KEPT = {"MALLOC_TRIM_THRESHOLD_": 2**28, "MALLOC_MMAP_THRESHOLD_": 2**25}
"""For glibc in the workers: Dask makes it return memory at once, which can triple run times."""


class ClusterSpec(BaseModel):
    """How to get a cluster: a class with arguments, or the address of a scheduler.

    Attributes
    ----------
    version : int
        Version of dask-ctl's form: 1.
    module : str
        The module of the cluster class.
    cls : str
        The name of the class (key ``class``).
    args : tuple
        Positional arguments of the class.
    kwargs : dict
        Keyword arguments of the class.
    address : str, optional
        Address of a running scheduler, instead of a class and its arguments.
    patience : float
        Seconds that a run waits while there are no workers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = Field(default=1, ge=1, le=1)
    module: str = ""
    cls: str = Field(default="", alias="class")
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = Field(default_factory=dict)
    address: str | None = None
    patience: float = Field(default=PATIENCE, ge=0.0)

    @model_validator(mode="after")
    def _one_way(self) -> "ClusterSpec":
        named = bool(self.module) and bool(self.cls)
        if (self.address is None) is not named or (self.address and (self.args or self.kwargs)):
            raise ValueError("expected either 'module' and 'class', or 'address' alone")
        return self


LOCAL = ClusterSpec.model_validate(
    {
        "version": 1,
        "module": "dask.distributed",
        "class": "LocalCluster",
        "args": [],
        "kwargs": {
            "n_workers": None,
            "threads_per_worker": 1,
            "processes": True,
            "host": "127.0.0.1",
            "dashboard_address": "127.0.0.1:0",
            "silence_logs": logging.CRITICAL,
        },
    }
)
"""One process with one thread for every processor of this machine, on loopback."""


def load(path: Path) -> ClusterSpec:
    """Read and check a ``cluster.yaml``.

    Parameters
    ----------
    path : Path
        The file. It has to be trusted, since it names a class to be called.

    Returns
    -------
    ClusterSpec

    Raises
    ------
    ClusterError
        If the file cannot be read or is not in dask-ctl's form.
    """
    from ruamel.yaml.error import YAMLError

    try:
        content = document.plain(text_of(path))
        return ClusterSpec.model_validate(content)
    except OSError as error:
        raise ClusterError(
            f"cluster file {str(path)!r} cannot be read: {error.strerror or error}; "
            "give the path of a cluster.yaml"
        ) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ClusterError(
            f"cluster file {str(path)!r}{', key ' + repr(where) if where else ''}: "
            f"{first['msg'].removeprefix('Value error, ')}; the form is version, module, class, "
            "args, kwargs, or address; and patience"
        ) from error
    except (YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        said = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ClusterError(f"cluster file {str(path)!r}{line} is not valid YAML: {said}") from error


def patient(spec: ClusterSpec | None, patience: float | None) -> ClusterSpec:
    """The specification, or the default one, with another patience if one is given.

    Raises
    ------
    ClusterError
        If the patience is negative or not a number.
    """
    given = spec or LOCAL
    if patience is None:
        return given
    if not patience >= 0:
        raise ClusterError(f"patience is {patience}; expected a number of seconds, 0 or more")
    return given.model_copy(update={"patience": patience})


def cluster_class(spec: ClusterSpec) -> Any:
    """The class that a specification names.

    Raises
    ------
    ClusterError
        If it cannot be imported.
    """
    try:
        return getattr(importlib.import_module(spec.module), spec.cls)
    except (ImportError, AttributeError, ValueError) as error:
        raise ClusterError(
            f"no cluster class {spec.cls!r} in module {spec.module!r} ({error}); install its "
            "package here, or correct 'module' and 'class' in cluster.yaml"
        ) from error


@contextmanager
def connected(spec: ClusterSpec, connect_seconds: float = CONNECT_SECONDS) -> Iterator[Any]:
    """A client of the cluster, closed at the end together with the cluster if it was started here.

    Parameters
    ----------
    spec : ClusterSpec
        The cluster to start, or the address of a running scheduler.
    connect_seconds : float
        Seconds to wait for that scheduler to answer.

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
    }
    client_class: Any = distributed.Client
    with dask.config.set(settings), _quiet():
        if spec.address is not None:
            with _explained(f"scheduler {spec.address!r} cannot be reached"):
                client = client_class(spec.address, timeout=connect_seconds)
            with client:
                yield client
            return
        with _handlers_kept():
            make = cluster_class(spec)
            with _explained(f"cluster {spec.module}.{spec.cls} cannot be started", _START_HINT):
                with _interrupts_held():
                    cluster = make(*spec.args, **spec.kwargs)
                client = client_class(cluster)
        try:
            yield client
        finally:
            with suppress(Exception):
                client.close(timeout=5)
            with suppress(Exception):
                cluster.close(timeout=5)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's log off the screen: what matters of it is in the journal."""
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
def _handlers_kept() -> Iterator[None]:
    """Keep the signal handlers: some cluster modules replace them when they are imported."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Block Ctrl-C, and leave it blocked in every thread and process started meanwhile.

    The terminal sends it to all processes, but only the driver should act on it: the driver ends
    the workers.
    """
    resource_tracker.ensure_running()  # it unblocks the signal when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _explained(what: str, hint: str = "check cluster.yaml") -> Iterator[None]:
    try:
        yield
    except ClusterError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ClusterError(f"{what}: {lines[0]}; {hint}") from error
