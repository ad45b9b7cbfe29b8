"""Deliberate failures, counted by invocation across processes, so that tests can predict them.

A fault affects solves whose mechanism matches, from the ``first`` matching invocation (from 0) for
``times`` invocations. Invocations are counted by the length of a file to which every process
appends one byte, so the count survives killed workers.
"""

import faulthandler
import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import dask
import distributed
import numpy as np

from solvers import NotApplicableError
from sweep.worker import perform, solve


class UnprintableError(Exception):
    def __str__(self) -> str:
        sys.exit("not even this")


@dataclass(frozen=True)
class Fault:
    kind: str
    mechanism: str
    first: int = 0
    times: int = 10**9
    seconds: float = 0.0
    until: str = ""
    """The file that ends a ``wait`` when it appears; the journal that must have the ``first`` cells
    before ``recorded`` ends."""

    def strike(self) -> None:
        match self.kind:
            case "raise":
                raise ValueError("broken on purpose")
            case "inapplicable":
                raise NotApplicableError("no line of answers here")
            case "exit":
                sys.exit("good-bye")
            case "interrupt":
                raise KeyboardInterrupt
            case "unprintable":
                raise UnprintableError
            case "segfault":
                faulthandler._sigsegv()
            case "sigkill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "sleep":
                time.sleep(self.seconds)
            case "wait":
                while not os.path.exists(self.until):
                    time.sleep(0.01)
            case "recorded":
                while cells_in(Path(self.until)) < self.first:
                    time.sleep(0.01)
            case "memory":
                fill_memory()
            case "hold":
                hold_the_interpreter()


def cells_in(journal: Path) -> int:
    """Number of cell records in a journal."""
    return sum(path.read_bytes().count(b'"cell":') for path in journal.glob("*.jsonl"))


def fill_memory() -> None:
    """Take 2 GB, slowly enough for a nanny to notice, and keep them."""
    held = []
    for _ in range(32):
        held.append(b"x" * 2**26)
        time.sleep(0.1)
    time.sleep(600)


def hold_the_interpreter() -> None:
    """Let C code run for hours without letting any other thread of this process run."""
    re.match(r"(a+)+$", "a" * 40 + "b")


def count(path: Path) -> int:
    """Number of previous calls by any process."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, b".")
        return os.lseek(descriptor, 0, os.SEEK_CUR) - 1
    finally:
        os.close(descriptor)


def endless() -> np.ndarray:
    """A workload that is never built."""
    while True:
        with suppress(Exception):
            time.sleep(600)


def broken(kind: str) -> np.ndarray:
    """A workload whose construction ends in a given kind of fault."""
    Fault(kind, "").strike()
    return np.eye(2)


class FaultPlugin(distributed.WorkerPlugin):
    def __init__(self, folder: Path, faults: Sequence[Fault], grace_s: float | None = None):
        self.folder, self.faults, self.grace_s = folder, tuple(faults), grace_s

    def setup(self, worker):
        install(self.folder, self.faults, self.grace_s)

    def teardown(self, worker):
        uninstall()


_ORIGINAL = (solve.run_solver, perform.GRACE_SECONDS)


def install(folder: Path, faults: Sequence[Fault], grace_s: float | None = None) -> None:
    original = _ORIGINAL[0]

    def run_solver(one, *rest):
        for number, fault in enumerate(faults):
            if fault.mechanism == one.mechanism.name:
                nth = count(folder / f"fault-{number}")
                if fault.first <= nth < fault.first + fault.times:
                    fault.strike()
        return original(one, *rest)

    solve.run_solver = run_solver
    if grace_s is not None:
        perform.GRACE_SECONDS = grace_s


def uninstall() -> None:
    solve.run_solver, perform.GRACE_SECONDS = _ORIGINAL


@contextmanager
def injected(client, folder: Path, *faults: Fault, grace_s: float | None = None):
    """Faults in every worker of the cluster, including restarted ones.

    Dask closes a worker for good if it is not back in time, so its faults are removed first.
    """
    client.register_plugin(FaultPlugin(folder, faults, grace_s), name="faults")
    try:
        with dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}):
            yield
    finally:
        client.unregister_worker_plugin("faults")


def search_path() -> str:
    """The PYTHONPATH with which other processes find this module."""
    here = str(Path(__file__).resolve().parent)
    return os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])


def preloaded(folder: Path, *faults: Fault) -> Path:
    """A file that Dask workers preload to have these faults from the start."""
    path = folder / "faulty.py"
    path.write_text(
        "from pathlib import Path\n"
        "from faults import Fault, install\n"
        f"install(Path({str(folder)!r}), {list(faults)!r})\n"
    )
    return path
