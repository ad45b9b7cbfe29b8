import os
import shutil
import signal
import socket
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from faults import Fault, injected
from written import block, experiment

import sweep
from solvers import privacy
from sweep import events
from sweep.errors import ClusterError, StoreError, SweepError
from sweep.experiment.canonical import Spec
from sweep.experiment.loading import parse_experiment
from sweep.grid import expansion
from sweep.grid.expansion import expand
from sweep.grid.grids import unite_cells
from sweep.plan import costs, solves, tasks
from sweep.plan.tasks import CellTask, Solve
from sweep.report.messages import describe_more
from sweep.runner import status
from sweep.runner.selection import select_cells
from sweep.state.stored import load_stored
from sweep.store import code, folder
from sweep.store.folder import About, Store, WorkerStore
from sweep.store.journal import Journal
from sweep.store.ledger import MAX_WORKER_DEATHS, Ledger
from sweep.store.paths import DiskPath
from sweep.store.records import Status
from sweep.worker import perform

NOWHERE = WorkerStore(Store(DiskPath("nowhere"), About(2, "", "")))


def states(dataset):
    return Counter(Status(int(code)).label for code in dataset.status.values.ravel())


def by_function(function, *mechanisms, arguments=None):
    """Solves of one workload that a Python function returns, by several mechanisms."""
    asked = Spec("entry-point", {"function": function, "arguments": arguments or {}})
    about = "p", f"{function} {arguments}", asked, Spec("uniform", {"value": 1.0})
    return tuple(
        Solve(f"s-{name}", *about, Spec(name), (CellTask(f"c-{name}"),)) for name in mechanisms
    )


def test_a_sweep_gives_the_closed_forms(client, small, tmp_path):
    heard = []
    dataset = sweep.run(small("[2, 4]"), tmp_path / "s", client, listen=heard.append)
    # prefix over d cells with unit targets: both mechanisms need d; the optimum for d = 2 is 4/3
    for mechanism in ("IP", "GM"):
        np.testing.assert_allclose(
            dataset.sel(mechanism=mechanism).squared_privacy_cost, [2.0, 4.0], rtol=1e-12
        )
    np.testing.assert_allclose(dataset.lower_bound.sel(d=2), 4 / 3, rtol=2e-4)
    np.testing.assert_allclose(dataset.lower_bound.sel(d=4), 1.758601, rtol=2e-4)
    assert (dataset.lower_bound.sel(d=2) <= 4 / 3 * (1 + 1e-12)).all()
    assert states(dataset) == {"ok": 4}
    assert [type(event) for event in heard[:1]] == [events.RunStarted]
    assert heard[-1].statuses == {"ok": 4}
    assert [e.share for e in heard if isinstance(e, events.Progressed)][-1] == 1.0


def test_a_second_run_does_nothing_and_needs_no_cluster(swept, client, small, tmp_path, records):
    swept(tmp_path / "s")
    before, cells = records(tmp_path / "s"), (tmp_path / "s" / "cells.json").stat()
    heard = []
    sweep.run(small(), tmp_path / "s", client="never touched", listen=heard.append)
    assert records(tmp_path / "s") == before
    assert (tmp_path / "s" / "cells.json").stat().st_ino == cells.st_ino
    assert heard[0].todo == heard[0].solves == heard[0].bounds == 0


def test_a_client_is_no_address(small, tmp_path):
    with pytest.raises(ClusterError, match="client is 'tcp://a:1'; expected"):
        sweep.run(small("[2]", "[IP]"), tmp_path / "s", client="tcp://a:1")


def test_cells_that_the_experiment_lost_are_hidden_and_kept(
    swept, client, small, tmp_path, records
):
    grown = swept(tmp_path / "s", "[2, 4]")
    heard = []
    less = sweep.run(small("[2]"), tmp_path / "s", client="never touched", listen=heard.append)
    assert less.squared_privacy_cost.equals(grown.squared_privacy_cost.sel(d=[2]))
    assert (heard[0].hidden, heard[0].todo) == (2, 0)
    (said,) = describe_more(heard[0])
    assert said.startswith("2 cells of earlier runs are no longer in the experiment")
    assert "--set d=" in said
    assert "sweep forget" in said
    for d in ([4], [2, 4]):
        again = sweep.run(small(str(d)), tmp_path / "s", client="never touched")
        assert again.squared_privacy_cost.equals(grown.squared_privacy_cost.sel(d=d))


ENDS = {
    "raise": ("failed", "ValueError: broken on purpose"),
    "exit": ("failed", "SystemExit: good-bye"),
    "interrupt": ("failed", "KeyboardInterrupt"),
    "unprintable": ("failed", "UnprintableError"),
    "inapplicable": ("not_applicable", "no line of answers here"),
}


def test_cells_that_fail_are_recorded_and_stop_nothing(client, small, tmp_path, records):
    """Even if their solver ends the process or cannot say why it fails."""
    workers, store = set(client.ncores()), tmp_path / "s"
    faults = [Fault(kind, "GM", times=1) for kind in ENDS]  # each strikes once, one after another
    with injected(client, tmp_path, *faults):
        dataset = sweep.run(small(d="[2, 4, 6, 8, 10]"), store, client)
    assert states(dataset) == {"ok": 5, "failed": 4, "not_applicable": 1}
    ended = [record for record in records(store) if record.status is not Status.OK]
    for label, error in ENDS.values():
        (record,) = (record for record in ended if record.error.startswith(error))
        assert record.status.label == label
        assert record.error in dataset.error.values.ravel()
        assert ("faults.py" in record.traceback) == (label == "failed")
    assert np.isnan(dataset.squared_privacy_cost.where(dataset.status != Status.OK)).all()
    assert set(client.ncores()) == workers

    sweep.run(small(d="[2, 4, 6, 8, 10]"), store, client="never touched")
    again = sweep.rerun(store, "mechanism == 'GM'", client)
    assert states(again) == {"ok": 10}
    assert Counter(again.attempt.values.ravel().tolist()) == {1: 5, 2: 5}


def test_a_workload_function_that_ends_the_process_fails_its_cells_alone(client):
    rude = by_function("faults:broken", "IP", arguments={"kind": "unprintable"})
    fine = by_function("numpy:eye", "GM", arguments={"N": 2})
    task = tasks.Task("t", (*rude, replace(fine[0], workload_key="fine")))
    future = client.submit(perform.perform, task, NOWHERE, pure=False)
    done = future.result(timeout=300)
    assert [record.status.label for record in done.records] == ["failed", "ok"]
    assert "UnprintableError" in done.records[0].error
    assert "faults.py" in done.records[0].traceback


@pytest.mark.slow
def test_a_cell_that_kills_its_workers_is_lost_alone(client, small, tmp_path, records):
    heard = []
    with injected(client, tmp_path, Fault("sigkill", "GM", first=0, times=10**6)):
        dataset = sweep.run(
            small("[2]", "[IP, GM, CA]"), tmp_path / "s", client, listen=heard.append
        )
    assert states(dataset) == {"ok": 2, "lost": 1}
    lost = dataset.sel(d=2, mechanism="GM")
    assert Status(int(lost.status)) is Status.LOST
    assert str(lost.error.item()).startswith("its worker died each time: ")
    assert any(isinstance(event, events.TaskRetried) for event in heard)
    assert sorted(r.deaths for r in records(tmp_path / "s")) == [0, 0, MAX_WORKER_DEATHS]
    heard.clear()
    again = sweep.run(
        small("[2]", "[IP, GM, CA]"), tmp_path / "s", "no client is needed", listen=heard.append
    )
    assert states(again) == {"ok": 2, "lost": 1}
    assert (heard[0].todo, heard[0].solves, heard[0].deadly) == (0, 0, 1)
    healed = sweep.rerun(tmp_path / "s", client=client)
    assert states(healed) == {"ok": 3}
    assert int(healed.attempt.sel(d=2, mechanism="GM")) == 1


ONE_IN_A_HURRY = "[IP, GM, {name: CA, time_limit: 0.2}]"


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("sigkill", {"ok": 3}),  # once, which costs nothing
        pytest.param("sleep", {"ok": 2, "timeout": 1}, marks=pytest.mark.slow),
        pytest.param("hold", {"ok": 2, "timeout": 1}, marks=pytest.mark.slow),
    ],
)
def test_a_worker_that_dies_once_costs_nothing_and_one_past_its_limit_a_timeout(
    client, small, tmp_path, records, kind, found
):
    """Even if C code holds the interpreter, so that no other thread of the worker runs."""
    with injected(client, tmp_path, Fault(kind, "CA", times=1, seconds=600), grace_s=3.0):
        dataset = sweep.run(small("[2]", ONE_IN_A_HURRY), tmp_path / "s", client)
    assert states(dataset) == found
    stopped = "did not stop within 3.4 s" in "".join(dataset.error.values.ravel())
    assert stopped == ("timeout" in found)
    assert Counter(Counter(r.cell for r in records(tmp_path / "s")).values()) == {1: 3}


def test_a_certificate_that_was_stopped_says_so_and_is_computed_again(client, small, tmp_path):
    store = tmp_path / "s"
    hurried = sweep.run(small("[16]", "[IP, GM]", more="time_limit: 0"), store, client)
    (said,) = status.status(store).certificate_errors
    assert "stopped at its time limit with a lower bound that holds" in said
    assert states(hurried) == {"ok": 2}
    renewed = sweep.rerun(store, time_limit=60, client=client)
    assert status.status(store).certificate_errors == ()
    assert (hurried.lower_bound < 2.905253 * (1 - 1e-4)).all()
    np.testing.assert_allclose(renewed.lower_bound, 2.905253, rtol=1e-4)
    assert (renewed.attempt == 1).all()


ENDLESS = """
time_limit: 0
blocks:
  - {workload: {name: entry-point, function: "faults:endless"}, mechanism: optimal, group: endless}
  - {workload: {name: prefix, d: 4}, mechanism: {name: optimal, time_limit: 600}, group: sound}
"""


@pytest.mark.slow
def test_a_workload_function_that_never_ends_is_a_timeout_alone(client, tmp_path, monkeypatch):
    monkeypatch.setattr(expansion, "LONGEST_CALL_SECONDS", 0.5)
    experiment = parse_experiment(ENDLESS, "x.yaml")
    with (
        injected(client, tmp_path, grace_s=3.0),
        pytest.warns(UserWarning, match="faults:endless.* was not made within 0.5 s"),
    ):
        tree = sweep.run(experiment, tmp_path / "s", client, allow_code=True)
    assert states(tree["endless"].dataset) == {"timeout": 1}
    assert states(tree["sound"].dataset) == {"ok": 1}


def test_chosen_cells_run_again_and_keep_what_was_ok(swept, client, tmp_path, records):
    before = swept(tmp_path / "s").load()
    heard = []
    with injected(client, tmp_path, Fault("raise", "GM")):
        after = sweep.rerun(
            tmp_path / "s", "mechanism == 'GM' and d > 2", client, listen=heard.append
        )
    (warning,) = (event.message for event in heard if isinstance(event, events.Warned))
    assert "failed this time and keep their earlier results: 1;" in warning
    assert Counter(r.status.label for r in records(tmp_path / "s")) == {"ok": 4, "failed": 1}
    np.testing.assert_array_equal(after.squared_privacy_cost, before.squared_privacy_cost)
    assert states(sweep.rerun(tmp_path / "s", "status == 'failed' or d == 2", client)) == {"ok": 4}


def test_conditions_speak_of_everything_that_a_cell_has(swept, tmp_path):
    # on prefixes IP costs d times min c, GM the number of queries, which is d as well
    swept(tmp_path / "s")
    stored = load_stored(tmp_path / "s")
    ledger = Journal(stored.store.journal).refresh()

    def chosen(where):
        return {
            (cell.mechanism.name, cell.coords["d"]) for cell in select_cells(stored, ledger, where)
        }

    assert chosen("squared_privacy_cost > 3") == {("IP", 4), ("GM", 4)}
    assert chosen("variance_ratio == 1 and mechanism == 'IP'") == {("IP", 2), ("IP", 4)}
    assert chosen(f"host == '{socket.gethostname()}' and runtime_s < 1000 and attempt == 1") == {
        (mechanism, d) for mechanism in ("IP", "GM") for d in (2, 4)
    }
    with pytest.raises(SweepError, match="holds for no cell"):
        chosen("iterations > 0 or gap < -1")  # closed forms take none
    with pytest.raises(SweepError, match="has no value for each cell"):
        chosen("epsilon_at_targets < 1")
    with pytest.raises(SweepError, match="did you mean 'variance_ratio'"):
        chosen("variance_ration > 1")


def test_arrays_are_kept_on_request_and_loaded_lazily(client, small, tmp_path):
    experiment = small("[4]", more="keep: [query_variances, privacy_profile, covariance]")
    dataset = sweep.run(experiment, tmp_path / "s", client)
    for again in (False, True):
        if again:  # in a store without their folder
            shutil.rmtree(tmp_path / "s" / "arrays")
            sweep.rerun(tmp_path / "s", "mechanism == 'IP'", client)
        kept = sweep.arrays(tmp_path / "s", dataset.solve.sel(d=4, mechanism="IP").item())
        # IP on prefix d=4: the last query sums 4 cells of variance 1/4
        np.testing.assert_allclose(kept.query_variances, [0.25, 0.5, 0.75, 1.0])
        np.testing.assert_allclose(kept.privacy_profile, 4.0)
        np.testing.assert_allclose(kept.covariance, 0.25 * np.eye(4))
    with pytest.raises(StoreError, match="has no arrays"):
        sweep.arrays(tmp_path / "s", "no such solve")


def test_the_average_error_at_a_budget_of_gaussian_and_pure_mechanisms(client, small, tmp_path):
    path = small("4", "[IP, {name: laplace, on: data}]")
    found = sweep.run(path, tmp_path / "s", client).average_squared_error_at_budget.squeeze()
    # prefix sums of noise of variance v on every cell: (1 + 2 + 3 + 4)/4 v
    gaussian = 2.5 / privacy.privacy_cost(1.0, 1e-5) ** 2
    np.testing.assert_allclose(found[0], gaussian, rtol=1e-9)
    # a Laplace number of scale b at ε: δ = 1 - exp((ε - 1/b)/2), here for the 1/b of ε = 1
    rate = 1 - 2 * np.log1p(-1e-5)
    assert 1 <= float(found[1]) / (2.5 * 2 / rate**2) < 1 + 1e-5  # an upper bound


def test_noise_is_simulated_from_the_cell_alone(client, small, tmp_path):
    experiment = small("[2, 4]", more="simulate: 4000")
    one = sweep.run(experiment, tmp_path / "1", client)
    two = sweep.run(small("[4]", more="simulate: 4000"), tmp_path / "2", client)
    np.testing.assert_array_equal(
        one.empirical_variance_ratio.sel(d=4), two.empirical_variance_ratio.sel(d=4)
    )
    np.testing.assert_allclose(one.empirical_variance_ratio, 1.0, atol=0.2)
    assert (one.empirical_variance_ratio != 1.0).all()


def test_cells_that_timed_out_get_longer_and_lose_nothing(client, tmp_path):
    ranges = block({"name": "range", "d": 24}, ["IP", "optimal"])
    hurried = experiment(ranges, reference="optimal", time_limit=1e-6)
    short = sweep.run(hurried, tmp_path / "s", client)
    stopped = short.sel(mechanism="optimal")
    assert stopped.status == Status.TIMEOUT
    assert stopped.gap > 1e-6
    assert "--time-limit" in str(stopped.error.values)
    longer = sweep.rerun(tmp_path / "s", client=client, time_limit=60.0)
    assert np.all(longer.status == Status.OK)
    assert longer.sel(mechanism="optimal").gap <= 1e-6
    assert longer.attempt.values.tolist() == [1, 2]


def test_a_good_result_keeps_its_arrays_if_it_is_stopped_later(client, small, tmp_path):
    experiment = small("[64]", "[optimal]", more="keep: [query_variances]")
    (solve,) = sweep.run(experiment, tmp_path / "s", client).solve.values.flat
    before = sweep.arrays(tmp_path / "s", solve).query_variances.values
    after = sweep.rerun(tmp_path / "s", "d == 64", client, time_limit=1e-6)
    assert (after.status == Status.OK).all()
    kept = sweep.arrays(tmp_path / "s", solve).query_variances.values
    np.testing.assert_array_equal(kept, before)


def many(number=8, **facts):
    """Solves of GM, all in one task."""
    one = by_function("numpy:eye", "GM", arguments={"N": 2})[0]
    made = (replace(one, key=f"s{n}", cells=(CellTask(f"c{n}"),), **facts) for n in range(number))
    return tasks.Task("r000001-s-a-000000", tuple(made))


@pytest.mark.parametrize("chain", ["", "chained"])
def test_what_was_done_a_little_before_a_worker_was_killed_is_not_done_again(
    client, tmp_path, records, chain
):
    made = folder.create(tmp_path / "s", "small")
    place, task = WorkerStore(made, interval=0.0), many(chain=chain)
    # the solve that begins after five others waits for their records, then kills its worker
    dies = (Fault(kind, "GM", 5, 1, until=str(made.journal)) for kind in ("recorded", "sigkill"))
    with injected(client, tmp_path, *dies):
        done = client.submit(perform.perform, task, place, pure=False).result(timeout=300)
    assert done.written
    assert Counter(r.cell for r in done.records) == {f"c{n}": 1 for n in range(8)}
    assert (tmp_path / "fault-0").stat().st_size == 8 + 1
    assert Counter(r.cell for r in records(made.path)) == {f"c{n}": 1 for n in range(8)}
    assert perform.perform(task, place).records == done.records
    parts = [perform.perform(part, place) for part in task.alone()]
    assert [record for part in parts for record in part.records] == [*done.records]


def test_a_cell_whose_arrays_the_disk_does_not_take_is_solved_by_the_next_run(
    client, small, tmp_path
):
    experiment, store = small("[4]", "[IP]", more="keep: [covariance]"), tmp_path / "s"

    def obstruct(event):
        if isinstance(event, events.RunStarted):
            (store / "arrays").rmdir()
            (store / "arrays").touch()

    lost = sweep.run(experiment, store, client, listen=obstruct)
    assert lost.status.values.ravel().tolist() == [Status.LOST]
    assert np.isnan(lost.squared_privacy_cost).all()
    assert "arrays cannot be kept: " in lost.error.item()
    (store / "arrays").unlink()
    found = sweep.run(experiment, store, client)
    assert found.status.values.ravel().tolist() == [Status.OK]
    assert sweep.arrays(store, found.solve.item()).covariance.shape == (4, 4)


def test_a_dataset_that_other_code_has_made_is_made_again(client, small, tmp_path, monkeypatch):
    """Its budgets are computed when it is made, and answers are judged."""
    heard = []
    sweep.run(small("[2]", "[IP]"), tmp_path / "s", client)
    for code_now in ("before", "after"):
        monkeypatch.setattr(code, "project", lambda code_now=code_now: code_now)
        for _ in range(2):
            sweep.run(small("[2]", "[IP]"), tmp_path / "s", client, listen=heard.append)
    assert len([event for event in heard if isinstance(event, events.DatasetWritten)]) == 2


def test_arrays_that_cannot_be_kept_fail_their_cells_with_a_sentence(tmp_path, small):
    place = folder.create(tmp_path / "s", "small")
    cells = unite_cells(expand(small()))
    solving = solves.list_solves(cells, Ledger(), costs.Costs())
    elsewhere = WorkerStore(
        replace(place, about=replace(place.about, identity="else")), keep=("covariance",)
    )
    done = perform.perform(tasks.Task("r1", tuple(solving)), elsewhere)
    assert {record.status.label for record in done.records} == {"failed"}
    assert all("put the store on a disk" in record.error for record in done.records)
    assert not list((place.path / "arrays").iterdir())


def test_a_second_interrupt_waits_for_the_last_dataset(client, small, tmp_path):
    heard, before = [], signal.getsignal(signal.SIGINT)

    def impatient(event):
        interrupted = any(isinstance(one, events.CellsDone) for one in heard)
        heard.append(event)
        if isinstance(event, events.CellsDone):
            raise KeyboardInterrupt
        if interrupted and isinstance(event, events.DatasetWritten):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        sweep.run(small(), tmp_path / "s", client, listen=impatient)
    assert isinstance(heard[-1], events.RunEnded)
    assert heard[-1].interrupted
    assert signal.getsignal(signal.SIGINT) is before
