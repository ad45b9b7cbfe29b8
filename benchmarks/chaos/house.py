"""The processes of a chaos run: a scheduler, workers with nannies, and the command itself."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
WORKERS = 3
UNINTERRUPTED = ("sh", "-c", 'trap "" INT; exec "$0" "$@"')
"""Starts Python with SIGINT ignored until `DRIVER` restores it, just before the command begins."""
DRIVER = """
import signal
from fitness_sweep import main
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""
LASTING = "address: tcp://127.0.0.1:{port}\npatience: 300\n"
OWN = """
module: dask.distributed
class: LocalCluster
patience: 300
kwargs:
  n_workers: {workers}
  threads_per_worker: 1
  host: 127.0.0.1
  dashboard_address: 127.0.0.1:0
  silence_logs: 50
  memory_limit: 900MiB
  preload: [benchmarks.chaos.worker]
"""


@dataclass
class Driver:
    """A command that has been started, and the file to which its output goes."""

    process: subprocess.Popen
    words: tuple[str, ...]
    own_cluster: bool
    output: Path

    @property
    def said(self) -> str:
        return self.output.read_text(errors="replace")


class House:
    """All processes of a chaos run; `keep` restarts the scheduler and workers that have ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._commands: list[tuple[float, str]] = []
        self.driver: Driver | None = None
        self._scheduler: subprocess.Popen | None = None
        self._nannies: list[subprocess.Popen | None] = [None] * WORKERS
        self.port = free_port()
        (folder / "lasting.yaml").write_text(LASTING.format(port=self.port))
        (folder / "own.yaml").write_text(OWN.format(workers=WORKERS))
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "sweep")]),
            "CHAOS_FOLDER": str(folder),
            "OPENBLAS_NUM_THREADS": "1",
            "COLUMNS": "1000",
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
        }

    def keep(self) -> None:
        """Start the scheduler and the workers if they are not running."""
        if self._scheduler is None or self._scheduler.poll() is not None:
            words = ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
            self._scheduler = self._start("-m", "distributed.cli.dask_scheduler", *words)
        for number, nanny in enumerate(self._nannies):
            if nanny is None or nanny.poll() is not None:
                words = ["--nthreads", "1", "--memory-limit", "900MiB", "--no-dashboard"]
                words += ["--preload", "benchmarks.chaos.worker", "--host", "127.0.0.1"]
                words += ["--local-directory", str(self.folder / "scratch")]
                address = f"tcp://127.0.0.1:{self.port}"
                module = "distributed.cli.dask_worker"
                self._nannies[number] = self._start("-m", module, address, *words)

    def command(self, *words: str, own_cluster: bool = False) -> Driver:
        """Start ``sweep`` with these arguments."""
        python = (*UNINTERRUPTED, sys.executable)
        self._commands.append((time.time(), words[0]))
        output = self.folder / f"output-{len(self._commands)}"
        with output.open("wb") as stream:
            process = self._start("-c", DRIVER, *words, python=python, stdout=stream)
        return Driver(process, words, own_cluster, output)

    def command_at(self, second: int) -> str:
        """Return the verb, such as ``run``, of the last command started by the end of a second.

        ``second`` is given in seconds since 1970.
        """
        *_, last = (word for began, word in self._commands if began < second + 1)
        return last

    @property
    def scheduler(self) -> psutil.Process | None:
        return _alive(self._scheduler)

    @property
    def nannies(self) -> list[psutil.Process]:
        return list(filter(None, map(_alive, self._nannies)))

    @property
    def workers(self) -> list[psutil.Process]:
        """The worker processes: the lasting cluster's, or those of the driver's own cluster."""
        nannies = self._nannies
        if self.driver is not None and self.driver.own_cluster:
            nannies = [self.driver.process]
        found = []
        for nanny in filter(None, map(_alive, nannies)):
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                found += [one for one in nanny.children() if "spawn_main" in str(one.cmdline())]
        return found

    def close(self) -> None:
        """Kill every process that was started here, and its children."""
        drivers = [] if self.driver is None else [self.driver.process]
        for process in filter(None, [*drivers, *self._nannies, self._scheduler]):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # every process leads its own session
            process.wait()

    def _start(
        self, *words: str, python=(sys.executable,), stdout=subprocess.DEVNULL
    ) -> subprocess.Popen:
        return subprocess.Popen(
            [*python, *words],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def free_port() -> int:
    """Return an unused port below the range from which the system assigns ports to clients."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")


def _alive(process: subprocess.Popen | None) -> psutil.Process | None:
    with suppress(psutil.NoSuchProcess):
        if process is not None and process.poll() is None:
            return psutil.Process(process.pid)
    return None
