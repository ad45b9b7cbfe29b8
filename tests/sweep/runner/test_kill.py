"""The command itself, in its own process: killed, interrupted, run twice at once."""

import json
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from functools import partial

import pytest
import xarray as xr
from faults import Fault, preloaded
from processes import local_cluster, until
from written import replicated

import sweep
from benchmarks.chaos.house import free_port
from sweep import events
from sweep.cluster import clusters, specification
from sweep.store.records import Status

REPLICATES = 300
OPTIONS = ("--store", "s", "--cluster", "cluster.yaml")

AS_IN_A_TERMINAL = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from sweep.cli import main
if __name__ == "__main__":
    main()
"""


AT_MOST = 200
"""Number of cells that the first workers solve before they wait for the gate."""


def halting(folder):
    """Workers solve a cell in 20 ms, and a number of cells before the gate."""
    wait = Fault("wait", "IP", first=AT_MOST, until=str(folder / "gate"))
    return Fault("sleep", "IP", seconds=0.02), wait


@pytest.fixture
def python(tmp_path, processes):
    """Starts Python on something about 300 cells, in its own process group."""
    (tmp_path / "many.yaml").write_text(replicated(REPLICATES))
    return partial(processes.python, stdout=subprocess.PIPE, start_new_session=True)


@pytest.fixture
def command(tmp_path, python):
    """Starts ``sweep run``.

    A background shell makes its children ignore SIGINT, and nohup makes them ignore SIGHUP; a
    terminal does neither.
    """
    local_cluster(tmp_path, *halting(tmp_path), Fault("wait", "IP", until=str(tmp_path / "seen")))
    words = "-c", AS_IN_A_TERMINAL, "run", "many.yaml", *OPTIONS
    return lambda: python(*words, stderr=subprocess.STDOUT)


@pytest.fixture
def first_cells(records, tmp_path):
    """Wait until some cells are done, before the dataset opens."""

    def wait(process):
        until((tmp_path / "s" / "results.zarr").exists, process)
        assert opens(tmp_path / "s")
        (tmp_path / "seen").touch()
        until(lambda: records(tmp_path / "s"), process)

    return wait


def opens(store):
    dataset = xr.open_zarr(store / "results.zarr").load()
    assert dict(dataset.sizes)["replicate"] == REPLICATES
    return set(dataset.status.values.ravel()) <= {Status.PENDING, Status.OK}


@pytest.mark.slow
def test_killed_half_way_and_run_again_nothing_is_done_twice(
    command, first_cells, tmp_path, records
):
    store = tmp_path / "s"
    process = command()
    first_cells(process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert opens(store)
    done = {record.cell for record in records(store)}
    assert 0 < len(done) < REPLICATES

    (tmp_path / "gate").touch()
    process = command()
    while process.poll() is None:
        assert opens(store)
        time.sleep(0.05)
    said = process.communicate()[0]
    assert process.returncode == 0, said
    assert f"{len(done)} already in the store" in said
    assert Counter(Counter(r.cell for r in records(store)).values()) == {1: REPLICATES}
    assert (sweep.open(store).status == Status.OK).all()


MODULE_WITH_A_HANDLER = """
import signal
import sys
from dask.distributed import LocalCluster
signal.signal(signal.SIGINT, lambda *_: sys.exit())
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_run_cleanly_whatever_the_clusters_module_does(
    command, first_cells, tmp_path, records, number
):
    """The handler of dask-jobqueue silently ends the process at Ctrl-C."""
    (tmp_path / "own_handler.py").write_text(MODULE_WITH_A_HANDLER)
    text = (tmp_path / "cluster.yaml").read_text()
    (tmp_path / "cluster.yaml").write_text(text.replace("dask.distributed", "own_handler"))
    process = command()
    first_cells(process)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    (tmp_path / "gate").touch()
    said = process.communicate(timeout=300)[0]
    assert process.returncode == 130, said
    assert "the same command continues where it stopped" in said
    assert "Traceback" not in said
    last = (tmp_path / "s" / "runs.jsonl").read_text().splitlines()[-1]
    assert json.loads(last)["interrupted"] is True
    done = {record.cell for record in records(tmp_path / "s")}
    assert int((sweep.open(tmp_path / "s").status == Status.OK).sum()) == len(done)


SCHEDULER = """
import sys
import time
from distributed import LocalCluster
if __name__ == "__main__":
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0",
        scheduler_port=int(sys.argv[1]), preload=[{preload!r}],
    )
    print(cluster.scheduler_address, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def scheduler(tmp_path, python):
    """Starts a scheduler with two workers, each time at the same port."""
    preload = preloaded(tmp_path, *halting(tmp_path))
    (tmp_path / "scheduler.py").write_text(SCHEDULER.format(preload=str(preload)))
    port = free_port()
    return lambda: python("scheduler.py", str(port))


@pytest.mark.slow
@pytest.mark.parametrize("closed", [False, True])
def test_a_scheduler_that_comes_back_is_gone_on_with(
    scheduler, tmp_path, records, monkeypatch, closed
):
    """By the client that lost it, or by another one after that has given up."""
    monkeypatch.setattr(clusters, "CONNECT_SECONDS", 5 if closed else 60)
    running = [scheduler()]
    spec = specification.ClusterSpec(address=running[0].stdout.readline().strip(), patience=300)

    def replace(event):
        if isinstance(event, events.CellsDone) and len(running) == 1:
            running[0].kill()
            (tmp_path / "gate").touch()
            running.append(None)
        if isinstance(event, events.WorkersMissing) and "is lost" in event.message:
            threading.Timer(9 if closed else 0, lambda: running.append(scheduler())).start()

    dataset = sweep.run(tmp_path / "many.yaml", tmp_path / "s", cluster=spec, listen=replace)
    assert (dataset.status == Status.OK).all()
    times = Counter(Counter(record.cell for record in records(tmp_path / "s")).values())
    assert times == {1: REPLICATES}
