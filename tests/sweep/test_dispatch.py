"""What becomes of tasks: retried, tried alone, given up; and every way a Dask future can end."""

import asyncio
import pickle
import re

import pytest
from distributed import KilledWorker, wait
from faults import Fault, preloaded, search_path

import sweep
from sweep import events
from sweep.cluster import clusters, specification
from sweep.grid.cells import MechanismSpec, Spec, WorkloadSpec
from sweep.plan.tasks import Bound, CellTask, Solve, Task
from sweep.runner import dispatch
from sweep.runner.dispatch import InFlight, Suspects
from sweep.store import folder
from sweep.store.journal import write_segment
from sweep.store.ledger import MAX_WORKER_DEATHS
from sweep.store.records import BoundRecord, CellRecord, Status
from sweep.store.worker_store import WorkerStore
from sweep.worker import perform
from sweep.worker.perform import Refusal


def task(name, *problems):
    prefix, uniform = WorkloadSpec("prefix", {"d": 2}), Spec("uniform")
    return Task(name, tuple(Bound(problem, "key", prefix, uniform) for problem in problems))


@pytest.fixture
def settled(monkeypatch):
    """Workers are known for long enough."""
    monkeypatch.setattr("sweep.runner.dispatch._SETTLED_SECONDS", 0.0)


def test_each_item_has_a_worker_of_its_own_and_all_workers_have_one(settled):
    suspects = Suspects()
    suspects.add(task("many", "p", "q", "r"))
    suspects.add(task("one", "s"))
    first = suspects.next_trials({"a": 0, "b": 0, "c": 0}, busy=True)
    assert [worker for _, worker in first] == ["a", "b", "c"]
    assert [[item.problem for item in one.items] for one, _ in first] == [["p"], ["q"], ["r"]]
    assert not suspects.next_trials({"a": 0, "b": 0, "c": 0}, busy=True)
    assert not suspects.end_trial(first[1][0], 0)
    (second,) = suspects.next_trials({"a": 0, "b": 0, "c": 0}, busy=True)
    assert (second[0].items[0].problem, second[1]) == ("s", "b")
    assert not suspects


def test_only_what_dies_alone_is_given_up(settled):
    suspects = Suspects()
    suspects.add(task("many", "p", "q"))
    ((killer, _), (innocent, _)) = suspects.next_trials({"a": 0, "b": 0}, busy=True)
    assert not suspects.end_trial(innocent, 0)
    for _ in range(MAX_WORKER_DEATHS - 1):
        assert not suspects.end_trial(killer, 1)
        suspects.add(killer)
        ((killer, _),) = suspects.next_trials({"c": 0}, busy=True)
    assert suspects.end_trial(killer, 1)
    assert (suspects.deaths(killer), suspects.deaths(innocent)) == (MAX_WORKER_DEATHS, 0)


def test_a_worker_that_has_just_come_or_has_other_work_is_left_alone(monkeypatch):
    suspects = Suspects()
    suspects.add(task("one", "p"))
    assert not suspects.next_trials({"new": 0}, busy=False)
    monkeypatch.setattr("sweep.runner.dispatch._SETTLED_SECONDS", 0.0)
    assert not suspects.next_trials({"new": 1}, busy=True)
    assert suspects.next_trials({"new": 1}, busy=False)


def dispatching(client, view, settlings, refuse=None):
    def accept(*settled):
        settlings.append(settled)

    return dispatch.Dispatch(client, (), view, accept, None, None, refuse, events.ignore)


class Gone:
    """A client whose only worker is gone, and whose scheduler knows nothing more."""

    status, loop = "running", None

    def submit(self, *about, **more):
        return None


@pytest.fixture
def trial(tmp_path, settled):
    """A task that two workers died of, on trial with a third, and what becomes of it."""
    place = folder.create(tmp_path / "s", "small")
    view, settlings = WorkerStore(str(place.path), place.identity), []
    made = dispatching(Gone(), view, settlings)
    made._suspects.add(task("one", "p"))
    for _ in range(MAX_WORKER_DEATHS):
        ((last, worker),) = made._suspects.next_trials({"w": 0}, busy=False)
        made._in_flight.submit(last, worker)
        if made._suspects.deaths(last) < MAX_WORKER_DEATHS - 1:
            made._in_flight.tasks.clear()
            made._suspects.end_trial(last, 1)
            made._suspects.add(last)
    return made, last, settlings


def test_a_result_that_was_recorded_before_its_worker_died_counts(trial):
    made, last, settlings = trial
    record = BoundRecord("p", 1.0)
    write_segment(made._in_flight.view.journal, last.name, [record])
    made._stranded(last, 1)
    ((about, done),) = settlings
    assert (about, done.records, done.written) == (last, (record,), True)


def test_deaths_that_the_scheduler_does_not_tell_of_are_none(trial, monkeypatch):
    made, last, _ = trial
    answers = {dispatch._loads: {"other": 0}, dispatch._suspicions: None}
    monkeypatch.setattr(made._in_flight, "_answer", lambda ask, *about: answers[ask])
    assert made._in_flight.stranded() == []
    assert last.name in made._in_flight.tasks
    answers[dispatch._suspicions] = {last.name: 1}
    monkeypatch.setattr(made._in_flight, "_next_look", 0.0)
    assert made._in_flight.stranded() == [(last, 1)]


def test_a_trial_that_the_scheduler_drops_is_tried_again_alone(trial):
    made, last, settlings = trial
    made._handle(last, dispatch.DROPPED)
    assert settlings == []
    assert bool(made._suspects)
    assert made._suspects.deaths(last) == MAX_WORKER_DEATHS - 1


class Elsewhere:
    """A client that sends tasks nowhere, and remembers their names."""

    status, loop = "running", None

    def __init__(self):
        self.sent = []

    def submit(self, *about, key, **more):
        self.sent.append(key)


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (Refusal("worker", "it differs"), "workers refused it each time, .* because it differs;"),
        (dispatch.DROPPED, "the scheduler dropped it each time;"),
    ],
)
def test_a_task_that_no_worker_tries_is_sent_again_but_not_for_ever(
    tmp_path, monkeypatch, end, said
):
    monkeypatch.setattr(dispatch, "_MOST_REPEATS", 3)
    place, client, settlings = folder.create(tmp_path / "s", "small"), Elsewhere(), []
    view, refusals = WorkerStore(str(place.path), place.identity), []
    made = dispatching(client, view, settlings, lambda *refused: refusals.append(refused))
    prefix, uniform = WorkloadSpec("prefix", {"d": 2}), Spec("uniform")
    solve = Solve("s", "p", "key", prefix, uniform, MechanismSpec("IP"), (CellTask("c"),))
    sent = Task("one", (solve,), ("one-a", "one-b", "one-c", "one-d"))
    while not settlings:
        made._handle(sent, end)
        sent = sent.again()
        assert len(client.sent) <= 3
    ((_, outcome),) = settlings
    assert len(client.sent) == len(set(client.sent)) == 3
    assert len(refusals) == (4 if isinstance(end, Refusal) else 0)
    (record,) = outcome.records
    assert (record.status, record.deaths) == (Status.LOST, 0)
    assert re.match(said, record.error)


def local(**more):
    """The default cluster with other arguments."""
    return specification.LOCAL.model_copy(update={"kwargs": {**specification.LOCAL.kwargs, **more}})


@pytest.mark.slow
def test_cells_that_crash_are_tried_side_by_side_three_times_alone(small, tmp_path, monkeypatch):
    (folder := tmp_path / "meeting").mkdir()
    faults = [Fault("meet", name, until=str(folder)) for name in ("GM", "CA")]
    monkeypatch.setenv("PYTHONPATH", search_path())
    preload = preloaded(tmp_path, *faults, Fault("none", "IP"))
    experiment, spec = small("[4]", "[IP, GM, CA]"), local(n_workers=2, preload=[str(preload)])
    dataset = sweep.run(experiment, tmp_path / "s", cluster=spec)
    found = dataset.status.sel(d=4).to_series().to_dict()
    assert found == {"IP": Status.OK, "GM": Status.LOST, "CA": Status.LOST}
    for name in ("GM", "CA"):
        notes = (folder / name).read_text().split()
        assert MAX_WORKER_DEATHS <= len(notes) <= MAX_WORKER_DEATHS + clusters.ALLOWED_FAILURES + 1
        assert "met" in notes[-MAX_WORKER_DEATHS:], (
            notes
        )  # on trial at the same time as the other one
    sizes = [path.stat().st_size for path in tmp_path.glob("fault-?")]
    sweep.run(experiment, tmp_path / "s", "no client is needed")
    assert [path.stat().st_size for path in tmp_path.glob("fault-?")] == sizes


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["segfault", "memory"])
def test_a_cell_that_crashes_is_lost_alone_and_left_alone(
    small, tmp_path, records, monkeypatch, kind
):
    monkeypatch.setenv("PYTHONPATH", search_path())
    preload = preloaded(tmp_path, Fault(kind, "GM"))
    more = {"n_workers": 2, "memory_limit": "900MiB", "preload": [str(preload)]}
    spec = local(**more)
    experiment, heard = small("[4]", "[IP, GM, CA]"), []
    dataset = sweep.run(experiment, tmp_path / "s", cluster=spec)
    status = dataset.status.sel(d=4).to_series().to_dict()
    assert status == {"IP": Status.OK, "GM": Status.LOST, "CA": Status.OK}
    (lost,) = (r for r in records(tmp_path / "s") if isinstance(r, CellRecord) and r.deaths)
    assert lost.deaths == MAX_WORKER_DEATHS
    assert lost.error.startswith("its worker died each time: ")
    sweep.run(experiment, tmp_path / "s", "no client is needed", listen=heard.append)
    (started,) = (event for event in heard if isinstance(event, events.RunStarted))
    assert (started.todo, started.deadly) == (0, 1)


class UnsayableError(Exception):
    """Its text cannot be had."""

    def __str__(self):
        raise ValueError("no text")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_what_a_task_raised_is_looked_at_and_never_raised(client, error):
    class Ended:
        client, status, key = None, "error", "k"

        async def exception(self, *, asynchronous):
            return error

    made = InFlight(client, None)
    assert made._answer(dispatch._error, client, Ended()) is error


def test_a_task_that_cannot_be_read_is_refused_by_its_worker(client):
    parcel = perform.parcel(task("one", "p"), None).replace(b"zlib", b"zlip")
    future = client.submit(pickle.loads, parcel, pure=False)
    wait(future)
    refusal = InFlight(client, None)._answer(dispatch._error, client, future)
    assert isinstance(refusal, Refusal)
    assert refusal.worker in client.nthreads()
    assert "it has no module 'zlip'; add the module's folder to the PYTHONPATH" in refusal.message


@pytest.mark.parametrize(
    "error", [KilledWorker("k", None, 1), SystemExit(3), KeyboardInterrupt(), OSError("gone")]
)
def test_what_gathering_raises_stays_there(client, monkeypatch, error):
    async def gather(futures, errors, asynchronous):
        raise error

    future = client.submit(int, 3, pure=False)
    monkeypatch.setattr(client, "gather", gather)
    assert InFlight(client, None)._fetch([future, future]) == {}
    assert future.result() == 3


def test_the_reason_is_a_sentence_whatever_the_error():
    assert dispatch._reason(UnsayableError()) == "the cluster could not run it: UnsayableError"
    assert "SystemExit: 3" in dispatch._reason(SystemExit(3))
