"""A scheduler, its workers and commands, each as its own process, as a user starts them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from faults import Fault, preloaded, search_path

from sweep.cluster import clusters
from sweep.cluster.specification import LOCAL, ClusterSpec
from sweep.errors import ClusterError

SECONDS = 300.0
LOCAL_CLUSTER = """
module: dask.distributed
class: LocalCluster
kwargs:
  n_workers: {workers}
  threads_per_worker: 1
  host: 127.0.0.1
  dashboard_address: 127.0.0.1:0
  silence_logs: 50
  preload: [{preload}]
"""
WORKER = ("--nthreads", "1", "--no-dashboard", "--death-timeout", "300")


class Processes:
    """Processes that are started in a folder and do not outlive the test."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._open = folder, ExitStack()

    def close(self) -> None:
        self._open.close()

    def scheduler(self, *options: object) -> str:
        """Start a scheduler, and return its address."""
        place = self._folder / "scheduler.json"
        about = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", place)
        self._serve("distributed.cli.dask_scheduler", *about, *options)
        until(lambda: place.exists() and place.read_text().endswith("}"))
        address = str(json.loads(place.read_text())["address"])
        (self._folder / "cluster.yaml").write_text(f"address: {address}\n")
        return address

    def worker(self, address: str, *options: object, path: Path | None = None) -> None:
        """Start a worker, which imports from ``path`` first."""
        self._serve("distributed.cli.dask_worker", address, *WORKER, *options, path=path)

    def command(
        self, *words: object, on: Sequence[str] = (), stdout: Any = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        """Start ``sweep`` with these words; a prefix may put it on another disk."""
        words = ("-m", "sweep.cli", *words)
        return self.python(*words, on=on, stdout=stdout, stderr=subprocess.PIPE)

    def run(self, text: str, *options: object, **streams: Any) -> subprocess.Popen[str]:
        """Start ``sweep run`` on this experiment, on the cluster of the folder's file."""
        (self._folder / "x.yaml").write_text(text)
        words = ("run", "x.yaml", "--store", "s", "--cluster", "cluster.yaml")
        return self.command(*words, *options, **streams)

    def _serve(self, module: str, *words: object, path: Path | None = None) -> None:
        self.python("-m", module, *words, path=path, stderr=subprocess.DEVNULL)

    def python(
        self, *words: object, path: Path | None = None, on: Sequence[str] = (), **more: Any
    ) -> subprocess.Popen[str]:
        """Start Python with these words."""
        command = [*on, sys.executable, *map(str, words)]
        process = subprocess.Popen(
            command, cwd=self._folder, env=environment(path), text=True, **more
        )
        self._open.callback(_end, process)
        return process


def local_cluster(folder: Path, *faults: Fault, workers: int = 2) -> None:
    """Write the cluster file of local workers that have these faults from the start."""
    preload = preloaded(folder, *faults)
    text = LOCAL_CLUSTER.format(workers=workers, preload=preload)
    (folder / "cluster.yaml").write_text(text)


def local(**kwargs: Any) -> ClusterSpec:
    """The default cluster with other arguments."""
    return LOCAL.model_copy(update={"kwargs": {**LOCAL.kwargs, **kwargs}})


def refused(spec: ClusterSpec, match: str) -> None:
    """Check that no cluster starts, and that one sentence says why."""
    with pytest.raises(ClusterError, match=match) as caught, clusters.connected(spec):
        pytest.fail("it is connected")
    assert "\n" not in str(caught.value)


def environment(path: Path | None = None) -> Mapping[str, str]:
    """The environment of a process that finds the tests' modules, and ``path`` first."""
    first = [str(path)] if path else []
    return {**os.environ, "COLUMNS": "300", "PYTHONPATH": os.pathsep.join([*first, search_path()])}


def alone(call: Callable[..., Any], *arguments: object) -> Any:
    """The result of a call in its own process, where no thread of the tests' cluster interferes."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(call, *arguments).result(SECONDS)


def ended(command: subprocess.Popen[str], code: int = 0) -> str:
    """The output of a command that has ended with this code and without a traceback."""
    output, errors = command.communicate(timeout=SECONDS)
    said = output + errors
    assert command.returncode == code, said
    assert "Traceback" not in said
    return said


def until(there: Callable[[], object], *running: subprocess.Popen[str]) -> None:
    """Wait for something that commands do while they run."""
    end = time.monotonic() + SECONDS
    while not there():
        for command in running:
            assert command.poll() is None, command.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)


def _end(process: subprocess.Popen[str]) -> None:
    """A worker's nanny ends its worker, if it has time to."""
    process.terminate()
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
