"""How busy a sweep keeps its workers, measured with cells that only sleep.

Run: ``python -m pytest benchmarks/bench_engine.py --benchmark-only``. The time that a sweep itself
takes is measured by `benchmarks.many_cells`.
"""

import importlib
import time

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster

import sweep

ASLEEP = """
blocks:
  - workload: {name: prefix, d: 4}
    mechanism: asleep
    replicates: %d
reference: asleep
"""
SLEEP_SECONDS = 20.0
"""Total number of seconds that each worker sleeps."""


def asleep(seconds):
    """Return a mechanism that sleeps for this time, so it takes no processor time."""

    def solve(problem):
        time.sleep(seconds)
        return np.eye(problem.workload.d)

    return solve


def awake():
    """Make a worker import everything that its first task would import."""
    importlib.import_module("sweep.worker.perform")


@pytest.mark.parametrize("seconds", [1.0, 5.0])
@pytest.mark.parametrize("workers", [1, 4, 16, 50])
def test_cells_that_sleep_keep_all_workers_busy(benchmark, tmp_path, workers, seconds):
    """Measure the share of the time that workers spend solving.

    The time is that from the start of the first solve to the end of the last. An earlier sweep
    makes the workers import what they need, which takes minutes with fifty workers on one machine.
    Dask's profiler is off, because for fifty workers it alone keeps two processors busy.
    """
    with (
        dask.config.set({"distributed.worker.profile.enabled": False}),
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.run(awake)

        def swept(name, cells, seconds):
            file = tmp_path / f"{name}.yaml"
            file.write_text(ASLEEP % (cells * workers))
            return sweep.run(file, tmp_path / name, client, mechanisms={"asleep": asleep(seconds)})

        swept("awake", 3, 1.0)
        cells = round(SLEEP_SECONDS / seconds)
        found = benchmark.pedantic(swept, ("asleep", cells, seconds), rounds=1)
    starts = (found.started.values - np.datetime64(0, "ms")) / np.timedelta64(1, "s")
    solving = found.runtime_s.values
    span = (starts + solving).max() - starts.min()
    benchmark.extra_info["utilisation"] = round(solving.sum() / (workers * span), 3)
