"""Solves that need much memory go to workers that have it."""

import time
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from distributed import Nanny, Scheduler, SpecCluster, get_worker

from sweep.cluster import specification, workforce
from sweep.experiment.canonical import Spec
from sweep.plan.tasks import Cost, Solve, Solves
from sweep.runner import dispatch
from sweep.store.folder import About, Store, WorkerStore
from sweep.store.keys import KEY
from sweep.store.paths import DiskPath
from sweep.store.records import BoundRecord
from sweep.worker import perform as worker
from sweep.worker.perform import TaskOutcome


@contextmanager
def two_workers():
    """A client of two workers, one with little memory."""
    scheduler = {"cls": Scheduler, "options": {"dashboard_address": "127.0.0.1:0", "port": 0}}
    specs = {
        name: {"cls": Nanny, "options": {"nthreads": 1, "memory_limit": limit}}
        for name, limit in [("small", "1 GB"), ("large", "8 GB")]
    }
    with SpecCluster(workers=specs, scheduler=scheduler) as cluster, cluster.get_client() as client:
        client.wait_for_workers(2)
        yield client


@pytest.fixture(scope="module")
def unequal():
    with two_workers() as client:
        yield client


def workers_of(client, monkeypatch, size, tick=lambda: None, large_takes=0.1):
    """The names of the workers that did ten tasks of a size."""

    def perform(task, worker_store):
        name = get_worker().name
        time.sleep(large_takes if name == "large" else 0.1)
        return TaskOutcome(task.name, (BoundRecord("p", error=name),), written=False)

    monkeypatch.setattr(worker, "perform", perform)
    bound = Solve("p", "p", "key", Spec("prefix", {"d": 2}), Spec("uniform"), cost=Cost(bytes=size))
    none = Solves(np.empty(0), lambda: np.empty(0, KEY), np.empty(0, KEY), [].__getitem__)
    bounds, alone = none + [bound] * 10, list(np.arange(10)[:, None])
    done, worker_store = [], WorkerStore(Store(DiskPath("nowhere"), About(2, "", "")))

    def accept(task, outcome):
        done.extend(outcome.records)
        return ()

    meter = SimpleNamespace(look=lambda threads, left: None)
    session = SimpleNamespace(accept=accept, emit=[].append, meter=meter, run=f"size-{size}")
    spec = specification.ClusterSpec(address=client.scheduler.address)
    watch = workforce.Workforce(client, spec, [].append, ExitStack())
    dispatch.Dispatch(session, watch, bounds, alone, worker_store).perform(tick)
    return {record.error for record in done}


@pytest.mark.parametrize("size", [2e9, 0.9e9], ids=["too large", "no room for Python"])
def test_large_solves_go_where_there_is_memory(unequal, monkeypatch, size):
    assert workers_of(unequal, monkeypatch, size) == {"large"}


def test_no_worker_is_overlooked_when_dask_looks_too(unequal, monkeypatch):
    """Every two seconds Dask's client replaces its information with one without workers."""
    monkeypatch.setattr(unequal, "scheduler_info", lambda **asked: {"workers": {}})
    assert workers_of(unequal, monkeypatch, 1.9e9) == {"large"}


@pytest.mark.parametrize("size", [1e6, 1e12])
def test_any_worker_does_what_all_or_none_have_memory_for(unequal, monkeypatch, size):
    asked = []
    submit = unequal.submit
    monkeypatch.setattr(unequal, "submit", lambda *a, **k: asked.append(k) or submit(*a, **k))
    workers_of(unequal, monkeypatch, size)
    assert len(asked) >= 10
    assert all(one["workers"] is None for one in asked)


def name_of(dask_worker):
    return dask_worker.name


@pytest.mark.slow
def test_other_workers_try_once_those_with_enough_memory_are_gone(monkeypatch):
    monkeypatch.setattr(workforce, "LOOK_SECONDS", 0.2)
    with two_workers() as client:
        addresses = {name: address for address, name in client.run(name_of).items()}
        retire = iter([lambda: client.retire_workers([addresses["large"]])])

        def tick():
            next(retire, lambda: None)()

        assert "small" in workers_of(client, monkeypatch, 2e9, tick, large_takes=1.0)
