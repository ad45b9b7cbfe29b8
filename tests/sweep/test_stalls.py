"""Connections that stand and deliver nothing.

Dask sends collected messages at a time of day, which is far away once the clock is set back at the
wrong moment; here it is told a time that is far away.
"""

import asyncio
import os
import signal
from collections import Counter
from types import SimpleNamespace

import dask
import pytest
from distributed import Client, LocalCluster
from distributed.core import Status as DaskStatus
from faults import Fault, preloaded
from processes import ended, until
from written import replicated

import sweep
from sweep import events
from sweep.experiment.loading import parse_experiment
from sweep.report import messages
from sweep.runner import stalls
from sweep.store.records import Status

CELLS, FIRST = 60, 20
EXPERIMENT = replicated(CELLS)
DAY = 86_400


async def stall(*connections):
    """Each as soon as it has nothing to send: Dask forgets the time then."""
    from distributed.metrics import time

    for connection in connections:
        while connection.next_deadline is not None:
            await asyncio.sleep(0.001)
        connection.next_deadline = time() + DAY


def stall_to_worker(client):
    async def set_wrong(dask_scheduler):
        await stall(next(iter(dask_scheduler.stream_comms.values())))

    client.run_on_scheduler(set_wrong)


async def stall_at_worker(dask_worker):
    await stall(dask_worker.batched_stream)


def stall_from_worker(client):
    client.run(stall_at_worker, workers=[next(iter(client.ncores()))])


def stall_from_workers(client):
    client.run(stall_at_worker)


def stall_to_driver(client):
    async def set_wrong(dask_scheduler):
        await stall(*dask_scheduler.client_comms.values())

    client.run_on_scheduler(set_wrong)


def stall_from_driver(client):
    client.sync(stall, client.scheduler_comm)


async def last_heartbeat(dask_worker):
    dask_worker.periodic_callbacks["heartbeat"].stop()
    await dask_worker.heartbeat()


def all_run(dask_scheduler):
    return all(worker.executing for worker in dask_scheduler.workers.values())


def stop_heartbeats(client):
    """As a clock that is set back does; the last ones have said that something is run."""
    until(lambda: client.run(last_heartbeat) and client.run_on_scheduler(all_run))


def stall_to_silent_worker(client):
    stop_heartbeats(client)
    stall_to_worker(client)


def stall_from_silent_workers(client):
    stop_heartbeats(client)
    stall_from_workers(client)


@pytest.fixture
def slow(tmp_path):
    """A file to preload: the first solves take a little, the others wait for the gate."""
    waits = Fault("wait", "IP", first=FIRST, until=str(tmp_path / "gate"))
    return preloaded(tmp_path, Fault("sleep", "IP", seconds=0.05), waits)


@pytest.fixture
def own_cluster(slow):
    """Two workers that Dask waits for, however long a restart takes."""
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=None,
            silence_logs=50,
            preload=[str(slow)],
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def worker(address, *, status=DaskStatus.running, heard=0.0, **executing):
    return SimpleNamespace(address=address, status=status, last_seen=heard, executing=executing)


def task(state, processing_on=None):
    return SimpleNamespace(state=state, processing_on=processing_on)


def places(scheduler):
    """Where tasks are, by name; and all that a look compares with the one before."""
    found = stalls._places([*scheduler.tasks, "unknown"], scheduler)
    return {name.partition(",")[0]: place for name, place in found.items()}, found


def test_a_task_is_where_the_scheduler_has_it():
    tasks = {
        "sent": task("processing", worker("w")),
        "ended": task("memory"),
        "waiting": task("queued"),
    }
    found, _ = places(SimpleNamespace(tasks=tasks, workers={"w": worker("w")}))
    assert found == {"sent": "w", "ended": None, "unknown": None}


@pytest.mark.parametrize("status", [DaskStatus.running, DaskStatus.paused])
@pytest.mark.parametrize(
    ("executing", "later", "suspected"),
    [({"task": 1.0}, 2.0, False), ({"task": 1.0}, 1.0, True), ({}, 2.0, True)],
    ids=["runs a task by its heartbeats", "did so in its last heartbeat", "runs none"],
)
def test_a_worker_is_suspected_unless_its_heartbeats_say_that_it_runs(
    status, executing, later, suspected
):
    def seen(heard):
        one = worker("w", status=status, heard=heard, **executing)
        return SimpleNamespace(tasks={"task": task("processing", one)}, workers={"w": one})

    assert places(seen(1.0))[0]["task"] == "w"
    assert (places(seen(1.0))[1] == places(seen(later))[1]) == suspected


def test_tasks_are_only_gone_through_when_it_is_time():
    asked = []

    def unheard():
        asked.append("tasks")
        return []

    looking = stalls.Stalls()
    assert {looking.look(None, unheard) for _ in range(3)} == {stalls.Stuck()}
    assert asked == ["tasks"]


def test_a_paused_worker_is_found_though_no_task_is_there():
    workers = {"idle": worker("idle", status=DaskStatus.paused), "well": worker("well")}
    scheduler = SimpleNamespace(tasks={"waiting": task("queued")}, workers=workers)
    assert stalls._places(["waiting"], scheduler) == {"idle": "idle"}


def test_only_the_oldest_tasks_are_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(stalls, "_by_place", lambda client, tasks: asked.extend(tasks) or {})
    names = [f"task {number}" for number in range(3 * stalls._MOST_ASKED)]
    stalls.Stalls().look(None, lambda: names)
    assert asked == names[: stalls._MOST_ASKED]


@pytest.mark.parametrize(
    ("status", "running", "kept", "found"),
    [
        (DaskStatus.running, {"task"}, {}, None),
        (DaskStatus.running, set(), {"result": 1}, DaskStatus.running),
        (DaskStatus.paused, {"task"}, {}, None),
        (DaskStatus.paused, set(), {"result": 1}, None),
        (DaskStatus.paused, set(), {}, DaskStatus.paused),
    ],
)
def test_only_what_runs_nothing_and_is_needed_for_nothing_is_restarted(
    status, running, kept, found
):
    state = SimpleNamespace(executing=running, long_running=set())
    worker = SimpleNamespace(state=state, status=status, data=kept)
    assert stalls._status_if_idle(worker) is found


@pytest.mark.slow
def test_a_paused_worker_is_restarted_and_said_to_be_paused(own_cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(stalls, "_LOOK_SECONDS", 0.5)
    heard = []

    def pause(dask_worker):
        dask_worker.memory_manager.memory_pause_fraction = False
        dask_worker.status = DaskStatus.paused

    def listen(event):
        first = events.CellsDone not in map(type, heard)
        heard.append(event)
        if first and isinstance(event, events.CellsDone):
            own_cluster.run(pause)
            (tmp_path / "gate").touch()

    experiment = parse_experiment(EXPERIMENT, "many.yaml")
    dataset = sweep.run(experiment, tmp_path / "s", own_cluster, listen=listen)
    assert (dataset.status == Status.OK).all()
    (*_, told) = (event for event in heard if isinstance(event, events.WorkersPaused))
    assert "for lack of memory where none is running: restarting" in messages.message(told)
    assert not any(isinstance(event, events.ConnectionsStalled) for event in heard)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stall", "moment"),
    [
        (stall_to_worker, events.CellsDone),
        (stall_from_worker, events.CellsDone),
        (stall_from_workers, events.CellsDone),
        (stall_to_silent_worker, events.CellsDone),
        (stall_from_silent_workers, events.CellsDone),
        (stall_to_driver, events.CellsDone),
        (stall_from_driver, events.RunStarted),
    ],
)
def test_a_connection_that_delivers_nothing_is_made_anew(
    own_cluster, tmp_path, records, monkeypatch, stall, moment
):
    monkeypatch.setattr(stalls, "_LOOK_SECONDS", 0.5)
    heard = []

    def listen(event):
        first = moment not in map(type, heard)
        heard.append(event)
        if first and isinstance(event, moment):
            stall(own_cluster)
            (tmp_path / "gate").touch()

    experiment = parse_experiment(EXPERIMENT, "many.yaml")
    dataset = sweep.run(experiment, tmp_path / "s", own_cluster, listen=listen)
    assert (dataset.status == Status.OK).all()
    assert Counter(record.cell for record in records(tmp_path / "s")).most_common(1)[0][1] == 1
    assert any(isinstance(event, events.ConnectionsStalled) for event in heard)


@pytest.mark.slow
def test_a_scheduler_that_is_stopped_is_waited_for_with_patience(
    processes, slow, tmp_path, records
):
    address = processes.scheduler()
    processes.worker(address, "--preload", slow)
    with Client(address) as client:
        client.wait_for_workers(1, timeout=300)
        scheduler = client.run_on_scheduler(os.getpid)
    (tmp_path / "many.yaml").write_text(EXPERIMENT)
    words = ("run", "many.yaml", "--store", "s", "--cluster", "cluster.yaml", "--patience", "20")
    command = processes.command(*words)
    until(lambda: (tmp_path / "s" / "journal").exists() and records(tmp_path / "s"), command)
    os.kill(scheduler, signal.SIGSTOP)
    try:
        said = ended(command, code=1)
        (tmp_path / "gate").touch()
    finally:
        os.kill(scheduler, signal.SIGCONT)
    assert f"scheduler {address} does not answer" in said
    assert "the rest is pending: the same command continues" in said
    ended(processes.command(*words))
    solves = {(record.cell, record.started) for record in records(tmp_path / "s")}
    assert len(solves) == len({cell for cell, _ in solves}) == CELLS
