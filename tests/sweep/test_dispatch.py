"""The fate of tasks: retried, tried alone, given up; and every way a Dask future can end."""

import asyncio
import pickle
import re
from types import SimpleNamespace

import pytest
from distributed import KilledWorker
from faults import Fault, preloaded, search_path
from processes import until

import sweep
from sweep import events
from sweep.cluster import specification
from sweep.experiment.canonical import Spec
from sweep.plan.tasks import CellTask, Solve, Task
from sweep.runner import dispatch
from sweep.runner.dispatch import InFlight, Loss, Suspects
from sweep.store import folder
from sweep.store.folder import WorkerStore
from sweep.store.journal import write_segment
from sweep.store.ledger import MAX_WORKER_DEATHS
from sweep.store.records import CellRecord, Status
from sweep.worker import perform
from sweep.worker.perform import Refusal, TaskOutcome

PREFIX, UNIFORM = Spec("prefix", {"d": 2}), Spec("uniform")


def task(name, *cells):
    """Solves of IP, each for one cell."""
    ip = Spec("IP")
    return Task(
        name, tuple(Solve(c, "p", "key", PREFIX, UNIFORM, ip, (CellTask(c),)) for c in cells)
    )


class Client:
    """A client of a scheduler that behaves as the test says."""

    status, loop = "running", None

    def __init__(self):
        self.sent, self.cancelled = [], []

    def submit(self, *call, key, **how):
        self.sent.append(key)
        return SimpleNamespace(key=key, add_done_callback=lambda callback: None)

    def sync(self, ask, question, callback_timeout):
        return ask(question)

    def run_on_scheduler(self, question):
        raise OSError("the scheduler does not answer")

    def cancel(self, futures, *, force):
        self.cancelled += [future.key for future in futures]


@pytest.fixture
def dispatched(tmp_path, monkeypatch):
    """A dispatch with a fake client, and the tasks that it settles and refuses."""
    monkeypatch.setattr(dispatch, "_SETTLED_SECONDS", 0.0)
    place = folder.create(tmp_path / "s", "small")
    settled, refused = [], []
    made = dispatch.Dispatch(
        Client(),
        (),
        WorkerStore(place),
        lambda task, done: settled.append((task, done)),
        None,
        None,
        lambda *about: refused.append(about),
        events.ignore,
    )
    made.settled, made.refused = settled, refused
    return made


def try_alone(made, *workers):
    """Put the suspects on trial, each with its own worker."""
    pairs = made._suspects.next_trials(dict.fromkeys(workers, ()), busy=True)
    for tried, worker in pairs:
        made._in_flight.submit(tried, worker)
    return pairs


def end(made, tried, how):
    made._in_flight._take(tried.name)
    made._handle(tried, how)


def test_each_solve_has_a_worker_of_its_own_and_all_workers_have_one(dispatched):
    suspects = dispatched._suspects
    suspects.add(task("many", "a", "b", "c"))
    suspects.add(task("one", "d"))
    loads = {"x": (), "y": (), "z": ()}
    first = suspects.next_trials(loads, busy=True)
    assert [worker for _, worker in first] == ["x", "y", "z"]
    assert [[solve.key for solve in one.solves] for one, _ in first] == [["a"], ["b"], ["c"]]
    assert not suspects.next_trials(loads, busy=True)
    assert suspects.end_trial(first[1][0], 0)
    ((last, worker),) = suspects.next_trials(loads, busy=True)
    assert (last.solves[0].key, worker) == ("d", "y")
    assert not suspects.waiting


def test_a_worker_that_has_just_come_or_has_other_work_is_left_alone(monkeypatch):
    suspects = Suspects()
    suspects.add(task("one", "a"))
    assert not suspects.next_trials({"new": ()}, busy=False)
    monkeypatch.setattr(dispatch, "_SETTLED_SECONDS", 0.0)
    assert not suspects.next_trials({"new": ["other"]}, busy=True)
    assert suspects.next_trials({"new": ["other"]}, busy=False)


def test_only_solves_that_kill_their_workers_alone_are_given_up(dispatched):
    both = task("both", "killer", "innocent")
    dispatched._in_flight.submit(both)
    end(dispatched, both, Loss(2))
    (killer, _), (innocent, _) = try_alone(dispatched, "x", "y")
    done = TaskOutcome(innocent.name, (), written=True)
    end(dispatched, innocent, done)
    for _ in range(MAX_WORKER_DEATHS - 1):
        end(dispatched, killer, Loss(1))
        ((killer, _),) = try_alone(dispatched, "z")
    end(dispatched, killer, Loss())  # which is no death
    ((killer, _),) = try_alone(dispatched, "z")
    assert dispatched.settled == [(innocent, done)]
    end(dispatched, killer, Loss(1))
    (_, (last, outcome)) = dispatched.settled
    (record,) = outcome.records
    assert (last, record.cell, record.status) == (killer, "killer", Status.LOST)
    assert record.deaths == MAX_WORKER_DEATHS
    assert record.error.startswith("its worker died each time: ")


def test_a_result_that_was_recorded_before_its_worker_died_counts(dispatched):
    one = task("one", "a")
    record = CellRecord("a", "a", "p", Status.OK)
    write_segment(dispatched._in_flight.worker_store.store.journal, f"{one.name}+000", [record])
    dispatched._give_up(one.again(), "it died")
    ((_, done),) = dispatched.settled
    assert done.records == (record,)


def test_a_task_whose_workers_are_gone_waits_until_the_scheduler_says_how(dispatched):
    in_flight, suspects = dispatched._in_flight, dispatched._suspects
    suspects.add(task("one", "a"))
    ((one, _),) = try_alone(dispatched, "gone")
    dispatched._look()
    assert one.name in in_flight.tasks
    workers = {"other": SimpleNamespace(processing=[])}
    scheduler = SimpleNamespace(workers=workers, tasks={one.name: SimpleNamespace(suspicious=1)})
    in_flight.client.run_on_scheduler = lambda question: question(scheduler)
    dispatched._look()
    assert in_flight.client.cancelled == [one.name]
    ((again, worker),) = ((task, suspects.trials[name]) for name, task in in_flight.tasks.items())
    assert (again.solves, worker) == (one.solves, "other")
    assert suspects.deaths(again) == 1


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (Refusal("worker", "it differs"), "workers refused it each time, .* because it differs;"),
        (Loss(), "the scheduler dropped it each time;"),
    ],
)
def test_a_task_that_no_worker_tries_is_sent_again_but_not_for_ever(
    dispatched, monkeypatch, how, said
):
    monkeypatch.setattr(dispatch, "_MOST_REPEATS", 3)
    sent = task("one", "a")
    while not dispatched.settled:
        dispatched._handle(sent, how)
        sent = sent.again()
    names = dispatched._in_flight.client.sent
    assert len(names) == len(set(names)) == 3
    assert len(dispatched.refused) == (4 if isinstance(how, Refusal) else 0)
    ((_, outcome),) = dispatched.settled
    (record,) = outcome.records
    assert (record.status, record.deaths) == (Status.LOST, 0)
    assert re.match(said, record.error)


class UnsayableError(Exception):
    """An error whose text cannot be read."""

    def __str__(self):
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "said"), [(UnsayableError(), "UnsayableError"), (OSError("gone"), "gone")]
)
def test_a_cell_that_the_cluster_cannot_run_says_why(dispatched, error, said):
    dispatched._handle(task("one", "a"), error)
    ((_, outcome),) = dispatched.settled
    assert outcome.records[0].error == f"the cluster could not run it: {said}"


def local(**more):
    """The default cluster with other arguments."""
    return specification.LOCAL.model_copy(update={"kwargs": {**specification.LOCAL.kwargs, **more}})


@pytest.mark.slow
def test_a_cell_that_crashes_is_lost_alone_and_left_alone(small, tmp_path, records, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", search_path())
    preload = preloaded(tmp_path, Fault("memory", "GM"))
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


def fetched(client, future):
    """The end of a task whose future has ended."""
    in_flight = InFlight(client, None)
    in_flight.tasks[future.key], in_flight._futures[future.key] = task("one", "a"), future
    future.add_done_callback(in_flight.fetch)
    until(lambda: not in_flight._landed.empty())
    return in_flight.next_end()[1]


def test_a_task_that_cannot_be_read_is_refused_by_its_worker(client):
    parcel = perform.parcel(task("one", "p"), None).replace(b"zlib", b"zlip")
    refusal = fetched(client, client.submit(pickle.loads, parcel, pure=False))
    assert isinstance(refusal, Refusal)
    assert refusal.worker in client.nthreads()
    assert "it has no module 'zlip'; add the module's folder to the PYTHONPATH" in refusal.message


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        ("error", KilledWorker("k", None, 1), Loss(2)),
        ("cancelled", asyncio.CancelledError(), Loss()),
        ("lost", asyncio.CancelledError(), Loss()),
    ],
)
def test_a_task_that_ends_without_a_result_is_lost(status, error, expected):
    def result(timeout):
        raise error

    def call_back(callback):
        callback(future)

    future = SimpleNamespace(key="k", status=status, result=result, add_done_callback=call_back)
    assert fetched(Client(), future) == expected


def test_a_result_that_cannot_be_fetched_is_asked_for_again_but_not_for_ever():
    unfetched, asked = OSError("gone"), []

    def result(timeout):
        asked.append(timeout)
        if len(asked) == 3:
            return "the outcome"
        raise unfetched

    def call_back(callback):
        callback(future)

    future = SimpleNamespace(key="k", status="finished", result=result, add_done_callback=call_back)
    assert fetched(Client(), future) == "the outcome"
    asked[:] = range(10)
    assert fetched(Client(), future) is unfetched
