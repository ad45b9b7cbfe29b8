"""What workers still do for a driver that is gone is waited for, and not done again."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from types import SimpleNamespace

import pytest
from distributed import Client, LocalCluster
from faults import Fault, cells_in, preloaded, search_path
from processes import until
from written import replicated

import sweep
from sweep import events
from sweep.cluster import specification
from sweep.plan.items import Bound
from sweep.plan.tasks import Task
from sweep.runner import late_records, maintenance
from sweep.store.records import Status
from sweep.worker import running_tasks

CELLS = 24
EXPERIMENT = replicated(CELLS)


def wait_for(file):
    while not os.path.exists(file):
        time.sleep(0.02)


def times_solved(records):
    """How many cells were solved how many times; a record that is taken over is there again."""
    solved = {(record.cell, record.started) for record in records}
    return Counter(Counter(cell for cell, _ in solved).values())


@pytest.fixture
def gate(tmp_path):
    """The file without which no solve ends."""
    return tmp_path / "gate"


@pytest.fixture
def lasting(gate, tmp_path, monkeypatch):
    """A cluster that no driver ends."""
    preload = preloaded(tmp_path, Fault("wait", "IP", until=str(gate)))
    monkeypatch.setenv("PYTHONPATH", search_path())
    kwargs = {**specification.LOCAL.kwargs, "n_workers": 2, "preload": [str(preload)]}
    with LocalCluster(**kwargs) as cluster:
        yield cluster


@pytest.fixture
def begun(lasting, tmp_path):
    """A byte for every solve that the cluster has begun; those of a driver that was killed."""
    (tmp_path / "x.yaml").write_text(EXPERIMENT)
    (tmp_path / "cluster.yaml").write_text(f"address: {lasting.scheduler_address}\n")
    command = [sys.executable, "-m", "sweep.cli", "run", "x.yaml", "--store", "s"]
    first = subprocess.Popen(
        [*command, "--cluster", "cluster.yaml"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    begun = tmp_path / "fault-0"
    until(lambda: begun.exists() and begun.stat().st_size == 2, first)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    until(lambda: not lasting.scheduler.tasks)
    return begun


@pytest.mark.slow
def test_a_driver_that_is_killed_leaves_its_tasks_to_the_next_one(
    lasting, begun, gate, tmp_path, records
):
    heard = []

    def open_the_gate(event):
        heard.append(event)
        if isinstance(event, events.CellsAwaited):
            gate.touch()

    spec = specification.ClusterSpec(address=lasting.scheduler_address)
    dataset = sweep.run(tmp_path / "x.yaml", tmp_path / "s", cluster=spec, listen=open_the_gate)
    assert (dataset.status == Status.OK).all()
    one_of_each_worker = 2
    assert [one.cells for one in heard if isinstance(one, events.CellsAwaited)] == [
        one_of_each_worker
    ]
    assert begun.stat().st_size == CELLS
    assert times_solved(records(tmp_path / "s")) == {1: CELLS}


@pytest.mark.slow
def test_what_is_recorded_while_the_next_driver_gets_another_cluster_is_not_done_again(
    begun, client, gate, tmp_path, records
):
    """The workers of the first one's scheduler go on, but the next driver cannot ask them."""

    def have_them_end(event):
        if isinstance(event, events.RunStarted):
            gate.touch()
            until(lambda: cells_in(tmp_path / "s" / "journal") == 2)

    dataset = sweep.run(tmp_path / "x.yaml", tmp_path / "s", client, listen=have_them_end)
    assert (dataset.status == Status.OK).all()
    assert times_solved(records(tmp_path / "s")) == {1: CELLS}


@pytest.mark.slow
def test_what_is_recorded_while_a_task_waits_on_the_cluster_is_not_done_again(
    begun, client, gate, tmp_path, records, monkeypatch
):
    monkeypatch.setattr(late_records, "_LEAST_PAUSE", 0.1)
    other, late = tmp_path / "other-gate", tmp_path / "s" / "late.json"
    busy = [client.submit(wait_for, str(other), pure=False) for _ in client.ncores()]

    def have_them_end(event):
        if isinstance(event, events.ClusterReady):
            gate.touch()
            opener.start()

    def open_the_other_gate():
        try:
            until(lambda: len(told()) >= 2)
        finally:
            other.touch()

    def told():
        return json.loads(late.read_text()) if late.exists() else ()

    opener = threading.Thread(target=open_the_other_gate)
    dataset = sweep.run(tmp_path / "x.yaml", tmp_path / "s", client, listen=have_them_end)
    opener.join()
    client.gather(busy)
    assert (dataset.status == Status.OK).all()
    assert times_solved(records(tmp_path / "s")) == {1: CELLS}
    assert not late.exists()


def test_a_task_that_a_worker_is_just_beginning_is_seen_by_the_next_driver():
    begun = SimpleNamespace(key="r000001-the-stor-n-000000")
    worker = SimpleNamespace(state=SimpleNamespace(executing=[begun]))
    task = Task(begun.key, (Bound("problem", "key", None, None),))

    async def seen():
        answer = asyncio.create_task(running_tasks.running("the-store", worker))
        for _ in range(3):
            await asyncio.sleep(0)
        with running_tasks.registered(task, "the-store"):
            return await answer

    assert asyncio.run(seen()) == {task.name: {("bound", "problem")}}


def test_a_worker_that_is_stopped_keeps_no_driver_waiting(client, small, tmp_path, monkeypatch):
    monkeypatch.setattr("sweep.worker.broadcast._SECONDS", 0.5)
    (stopped, _) = client.run(os.getpid).values()
    os.kill(stopped, signal.SIGSTOP)
    try:
        heard = []
        with Client(client.scheduler.address) as own:
            in_vain = threading.Timer(300, os.kill, (stopped, signal.SIGCONT))
            in_vain.start()

            def go_on(event):
                heard.append(event)
                if isinstance(event, events.ClusterReady):
                    assert in_vain.is_alive()
                    in_vain.cancel()
                    os.kill(stopped, signal.SIGCONT)

            dataset = sweep.run(small(), tmp_path / "s", own, listen=go_on)
    finally:
        in_vain.cancel()
        os.kill(stopped, signal.SIGCONT)
    assert (dataset.status == Status.OK).all()


def test_what_a_killed_compaction_left_behind_is_no_late_record(swept, client, tmp_path):
    """A cell that is to be solved again is, though an old segment still has it."""
    store = tmp_path / "s"
    first = swept(store).load()
    segments = {path: path.read_bytes() for path in (store / "journal").iterdir()}
    maintenance.compact(store)
    for path, content in segments.items():
        path.write_bytes(content)
    again = sweep.rerun(store, "mechanism == 'IP'", client).load()
    newer = again.started.sel(mechanism="IP") > first.started.sel(mechanism="IP")
    assert newer.all()
