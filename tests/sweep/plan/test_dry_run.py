from io import StringIO

import pytest
from distributed import LocalCluster
from rich.console import Console
from written import block, experiment

from benchmarks.calibrate import measured
from sweep.cluster import specification
from sweep.cluster.clusters import count_threads
from sweep.errors import ClusterError
from sweep.plan.costs import read_calibration
from sweep.plan.dry_run import plan
from sweep.report import states
from workloads.operators import Drawn


def test_a_plan_counts_what_is_to_be_done(small):
    found = plan(small("[4, 64]", "[IP, CA, wCA-I, GM]"))
    assert found.cells == 8
    assert found.solves == 6  # with equal targets wCA-I is CA
    assert found.bounds == 2
    assert found.groups == {"prefix": {"d": 2, "mechanism": 4}}
    assert found.statuses == {"pending": 8}
    assert found.largest == "prefix(d=64)"
    assert found.largest_shape == (64, 64)
    assert found.worker_bytes > 8 * 64 * 64
    assert found.seconds > 0


def test_a_plan_knows_what_is_there_and_touches_nothing(swept, small, tmp_path):
    assert plan(small(), tmp_path / "s").solves == 4
    assert not (tmp_path / "s").exists()
    swept(tmp_path / "s")
    before = sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*"))
    again = plan(small(), tmp_path / "s")
    assert (again.solves, again.bounds, again.tasks, again.seconds) == (0, 0, 0, 0.0)
    assert again.statuses == {"ok": 4}
    assert plan(small("[2, 4, 8]"), tmp_path / "s").solves == 2
    assert sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*")) == before


def test_a_plan_says_when_a_matrix_is_too_large_to_write_out():
    found = plan(experiment(block({"name": "marginals", "attributes": 30, "values": 10}, "IP")))
    assert not found.built
    assert found.largest_shape[1] == 10**30


def test_a_plan_draws_no_random_matrix(monkeypatch):
    monkeypatch.setattr(Drawn, "array", property(lambda drawn: pytest.fail("it was drawn")))
    sizes = {"wdiscrete": 100_000, "random": 20_000, "wrelated": 40_000}
    mechanisms = ["IP", "GM", "CA", "HM", "optimal", "SM-II"]
    drawn = (block({"name": name, "d": d}, mechanisms) for name, d in sizes.items())
    found = plan(experiment(*drawn))
    assert (found.cells, found.largest_shape) == (18, (40_000, 20_000))


def test_mechanisms_of_marginals_alone_are_calibrated_too():
    """They solve none of the query matrices on which the others are measured."""
    found = measured(1e-10, ["ResidualPlanner"])
    assert found.keys() == {"ResidualPlanner"} <= read_calibration().keys()


@pytest.mark.parametrize(
    ("written", "threads"),
    [
        ("class: LocalCluster\nkwargs: {n_workers: 3, threads_per_worker: 2}", 6),
        ("class: SLURMCluster\nkwargs: {cores: 8, processes: 8, n_workers: 16}", 16),
        ("class: SLURMCluster\nkwargs: {cores: 8, processes: 2, jobs: 3}", 24),
        ("class: SLURMCluster\nkwargs: {cores: 8, processes: 4}\nscale: 10", 20),
        ("class: KubeCluster\nadapt: {minimum: 0, maximum: 7}", 7),
        ("class: SSHCluster\nkwargs: {hosts: [a, a, b], worker_options: {nthreads: 4}}", 8),
    ],
)
def test_the_workers_of_a_cluster_are_known_before_it_is_started(tmp_path, written, threads):
    file = tmp_path / "cluster.yaml"
    file.write_text(f"module: any\n{written}\n")
    assert count_threads(specification.load(file)) == threads


def test_a_running_scheduler_is_asked_for_its_workers(client):
    spec = specification.ClusterSpec(address=client.scheduler.address, insecure=True)
    with LocalCluster(**{**specification.LOCAL.kwargs, "n_workers": 0}) as none:
        empty = specification.ClusterSpec(address=none.scheduler_address, insecure=True)
        with pytest.raises(ClusterError, match="has no workers"):
            count_threads(empty)
    assert count_threads(spec) == 2


def test_a_plan_says_how_long_it_takes_on_a_cluster(command, refusal, here):
    (here / "c.yaml").write_text("module: m\nclass: C\nkwargs: {n_workers: 200}\n")
    words = ("plan", "vldb-table5", "--set", "d=512", "--cluster", "c.yaml")
    said = command(*words).output
    assert "with 200 workers of c.yaml, as fast as this machine" in said
    for unknown in ("", "kwargs: {n_workers: lots}\n"):
        (here / "c.yaml").write_text(f"module: m\nclass: C\n{unknown}")
        assert "does not say how many workers C has" in refusal(*words)


def test_a_plan_says_what_this_machine_has_too_little_memory_for(small, monkeypatch):
    def said():
        console = Console(width=200, record=True, file=StringIO())
        console.print(states.describe_plan(plan(small("[64]", "[optimal]")), "s", "here"))
        return console.export_text()

    assert "would refuse" not in said()
    monkeypatch.setattr("solvers.problem.memory.usable", lambda: 1e3)
    assert "this machine has 1.0 kB, and would refuse" in said()
