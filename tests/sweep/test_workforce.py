"""Clusters without workers: from the start, and in mid-run."""

import os
import re
import threading
import time
from functools import partial

import dask
import pytest
from distributed import LocalCluster
from faults import search_path, slow_workers

import sweep
from sweep import events
from sweep.cluster import clusters, specification, workforce
from sweep.errors import ClusterError, NoWorkersError
from sweep.report import messages
from sweep.runner import engine
from sweep.store.records import Status
from sweep.store.view import StoreView
from sweep.worker import solve


class Unattended(LocalCluster):
    """Its workers end in time, as batch jobs do, and are not replaced."""

    def __init__(self, n_workers, preload):
        super().__init__(
            **{**specification.LOCAL.kwargs, "n_workers": n_workers}, preload=[*preload]
        )


ENDS_AFTER_TEN = """
from sweep.worker import solve
from tornado.ioloop import PeriodicCallback

solved, run_solver = [], solve.run_solver


def counted(*about):
    solved.append(about)
    return run_solver(*about)


def dask_setup(worker):
    def look():
        if len(solved) > 10:
            looking.stop()
            worker.loop.add_callback(worker.close_gracefully)

    solve.run_solver = counted
    looking = PeriodicCallback(look, 100)
    looking.start()
"""


@pytest.fixture
def heard_out(monkeypatch):
    """A scheduler that is slow to answer does not count as silent."""
    monkeypatch.setattr(workforce, "_ANSWER_SECONDS", 300.0)
    monkeypatch.setattr(clusters, "LEAST_CONNECT_SECONDS", clusters.CONNECT_SECONDS)


@pytest.mark.usefixtures("heard_out")
def test_a_scheduler_without_workers_is_told_and_ends_the_run(small, tmp_path):
    heard = []
    with LocalCluster(**{**specification.LOCAL.kwargs, "n_workers": 0}) as empty:
        spec = specification.ClusterSpec(address=empty.scheduler_address)
        with pytest.raises(NoWorkersError, match=r"no workers for \d+ s.*start some with"):
            sweep.run(small(), tmp_path / "s", cluster=spec, patience=1.5, listen=heard.append)
    (missing,) = (event for event in heard if isinstance(event, events.WorkersMissing))
    assert missing.seconds < 1
    assert missing.patience == 1.5
    assert not any(isinstance(event, events.ClusterReady) for event in heard)
    assert heard[-1] == events.RunEnded({"pending": 4}, heard[-1].seconds, interrupted=False)
    assert (sweep.open(tmp_path / "s").status == Status.PENDING).all()


@pytest.mark.usefixtures("heard_out")
def test_the_command_ends_with_one_sentence_and_exit_code_1(tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.yaml").write_text(
        "reference: IP\nblocks: [{workload: {name: prefix, d: 4}, mechanism: IP}]\n"
    )
    with LocalCluster(**{**specification.LOCAL.kwargs, "n_workers": 0}) as empty:
        (tmp_path / "cluster.yaml").write_text(f"address: {empty.scheduler_address}\npatience: 1\n")
        ran = command("run", "x.yaml", "--cluster", "cluster.yaml")
    assert ran.exit_code == 1, ran.stderr
    assert re.fullmatch(r"error: the cluster has had no workers for .*\n", ran.stderr)
    assert "no workers: scheduler tcp://127.0.0.1" in ran.stdout


def unwatched(small, store, client):
    """What is said of workers without a nanny."""
    heard = []
    sweep.run(small("[2]", "IP"), store, client, listen=heard.append)
    return [messages.message(one) for one in heard if isinstance(one, events.WorkersUnwatched)]


def test_workers_without_a_nanny_are_told_of(client, small, tmp_path):
    assert unwatched(small, tmp_path / "s", client) == []
    threads = LocalCluster(n_workers=1, processes=False, dashboard_address=None)
    with threads as cluster, cluster.get_client() as own:
        (said,) = unwatched(small, tmp_path / "t", own)
    assert said.startswith("warning: 1 worker without a nanny: time limits that a solve ignores")


@pytest.mark.slow
def test_workers_that_end_in_mid_run_are_asked_for_again(small, tmp_path, monkeypatch, records):
    (tmp_path / "ends.py").write_text(ENDS_AFTER_TEN)
    preload = [str(slow_workers(tmp_path, 0.15)), str(tmp_path / "ends.py")]
    monkeypatch.setenv("PYTHONPATH", search_path())
    # what a worker has solved is kept
    monkeypatch.setattr(engine, "StoreView", partial(StoreView, interval=0.2))
    spec = specification.ClusterSpec.model_validate(
        {
            "module": __name__,
            "class": "Unattended",
            "kwargs": {"n_workers": 2, "preload": preload},
        }
    )
    heard = []
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1s"}):
        dataset = sweep.run(
            small("[4]", "IP\n    replicates: 40"),
            tmp_path / "s",
            cluster=spec,
            patience=300,
            listen=heard.append,
        )
    assert (dataset.status == Status.OK).all()
    assert {record.status.label for record in records(tmp_path / "s")} == {"ok"}


REFUSALS = {
    "bad partition": ("echo 'sbatch: error: no partition x' >&2; exit 1", "sbatch: error: no part"),
    "no sbatch": (None, "No such file or directory: 'sbatch'"),
}


class Clock:
    """The time, or later."""

    ahead = 0.0

    def monotonic(self):
        return time.monotonic() + self.ahead


@pytest.mark.parametrize(("script", "said"), REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("size", [{"scale": 2}, {"adapt": {"minimum": 1, "maximum": 2}}])
def test_jobs_that_are_refused_end_the_run_in_the_batch_systems_words(
    small, tmp_path, monkeypatch, script, said, size
):
    pytest.importorskip("dask_jobqueue")
    if script:
        (tmp_path / "sbatch").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}" if script else str(tmp_path))
    monkeypatch.chdir(tmp_path)
    kwargs = {"cores": 1, "memory": "1GB", "interface": "lo"}
    named = {"module": "dask_jobqueue", "class": "SLURMCluster", "kwargs": kwargs, **size}
    spec = specification.ClusterSpec.model_validate(named)
    clock = Clock()
    monkeypatch.setattr(workforce, "time", clock)

    def lose_patience(event):
        if isinstance(event, events.WorkersMissing) and said in event.message:
            clock.ahead = 3600.0

    with pytest.raises(NoWorkersError, match=f"SLURMCluster: .*{re.escape(said)}"):
        sweep.run(small(), tmp_path / "s", cluster=spec, patience=60, listen=lose_patience)
    assert clock.ahead > 0


@pytest.mark.parametrize("refused", [True, False])
def test_a_worker_that_is_refused_leaves_and_ends_no_wait(monkeypatch, refused):
    clock, heard = Clock(), []
    monkeypatch.setattr(workforce, "time", clock)
    threads = LocalCluster(n_workers=0, processes=False, dashboard_address=None)
    with threads as cluster, cluster.get_client() as client:
        looking = workforce.Workforce(client, None, 60.0, heard.append)
        looking.look()
        cluster.scale(1)
        client.wait_for_workers(1)
        clock.ahead = 40
        looking.look()
        (worker,) = client.nthreads()
        if refused:
            looking.refuse(worker, "it differs")
            looking.refuse(worker, "it differs")
        else:
            client.retire_workers([worker])
        assert not client.nthreads()
        clock.ahead = 61
        if refused:
            with pytest.raises(NoWorkersError, match="refused in this run: it differs"):
                looking.look()
        else:
            looking.look()
    told = [one for one in heard if isinstance(one, events.WorkerRefused)]
    assert told == ([events.WorkerRefused(worker, "it differs")] if refused else [])


SIZES = {"scale": {"scale": 2}, "adapt": {"adapt": {"minimum": 1, "maximum": 2}}}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_the_file_can_say_how_many_workers(small, tmp_path, monkeypatch, size):
    local = {"n_workers": 0, "processes": False, "threads_per_worker": 1, "dashboard_address": None}
    spec = specification.ClusterSpec.model_validate(
        {"module": "dask.distributed", "class": "LocalCluster", "kwargs": local, **size}
    )
    counted, ready, run_solver = threading.Event(), [], solve.run_solver

    def once_counted(*about):
        assert counted.wait(300)
        return run_solver(*about)

    def listen(event):
        if isinstance(event, events.ClusterReady):
            ready.append(event)
            counted.set()

    monkeypatch.setattr(solve, "run_solver", once_counted)
    dataset = sweep.run(small(), tmp_path / "s", cluster=spec, patience=300, listen=listen)
    assert (dataset.status == Status.OK).all()
    assert 1 <= ready[0].workers <= 2


@pytest.mark.parametrize(
    "wrong",
    [
        "module: a\nclass: b\nscale: 2\nadapt: {maximum: 3}\n",
        "address: tcp://127.0.0.1:1\nscale: 2\n",
        "module: a\nclass: b\nadapt: {minimum: 3, maximum: 2}\n",
        "module: a\nclass: b\nadapt: {maximum: 0}\n",
    ],
)
def test_a_number_of_workers_that_makes_no_sense(tmp_path, wrong):
    (tmp_path / "cluster.yaml").write_text(wrong)
    with pytest.raises(ClusterError, match=r"expected|greater than or equal to 1"):
        specification.load(tmp_path / "cluster.yaml")


@pytest.mark.parametrize("patience", [-1.0, float("nan")])
def test_a_patience_that_is_none(small, tmp_path, patience):
    with pytest.raises(ClusterError, match="expected a number of seconds"):
        sweep.run(small(), tmp_path / "s", patience=patience)
    assert not (tmp_path / "s").exists()
