"""What workers still do for a driver that is gone is waited for, and not done again."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
from distributed import Client, LocalCluster
from faults import Fault, preloaded, search_path

import sweep
from sweep import events
from sweep.cluster import specification
from sweep.store.records import Status

CELLS = 24
EXPERIMENT = f"""
reference: IP
blocks:
  - workload: {{name: prefix, d: 4}}
    mechanism: IP
    replicates: {CELLS}
"""


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
    while not (begun.exists() and begun.stat().st_size == 2):
        assert first.poll() is None
        time.sleep(0.02)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    return begun


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
    assert Counter(Counter(r.cell for r in records(tmp_path / "s")).values()) == {1: CELLS}


def test_what_is_recorded_while_the_next_driver_gets_another_cluster_is_not_done_again(
    begun, client, gate, tmp_path, records
):
    """The workers of the first one's scheduler go on, but the next driver cannot ask them."""

    def have_them_end(event):
        if isinstance(event, events.RunStarted):
            gate.touch()
            deadline = time.monotonic() + 20
            while len(list((tmp_path / "s" / "journal").glob("*.jsonl"))) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.02)

    dataset = sweep.run(tmp_path / "x.yaml", tmp_path / "s", client, listen=have_them_end)
    assert (dataset.status == Status.OK).all()
    assert Counter(Counter(r.cell for r in records(tmp_path / "s")).values()) == {1: CELLS}


def test_a_worker_that_is_stopped_keeps_no_driver_waiting(client, small, tmp_path, monkeypatch):
    monkeypatch.setattr("sweep.worker.inquiry._SECONDS", 0.5)
    (stopped, _) = client.run(os.getpid).values()
    os.kill(stopped, signal.SIGSTOP)
    try:
        heard = []
        with Client(client.scheduler.address) as own:
            began = time.monotonic()

            def go_on(event):
                heard.append(event)
                if isinstance(event, events.ClusterReady):
                    assert time.monotonic() - began < 5
                    os.kill(stopped, signal.SIGCONT)

            dataset = sweep.run(small(), tmp_path / "s", own, listen=go_on)
    finally:
        os.kill(stopped, signal.SIGCONT)
    assert (dataset.status == Status.OK).all()
