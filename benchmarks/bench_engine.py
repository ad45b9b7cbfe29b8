"""What the engine itself costs, on trivial cells and on cells that sleep.

``python -m pytest benchmarks/bench_engine.py --benchmark-only``
"""

import importlib
import resource
import subprocess
import sys
import time

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster

import sweep

WORDS = ("run", "trivial", "--store", "store")
MANY = """
blocks:
  - workload: {name: prefix, d: 4}
    mechanism: %s
    replicates: %d
reference: %s
"""
SLEEP_SECONDS = 20.0
"""For which every worker's cells sleep in all."""


@pytest.fixture
def command(tmp_path):
    """Runs ``sweep run trivial`` in an empty folder, as a user would."""

    def run():
        subprocess.run(
            [sys.executable, "-m", "sweep.cli", *WORDS],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )

    return run


def test_ten_thousand_trivial_cells(benchmark, command):
    benchmark.pedantic(command, rounds=1)


def test_ten_thousand_trivial_cells_again(benchmark, command):
    command()
    benchmark.pedantic(command, rounds=3)


@pytest.mark.parametrize("cells", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_many_trivial_cells(benchmark, tmp_path, cells):
    """Seconds and largest memory of each command; not of the workers, which are forked apart."""
    (tmp_path / "many.yaml").write_text(MANY % ("IP", cells, "IP"))
    run = ("run", "many.yaml", "--store", "store")

    def all_commands():
        for name, words in {
            "plan": ("plan", "many.yaml"),
            "run": run,
            "run again": run,
            "status": ("status", "store"),
            "show": ("show", "store"),
        }.items():
            started = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "sweep.cli", *words],
                cwd=tmp_path,
                check=True,
                capture_output=True,
            )
            seconds = time.perf_counter() - started
            largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            benchmark.extra_info[name] = f"{seconds:.1f} s, at most {largest:.0f} MB until here"

    benchmark.pedantic(all_commands, rounds=1)


def asleep(seconds):
    """A mechanism that takes so many seconds and no processor."""

    def solve(problem):
        time.sleep(seconds)
        return np.eye(problem.workload.d)

    return solve


def awake():
    """Import on a worker what its first task would import."""
    importlib.import_module("sweep.worker.perform")


@pytest.mark.parametrize("seconds", [1.0, 5.0])
@pytest.mark.parametrize("workers", [1, 4, 16, 50])
def test_cells_that_sleep_keep_all_workers_busy(benchmark, tmp_path, workers, seconds):
    """The share of the workers' time in which they solve, from the first start to the last end.

    An earlier sweep has them import what they need: fifty on one machine take minutes for that.
    Dask's profiler is off, because that of fifty workers keeps two processors busy by itself.
    """
    with (
        dask.config.set({"distributed.worker.profile.enabled": False}),
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.run(awake)

        def swept(name, cells, seconds):
            file = tmp_path / f"{name}.yaml"
            file.write_text(MANY % ("asleep", cells * workers, "asleep"))
            return sweep.run(file, tmp_path / name, client, mechanisms={"asleep": asleep(seconds)})

        swept("awake", 3, 1.0)
        cells = round(SLEEP_SECONDS / seconds)
        found = benchmark.pedantic(swept, ("asleep", cells, seconds), rounds=1)
    starts = (found.started.values - np.datetime64(0, "ms")) / np.timedelta64(1, "s")
    solving = found.runtime_s.values
    span = (starts + solving).max() - starts.min()
    benchmark.extra_info["utilisation"] = round(solving.sum() / (workers * span), 3)
