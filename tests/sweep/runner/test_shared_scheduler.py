"""Several sweeps on one scheduler, and results that are missing."""

import json
from collections import Counter
from types import SimpleNamespace

import pytest
from faults import Fault, preloaded
from processes import ended, until
from written import SMALL, replicated

import sweep
from sweep.runner import session
from sweep.store.records import Status
from sweep.worker import perform as worker
from sweep.worker.perform import TaskOutcome

CELLS = 40


@pytest.mark.slow
def test_two_commands_on_one_scheduler_each_get_their_own(processes, tmp_path, records):
    gate = tmp_path / "gate"
    preload = preloaded(tmp_path, Fault("wait", "IP", until=str(gate)))
    address = processes.scheduler()
    for _ in range(2):
        processes.worker(address, "--preload", preload)
    commands = {}
    for d in (4, 8):
        (tmp_path / f"prefix-{d}.yaml").write_text(replicated(CELLS, d=d))
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


def test_names_of_runs_of_the_same_number_sort_by_their_time(monkeypatch):
    seconds = iter(range(1_900_000_000, 1_900_000_020))
    monkeypatch.setattr(session, "time", SimpleNamespace(time=lambda: next(seconds)))
    names = [session.name_run(["r000006-store-x-000000.jsonl"], "store") for _ in range(20)]
    assert names == sorted(names)
    assert {name[:7] for name in names} == {"r000007"}


def forgetful(task, place):
    """A client that returns none of the results requested."""
    return TaskOutcome(task.name, (), written=False)


def test_a_run_that_leaves_cells_pending_is_not_all_well(
    tmp_path, monkeypatch, command, on_the_test_cluster
):
    (tmp_path / "x.yaml").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "perform", forgetful)
        ran = command("run", "x.yaml", "--store", "s")
    assert ran.exit_code == 1, ran.output
    assert "pending: 4 cells; 'sweep run' continues" in ran.output
    assert command("run", "x.yaml", "--store", "s").exit_code == 0
