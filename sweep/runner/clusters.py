"""The Dask cluster: a ``cluster.yaml`` in dask-ctl's form, checked, started and closed."""

import importlib
import inspect
import logging
import multiprocessing
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from sweep.errors import ClusterError
from sweep.experiment import document
from sweep.experiment.files import text_of
from sweep.runner import security
from sweep.runner.security import KeyFiles

PATIENCE = 600.0
ALLOWED_FAILURES = 1
"""Dask's ``allowed-failures``: it gives a task up once more workers than this have died of it."""
CONNECT_SECONDS = 20.0
_TALKATIVE = ("distributed", "distributed.client", "tornado.application", "asyncio")
_SHARED = "shared_temp_directory"
_START_HINT = (
    "check cluster.yaml; a script (not a notebook) has to call sweep.run under "
    "if __name__ == '__main__':, since its workers are processes that import the script"
)
_MEMORY_KEPT = {"MALLOC_TRIM_THRESHOLD_": 2**28, "MALLOC_MMAP_THRESHOLD_": 2**25}
"""For glibc in the workers: Dask makes it return memory at once, which can triple run times."""


class Adapt(BaseModel):
    """Between how many workers Dask may choose, by what there is to do."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    minimum: int = Field(default=0, ge=0)
    maximum: int = Field(ge=1)

    @model_validator(mode="after")
    def _in_order(self) -> "Adapt":
        if self.minimum > self.maximum:
            raise ValueError("expected a minimum that is not above the maximum")
        return self


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
    scale : int, optional
        Number of workers to ask the cluster for, once it is there.
    adapt : Adapt, optional
        Between how many workers it may choose instead.
    patience : float
        Seconds that a run waits while there are no workers.
    security : KeyFiles, optional
        Keys for TLS; a LocalCluster without them gets a temporary one.
    insecure : bool
        Whether a cluster may do without, whoever can reach it.
    allow_mixed : bool
        Whether its workers may have other versions of Python and of libraries than the command.
    prometheus : str, optional
        Port, or host and port, at which the run's figures are served.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = Field(default=1, ge=1, le=1)
    module: str = ""
    cls: str = Field(default="", alias="class")
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = Field(default_factory=dict)
    address: str | None = None
    scale: int | None = Field(default=None, ge=0)
    adapt: Adapt | None = None
    patience: float = Field(default=PATIENCE, ge=0.0)
    security: KeyFiles | None = None
    insecure: bool = False
    allow_mixed: bool = False
    prometheus: str | None = None

    @field_validator("prometheus", mode="before")
    @classmethod
    def _as_text(cls, written: object) -> object:
        return str(written) if isinstance(written, int) else written

    @model_validator(mode="after")
    def _one_way(self) -> "ClusterSpec":
        named = bool(self.module) and bool(self.cls)
        if (self.address is None) is not named or (self.address and (self.args or self.kwargs)):
            raise ValueError("expected either 'module' and 'class', or 'address' alone")
        sizes = [size for size in (self.scale, self.adapt) if size is not None]
        if len(sizes) > 1 or (sizes and self.address is not None):
            raise ValueError("expected 'scale' or 'adapt', and neither with 'address'")
        if self.security is not None and (self.insecure or "security" in self.kwargs):
            raise ValueError("expected either 'security', or 'insecure', or a 'security' in kwargs")
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
            "args, kwargs, or address; and scale, adapt, patience, security, insecure, "
            "allow_mixed, prometheus"
        ) from error
    except (YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        said = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ClusterError(f"cluster file {str(path)!r}{line} is not valid YAML: {said}") from error


def asked(
    spec: ClusterSpec | None,
    patience: float | None,
    *,
    allow_mixed: bool,
    prometheus: str | None = None,
) -> ClusterSpec:
    """The specification, or the default one, with what else was asked for.

    Raises
    ------
    ClusterError
        If the patience is negative or not a number.
    """
    given = spec or LOCAL
    if allow_mixed:
        given = given.model_copy(update={"allow_mixed": True})
    if prometheus is not None:
        given = given.model_copy(update={"prometheus": prometheus})
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
def connected(spec: ClusterSpec, connect_seconds: float | None = None) -> Iterator[Any]:
    """A client of the cluster, closed at the end together with the cluster if it was started here.

    Parameters
    ----------
    spec : ClusterSpec
        The cluster to start, or the address of a running scheduler.
    connect_seconds : float, optional
        Seconds to wait for that scheduler to answer; `CONNECT_SECONDS` if not given.

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
            if not spec.insecure:
                security.refuse_exposed(spec.address)
            keys = security.of_files(spec.security) if spec.security else None
            seconds = CONNECT_SECONDS if connect_seconds is None else connect_seconds
            with _explained(f"scheduler {spec.address!r} cannot be reached"):
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


@contextmanager
def _started(spec: ClusterSpec) -> Iterator[Any]:
    """The cluster that a class makes, closed at the end."""
    from distributed.core import Status

    with ExitStack() as stack:
        with _handlers_kept():
            make = cluster_class(spec)
            what = f"cluster {spec.module}.{spec.cls} cannot be started"
            with _explained(what, _START_HINT), _interrupts_held():
                keys = stack.enter_context(_keys(spec, make))
                cluster = make(*spec.args, **{**spec.kwargs, **keys})
        try:
            yield cluster
        finally:
            for one in unstarted(cluster).values():
                one.status = Status.failed  # what closing expects of it
            begun = _pids(cluster)
            with suppress(Exception):
                cluster.close(timeout=5)
            _kill(begun)


def _pids(cluster: Any) -> set[int | None]:
    """The workers' processes of a cluster on this machine."""
    workers = dict(getattr(cluster, "workers", {}))
    return {getattr(one, "pid", None) for one in workers.values()}


def _kill(pids: set[int | None]) -> None:
    """Kill those processes that a closed cluster was still starting.

    They would find gone what they were to inherit from this one, and print a traceback.
    """
    for process in multiprocessing.active_children():
        if process.pid in pids:
            process.kill()
            process.join()


def unstarted(cluster: Any) -> dict[Any, Any]:
    """The workers, by name, that a cluster could not start."""
    from distributed.core import Status

    workers = dict(getattr(cluster, "workers", {}))
    return {name: one for name, one in workers.items() if one.status is Status.created}


def _size(cluster: Any, spec: ClusterSpec) -> None:
    """Have a cluster that was started grow to what its specification asks for."""
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
        made = security.of_files(spec.security) if spec.security else None
        if decided or made:
            pass
        elif make is LocalCluster and spec.kwargs.get("processes", True):
            made = security.temporary()
        elif inspect.isclass(make) and _SHARED in inspect.signature(make).parameters:
            shared = Path(spec.kwargs.get(_SHARED, ".")).expanduser()
            made = stack.enter_context(security.temporary_in_files(shared))
        yield {} if made is None else {"security": made}


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
