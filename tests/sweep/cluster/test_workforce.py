"""Clusters without workers: from the start, and in mid-run."""

import asyncio
import os
import re
import time
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from distributed import LocalCluster
from processes import until
from programs import script
from written import SMALL

import sweep
from sweep import events
from sweep.cluster import clusters, specification, workforce
from sweep.cluster.workforce import Workforce
from sweep.errors import ClusterError, NoWorkersError, SchedulerLostError
from sweep.store.records import Status
from sweep.worker import checks

pytestmark = pytest.mark.usefixtures("nothing_left")
THREADS = {"n_workers": 0, "processes": False, "threads_per_worker": 1, "dashboard_address": ":0"}


class Client:
    """A client of a scheduler with these workers; one with None does not answer."""

    status = "running"
    dashboard_link = "http://127.0.0.1:8787"

    def __init__(self, workers):
        self.workers, self.closed = workers, []
        self.scheduler = SimpleNamespace(
            address="tcp://127.0.0.1:1", unregister=self.closed.append, identity=self.identity
        )

    def sync(self, ask, callback_timeout, address=None, **options):
        if self.workers is None:
            raise TimeoutError
        return ask() if address is None else ask(address)

    def identity(self):
        return {"workers": {name: {"nthreads": n} for name, n in self.workers.items()}}


@pytest.fixture
def clock(clock, monkeypatch):
    monkeypatch.setattr(workforce, "time", clock)
    return clock


def force(client, spec, heard=None, cluster=None):
    """What watches the workers of this client."""
    listen = [].append if heard is None else heard.append
    return Workforce(client, spec, listen, ExitStack(), cluster)


def waiting(patience):
    return specification.ClusterSpec(address="tcp://127.0.0.1:1", patience=patience)


@pytest.mark.parametrize(
    ("workers", "reason"), [({}, "start some with 'dask worker"), (None, "does not answer")]
)
def test_a_run_waits_for_workers_with_patience_and_says_so_once(clock, workers, reason):
    heard = []
    watch = force(Client(workers), waiting(100), heard)
    for clock.now in range(100):
        watch.look()
    (missing,) = heard
    assert (missing.seconds, missing.patience) == (0, 100)
    assert reason in missing.message
    clock.now = 100
    with pytest.raises(NoWorkersError, match=f"no workers for 100 s .*{reason}.*--patience"):
        watch.look()


def test_workers_that_come_end_the_wait(clock):
    heard, client = [], Client({})
    watch = force(client, waiting(60), heard)
    watch.look()
    client.workers, clock.now = {"a": 2, "b": 1}, 59
    watch.look()
    assert (heard[-1], watch.threads) == (events.ClusterReady(2, 3), (2, 1))
    client.workers = {}
    for clock.now in (61, 63):
        watch.look()
    # a short gap is not worth a word besides
    assert heard[2:] == [events.WorkerLeft("a", 0), events.WorkerLeft("b", 0)]
    clock.now = 70
    watch.look()
    assert heard[-1].seconds == 9


def test_a_worker_that_is_refused_leaves_and_ends_no_wait(clock):
    heard, client = [], Client({})
    watch = force(client, waiting(60), heard)
    watch.look()
    client.workers, clock.now = {"w": 1}, 40
    watch.look()
    watch.refuse("w", "it differs")
    watch.refuse("w", "it differs")
    assert client.closed == ["w", "w"]
    refusals = [event.message for event in heard if isinstance(event, events.Warned)]
    assert refusals == ["worker w is closed, its cells go to others: it differs"]
    client.workers, clock.now = {}, 61
    with pytest.raises(NoWorkersError, match="refused in this run: it differs"):
        watch.look()


def test_a_run_waits_for_a_lost_scheduler_with_patience(monkeypatch):
    now, heard, lost = iter(range(100)), [], Client({})
    clock = SimpleNamespace(monotonic=lambda: next(now), sleep=lambda seconds: None)
    monkeypatch.setattr(workforce, "time", clock)
    watch, lost.status = force(lost, waiting(20), heard), "connecting"
    with pytest.raises(SchedulerLostError, match=r"lost 2\d s ago and is not back.*is pending"):
        watch.regain(lambda: None)
    assert heard == [events.WorkersMissing(0.0, 20, "scheduler tcp://127.0.0.1:1 is lost")]
    lost.status = "running"
    watch.regain(lambda: None)
    assert watch.client is lost


def test_the_command_ends_with_one_sentence_and_exit_code_1(here, command, monkeypatch):
    monkeypatch.setattr(workforce, "ANSWER_SECONDS", 300.0)
    monkeypatch.setattr(clusters, "LEAST_CONNECT_SECONDS", clusters.CONNECT_SECONDS)
    (here / "x.yaml").write_text(SMALL)
    with LocalCluster(**{**specification.LOCAL.kwargs, "n_workers": 0}) as empty:
        (here / "cluster.yaml").write_text(f"address: {empty.scheduler_address}\npatience: 1\n")
        ran = command("run", "x.yaml", "--cluster", "cluster.yaml")
    assert ran.exit_code == 1, ran.stderr
    assert re.fullmatch(r"error: the cluster has had no workers for .*\n", ran.stderr)
    assert "no workers: scheduler tcp://127.0.0.1" in ran.stdout
    assert (sweep.open(here / "results" / "x").status == Status.PENDING).all()


@pytest.mark.slow
def test_a_scheduler_that_is_lost_before_the_first_task_is_a_sentence(here, command, monkeypatch):
    monkeypatch.setattr(clusters, "LEAST_CONNECT_SECONDS", 1.0)
    (here / "x.yaml").write_text(SMALL)
    with LocalCluster(**{**THREADS, "n_workers": 1}) as cluster:
        (here / "cluster.yaml").write_text(f"address: {cluster.scheduler_address}\npatience: 1\n")
        asked = checks.check_workers
        monkeypatch.setattr(checks, "check_workers", lambda *of: (cluster.close(), asked(*of)))
        ran = command("run", "x.yaml", "--cluster", "cluster.yaml")
    assert ran.exit_code == 1, ran.stderr
    assert re.fullmatch(
        r"error: scheduler .* was lost .*the same command continues.*\n", ran.stderr
    )


@pytest.mark.parametrize("adapt", [None, specification.Adapt(minimum=2, maximum=2)])
def test_workers_that_end_are_requested_again(adapt):
    with LocalCluster(**{**THREADS, "n_workers": 2}) as cluster, cluster.get_client() as client:
        if adapt:
            cluster.adapt(minimum=2, maximum=2)
        client.wait_for_workers(2)
        spec = waiting(60).model_copy(update={"adapt": adapt})
        started, now = force(client, spec, cluster=cluster), time.monotonic()
        cluster.sync(started.replace, now)
        before = set(client.nthreads())
        cluster.sync(cluster.workers[0].close)
        until(lambda: len(cluster.scheduler_info["workers"]) == 1)  # hears later than the client
        cluster.sync(started.replace, now + 10)  # Dask itself waits for 15 s
        assert set(client.nthreads()) < before
        cluster.sync(started.replace, now + 20)
        until(lambda: len(client.nthreads()) == 2)
        assert set(client.nthreads()) - before


SIZES = {"scale": {"scale": 2}, "adapt": {"adapt": {"minimum": 1, "maximum": 2}}}
NO_PARTITION = "echo 'sbatch: error: no partition x' >&2; exit 1"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "sbatch", "said"),
    [
        (SIZES["scale"], NO_PARTITION, "sbatch: error: no part"),
        (SIZES["adapt"], None, "No such file or directory: 'sbatch'"),
    ],
    ids=["bad partition", "no sbatch"],
)
def test_jobs_that_are_refused_end_the_run_in_the_batch_systems_words(
    small, tmp_path, monkeypatch, sbatch, said, size
):
    pytest.importorskip("dask_jobqueue")
    if sbatch:
        script(tmp_path / "sbatch", sbatch)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}" if sbatch else str(tmp_path))
    monkeypatch.chdir(tmp_path)
    kwargs = {"cores": 1, "memory": "1GB", "interface": "lo"}
    named = {"module": "dask_jobqueue", "class": "SLURMCluster", "kwargs": kwargs, **size}
    spec = specification.ClusterSpec.model_validate(named)
    monkeypatch.setattr(workforce, "ASK_AGAIN_SECONDS", 1.0)
    ahead = [0.0]
    monkeypatch.setattr(
        workforce, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + ahead[0])
    )

    def lose_patience(event):
        if isinstance(event, events.WorkersMissing) and said in event.message:
            ahead[0] = 3600.0

    with pytest.raises(NoWorkersError, match=f"SLURMCluster: .*{re.escape(said)}"):
        sweep.run(small(), tmp_path / "s", cluster=spec, patience=60, listen=lose_patience)
    assert ahead[0] > 0


@pytest.fixture
def squeue(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return lambda lines: script(tmp_path / "squeue", lines)


class Jobs:
    """A cluster of batch jobs; awaited, it starts those that it lacks."""

    job_cls = SimpleNamespace(config_name="slurm")

    def __init__(self, numbers):
        self.closed, self.present = [], {}
        self.scheduler_info = {"workers": self.present}
        self.worker_spec = {name: {"group": ["-0", "-1"]} for name, _ in enumerate(numbers)}
        self.plan = self.worker_spec
        self.workers = {name: self._job(name, number) for name, number in enumerate(numbers)}

    def __await__(self):
        lacking = self.worker_spec.keys() - self.workers.keys()
        self.workers |= {name: self._job(name, "new") for name in lacking}
        return iter(())

    def _job(self, name, number):
        async def close():
            self.closed.append(name)

        return SimpleNamespace(job_id=number, status=None, close=close)


def test_jobs_that_slurm_no_longer_lists_are_given_up(squeue):
    squeue("printf '7\\n9\\n5\\n'")
    jobs = Jobs("789")
    watch = force(Client({}), waiting(60), cluster=jobs)
    asyncio.run(watch.replace(0.0))
    assert jobs.closed == [1]
    assert [job.job_id for job in jobs.workers.values()] == ["7", "9", "new"]
    assert "Jobs: none are there; " in watch.reason


@pytest.mark.parametrize("dask_drops_it", [False, True])
def test_an_ended_job_is_started_again_and_then_has_time_to_come(dask_drops_it):
    jobs = Jobs("7")
    jobs.job_cls = None
    watch = force(Client({}), waiting(60), cluster=jobs)
    jobs.present["address"] = {"name": "0-1"}
    asyncio.run(watch.replace(0.0))
    jobs.present.clear()
    asyncio.run(watch.replace(10.0))
    assert jobs.workers[0].job_id == "7"
    if dask_drops_it:
        del jobs.workers[0]
    for seconds in (20.0, 21.0):
        asyncio.run(watch.replace(seconds))
        assert jobs.closed == ([] if dask_drops_it else [0])
        assert jobs.workers[0].job_id == "new"


@pytest.mark.parametrize("lines", ["exit 1", "exec sleep 600", None])
def test_a_queue_that_does_not_answer_says_nothing_of_any_job(squeue, tmp_path, monkeypatch, lines):
    monkeypatch.setattr(workforce, "QUEUE_SECONDS", 0.1)
    if lines is None:
        monkeypatch.setenv("PATH", str(tmp_path / "none"))
    else:
        squeue(lines)
    jobs = Jobs("789")
    asyncio.run(force(Client({}), waiting(60), cluster=jobs).replace(0.0))
    assert jobs.closed == []


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_the_file_can_say_how_many_workers(size):
    spec = specification.ClusterSpec.model_validate(
        {"module": "dask.distributed", "class": "LocalCluster", "kwargs": THREADS, **size}
    )
    with clusters.connected(spec) as client:
        client.wait_for_workers(1, timeout=300)
        assert 1 <= len(client.nthreads()) <= 2


@pytest.mark.parametrize("patience", [-1.0, float("nan")])
def test_an_invalid_patience_is_refused(small, tmp_path, patience):
    with pytest.raises(ClusterError, match="expected a number of seconds"):
        sweep.run(small(), tmp_path / "s", patience=patience)
    assert not (tmp_path / "s").exists()
