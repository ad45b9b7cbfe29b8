"""Several sweeps on one scheduler, and results that nobody asked for."""

import json
import re
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from faults import Fault, preloaded
from processes import ended, until

import sweep
from sweep.experiment.loading import parse_experiment
from sweep.runner import session
from sweep.store.records import CellRecord, Status
from sweep.worker import perform as worker
from sweep.worker.perform import TaskOutcome, perform

CELLS = 40


def many(d):
    return parse_experiment(
        "reference: IP\nblocks: [{workload: {name: prefix, d: "
        f"{d}}}, mechanism: IP, replicates: {CELLS}}}]\n",
        f"prefix-{d}.yaml",
    )


@pytest.mark.slow
def test_two_commands_on_one_scheduler_each_get_their_own(processes, tmp_path, records):
    gate = tmp_path / "gate"
    preload = preloaded(tmp_path, Fault("wait", "IP", until=str(gate)))
    address = processes.scheduler()
    for _ in range(2):
        processes.worker(address, "--preload", preload)
    commands = {}
    for d in (4, 8):
        (tmp_path / f"prefix-{d}.yaml").write_text(many(d).text)
        words = ("run", f"prefix-{d}.yaml", "--store", f"s{d}", "--cluster", "cluster.yaml")
        commands[d] = processes.command(*words)
    for d, command in commands.items():  # each has sent its tasks before a task of either ends
        log = tmp_path / f"s{d}" / "runs.jsonl"
        until(lambda log=log: log.exists() and "ClusterReady" in log.read_text(), command)
    gate.touch()
    for d, command in commands.items():
        ended(command)
        store = tmp_path / f"s{d}"
        dataset = sweep.open(store)
        assert (dataset.status == Status.OK).all()
        # prefix over d cells with unit targets: IP needs d
        assert (abs(dataset.squared_privacy_cost - d) < 1e-9).all()
        asked = set(json.loads((store / "cells.json").read_text()))
        assert Counter(r.cell for r in records(store)) == dict.fromkeys(asked, 1)
        assert len(asked) == CELLS
    assert (tmp_path / "fault-0").stat().st_size == 2 * CELLS


def test_names_of_runs_sort_in_their_order(client, small, tmp_path):
    for d in ("[2]", "[2, 4]", "[2, 4, 8]"):
        sweep.run(small(d), tmp_path / "s", client)
    names = sorted(path.name for path in (tmp_path / "s" / "journal").glob("*.jsonl"))
    runs = list(dict.fromkeys(name[:7] for name in names))
    assert runs == ["r000001", "r000002", "r000003"]
    assert all(re.match(r"r\d{6}-[0-9a-f]{8}-[0-9a-f]{16}-\d{6}", name) for name in names)


def test_names_of_runs_of_the_same_number_sort_by_their_time(monkeypatch):
    seconds = iter(range(1_900_000_000, 1_900_000_020))
    monkeypatch.setattr(session, "time", SimpleNamespace(time=lambda: next(seconds)))
    names = [session._run_name(["r000006-store-x-000000.jsonl"], "store") for _ in range(20)]
    assert names == sorted(names)
    assert {name[:7] for name in names} == {"r000007"}


def strangers(task, place):
    """Does the task, and hands it back with the cells of another store."""
    done = perform(task, replace(place, identity="none"))
    cells = [record for record in done.records if isinstance(record, CellRecord)]
    return TaskOutcome(task.name, tuple(replace(r, cell="elsewhere") for r in cells), written=False)


def forgetful(task, place):
    """Hands back nothing of what it was asked for."""
    return TaskOutcome(task.name, (), written=False)


def test_results_that_were_not_asked_for_are_refused(client, tmp_path, records, monkeypatch):
    monkeypatch.setattr(worker, "perform", strangers)
    dataset = sweep.run(many(4), tmp_path / "s", client)
    assert (dataset.status == Status.LOST).all()
    (said,) = set(dataset.error.values.ravel())
    assert said == "the cluster returned results of another task; run again to continue"
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
        patch.setattr(worker, "perform", forgetful)
        ran = command("run", "x.yaml", "--store", "s")
    assert ran.exit_code == 1, ran.output
    assert "pending: 2 cells; 'sweep run' continues" in ran.output
    assert command("run", "x.yaml", "--store", "s").exit_code == 0
