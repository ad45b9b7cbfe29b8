"""Several sweeps on one scheduler, and results that nobody asked for."""

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest
from distributed import Client
from faults import Fault, injected

import sweep
from sweep import events
from sweep.experiment.loading import parse_experiment
from sweep.runner import flight
from sweep.store.records import CellRecord, Status
from sweep.worker.perform import TaskOutcome, perform


def many(d):
    return parse_experiment(
        "reference: IP\nblocks: [{workload: {name: prefix, d: "
        f"{d}}}, mechanism: IP, replicates: 40}}]\n",
        f"prefix-{d}.yaml",
    )


def test_two_sweeps_on_one_scheduler_each_get_their_own(client, tmp_path, records):
    both = Barrier(2)

    def begin_together(event):
        if isinstance(event, events.RunStarted):
            both.wait(timeout=30)

    def swept(d):
        with Client(client.scheduler.address) as own:
            return sweep.run(many(d), tmp_path / str(d), own, listen=begin_together)

    with (
        injected(client, tmp_path, Fault("sleep", "IP", seconds=0.02)),
        ThreadPoolExecutor(2) as threads,
    ):
        found = dict(zip((4, 8), threads.map(swept, (4, 8)), strict=True))
    for d, dataset in found.items():
        assert (dataset.status == Status.OK).all()
        # prefix over d cells with unit targets: IP needs d
        assert (abs(dataset.squared_privacy_cost - d) < 1e-9).all()
        assert Counter(Counter(r.cell for r in records(tmp_path / str(d))).values()) == {1: 40}


def test_names_of_runs_sort_in_their_order(client, small, tmp_path):
    for d in ("[2]", "[2, 4]", "[2, 4, 8]"):
        sweep.run(small(d), tmp_path / "s", client)
    names = sorted(path.name for path in (tmp_path / "s" / "journal").glob("*.jsonl"))
    runs = list(dict.fromkeys(name[:7] for name in names))
    assert runs == ["r000001", "r000002", "r000003"]
    assert all(re.match(r"r\d{6}-[0-9a-f]{8}-[0-9a-f]{8}-\d{6}", name) for name in names)


def strangers(task, place):
    """Does the task, and hands it back with the cells of another store."""
    done = perform(task, replace(place, identity="none"))
    cells = [record for record in done.records if isinstance(record, CellRecord)]
    return TaskOutcome(task.name, tuple(replace(r, cell="elsewhere") for r in cells), written=False)


def forgetful(task, place):
    """Hands back nothing of what it was asked for."""
    return TaskOutcome(task.name, (), written=False)


def test_results_that_were_not_asked_for_are_refused(client, tmp_path, records, monkeypatch):
    monkeypatch.setattr(flight, "perform", strangers)
    dataset = sweep.run(many(4), tmp_path / "s", client)
    assert (dataset.status == Status.LOST).all()
    (said,) = set(dataset.error.values.ravel())
    assert said == "the cluster returned results of something else; run again to go on"
    kept = records(tmp_path / "s")
    assert "elsewhere" not in {record.cell for record in kept}
    assert {record.deaths for record in kept if isinstance(record, CellRecord)} == {0}


def test_a_run_that_leaves_cells_pending_is_not_all_well(
    tmp_path, monkeypatch, command, on_the_test_cluster
):
    (tmp_path / "x.yaml").write_text(
        "reference: IP\nblocks: [{workload: {name: prefix, d: [2, 4]}, mechanism: IP}]\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flight, "perform", forgetful)
        ran = command("run", "x.yaml", "--store", "s")
    assert ran.exit_code == 1, ran.output
    assert "pending: 2 cells; 'sweep run' goes on" in ran.output
    assert command("run", "x.yaml", "--store", "s").exit_code == 0
