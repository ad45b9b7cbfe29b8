"""Workloads are built by the workers that need them, and kept for the next tasks."""

import os
import time
from collections import Counter

import numpy as np
import pytest
from written import replicated

import sweep
import workloads
from sweep.experiment.canonical import Spec
from sweep.plan.tasks import Solve, Task
from sweep.store.folder import About, Store, WorkerStore
from sweep.store.paths import DiskPath
from sweep.worker import perform as module
from sweep.worker.perform import perform

PREFIX = Spec("prefix", {"d": 4})


@pytest.fixture
def builds(monkeypatch):
    """The number of times that each workload is built; nothing is kept from other tests."""
    counted = Counter()

    def build(spec):
        counted[spec.params["d"]] += 1
        return workloads.make(spec.name, **spec.params)

    monkeypatch.setattr(module, "build", build)
    module.kept_workloads.clear()
    yield counted
    module.kept_workloads.clear()


def test_the_last_few_are_kept(builds):
    for d in range(1, 18):
        module.get_workload(str(d), Spec("prefix", {"d": d}))
    module.get_workload("17", Spec("prefix", {"d": 17}))
    module.get_workload("1", Spec("prefix", {"d": 1}))
    assert (builds[17], builds[1]) == (1, 2)


def test_large_ones_are_dropped_before_the_next_is_built(builds, monkeypatch):
    monkeypatch.setattr(module, "MOST_WORKLOAD_BYTES", 100)
    module.get_workload("large", PREFIX)
    module.get_workload("small", Spec("prefix", {"d": 2}))
    assert [*module.kept_workloads] == ["small"]


def test_a_task_tries_once_to_build_what_fails(monkeypatch):
    tried = []

    def fails(spec):
        tried.append(spec)
        raise workloads.WorkloadError("it fails")

    monkeypatch.setattr(module, "build", fails)
    bounds = [
        Solve(problem, problem, "fails", PREFIX, Spec("uniform")) for problem in ("p", "q", "r")
    ]
    done = perform(
        Task("t", tuple(bounds)), WorkerStore(Store(DiskPath("nowhere"), About(2, "", "")))
    )
    assert [record.error for record in done.records] == ["it fails"] * 3
    assert len(tried) == 1


def test_one_workload_keeps_all_workers_busy(client, tmp_path):
    """Tasks that depend on a workload on the cluster would all go to the worker that has it."""
    (file := tmp_path / "one.yaml").write_text(replicated(20, "together"))

    def together(problem):
        """Wait until both workers have a cell of their own."""
        (tmp_path / f"turn-{os.getpid()}").touch()
        end = time.monotonic() + 120
        while len([*tmp_path.glob("turn-*")]) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        return np.eye(problem.workload.d)

    sweep.run(file, tmp_path / "s", client, mechanisms={"together": together})
    assert len([*tmp_path.glob("turn-*")]) == 2
