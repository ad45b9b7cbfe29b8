"""Workloads are built by the workers that need them, and kept for the next tasks."""

import time
from collections import Counter

import numpy as np
import pytest

import sweep
import workloads
from sweep.grid.specs import Spec, WorkloadSpec
from sweep.plan.items import Bound
from sweep.plan.tasks import Task
from sweep.store import code
from sweep.store.records import Status
from sweep.store.view import StoreView
from sweep.worker import built as module
from sweep.worker.perform import perform
from sweep.worker.solve import BuildFailure

EXPERIMENT = """
reference: asleep
blocks:
  - workload: {name: prefix, d: 4}
    mechanism: asleep
    replicates: 40
"""
SECONDS = 0.05
PREFIX = WorkloadSpec("prefix", {"d": 4})


@pytest.fixture
def builds(monkeypatch):
    """How often each workload is built; nothing is kept from other tests."""
    counted = Counter()

    def build(spec, required):
        counted[spec.params["d"]] += 1
        return workloads.make(spec.name, **spec.params)

    monkeypatch.setattr(module, "build", build)
    module._kept.clear()
    yield counted
    module._kept.clear()


def test_a_workload_is_built_for_the_first_of_its_tasks(builds):
    first = module.built("key", PREFIX, "code")
    assert module.built("key", PREFIX, "code") is first
    assert module.built("key", PREFIX, "other code") is not first
    assert builds == {4: 2}


def test_the_last_few_are_kept(builds):
    for d in range(1, 18):
        module.built(str(d), WorkloadSpec("prefix", {"d": d}), "code")
    module.built("17", WorkloadSpec("prefix", {"d": 17}), "code")
    module.built("1", WorkloadSpec("prefix", {"d": 1}), "code")
    assert (builds[17], builds[1]) == (1, 2)


def test_large_ones_are_dropped_before_the_next_is_built(builds, monkeypatch):
    monkeypatch.setattr(module, "_MOST_BYTES", 100)
    module.built("large", PREFIX, "code")
    module.built("small", WorkloadSpec("prefix", {"d": 2}), "code")
    assert [key for key, _ in module._kept] == ["small"]


def test_what_could_not_be_built_is_tried_again():
    absent = WorkloadSpec("csv", {"queries": "absent.csv", "histogram": "absent.csv"})
    assert isinstance(module.built("absent", absent, code.digest()), BuildFailure)
    assert not any(key == "absent" for key, _ in module._kept)


def test_a_task_tries_once_to_build_what_fails(monkeypatch):
    tried = []

    def fails(spec, required):
        tried.append(spec)
        return BuildFailure(Status.FAILED, "it fails", "")

    monkeypatch.setattr(module, "build", fails)
    bounds = [Bound(problem, "fails", PREFIX, Spec("uniform")) for problem in ("p", "q", "r")]
    done = perform(Task("t", tuple(bounds)), StoreView("nowhere", ""))
    assert [record.error for record in done.records] == ["it fails"] * 3
    assert len(tried) == 1


def test_one_workload_keeps_all_workers_busy(client, tmp_path):
    """Tasks that depend on a workload on the cluster would all go to the worker that has it."""
    file = tmp_path / "one.yaml"
    file.write_text(EXPERIMENT)
    found = sweep.run(file, tmp_path / "s", client, mechanisms={"asleep": asleep})
    starts = np.sort(found["started"].to_numpy().ravel()).astype("datetime64[ms]")
    ends = starts + np.timedelta64(int(1000 * SECONDS), "ms")
    beside = (starts[1:] < ends[:-1]).mean()
    assert beside > 0.5


def asleep(problem):
    time.sleep(SECONDS)
    return np.eye(problem.workload.d)
