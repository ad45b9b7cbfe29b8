"""The fate of tasks: retried, tried alone, given up; and every way a Dask future can end."""

import asyncio
import pickle
import re
from types import SimpleNamespace

import pytest
from distributed import KilledWorker
from faults import UnprintableError
from processes import until

from sweep.experiment.canonical import Spec
from sweep.plan.tasks import CellTask, Solve, Task
from sweep.runner import dispatch
from sweep.runner.dispatch import Flight
from sweep.store import folder
from sweep.store.folder import WorkerStore
from sweep.store.journal import write_segment
from sweep.store.ledger import MAX_WORKER_DEATHS
from sweep.store.records import CellRecord, Status
from sweep.worker import perform
from sweep.worker.perform import Loss, TaskOutcome

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

    def cancel(self, futures, *, force):
        self.cancelled += [future.key for future in futures]


@pytest.fixture
def dispatched(tmp_path, monkeypatch):
    """A dispatch with a fake client, and the tasks that it settles and refuses."""
    monkeypatch.setattr(dispatch, "SETTLED_SECONDS", 0.0)
    place = folder.create(tmp_path / "s", "small")
    settled, refused = [], []

    def accept(task, done):
        settled.append((task, done))
        return ()

    session = SimpleNamespace(accept=accept, emit=[].append)
    made = dispatch.Dispatch(session, workforce(Client(), refused), None, (), WorkerStore(place))
    made.client, made.settled, made.refused = made.workforce.client, settled, refused
    return made


def workforce(client, refused=()):
    """The workforce of a client, which notes whom it refuses."""
    return SimpleNamespace(client=client, refuse=lambda *about: refused.append(about), workers={})


def look(made, workers="xyz", deaths=None):
    """The trials that begin with these workers and deaths: solves and worker of each."""
    before = {*made.flights}
    made.workforce.workers = dict.fromkeys(workers)
    made.count_deaths = lambda names: deaths or {}
    made.try_suspects()
    begun = [one for name, one in made.flights.items() if name not in before]
    return [("".join(solve.key for solve in one.task.solves), *one.where) for one in begun]


def end(made, key, how):
    """End the flight of the solve with this key."""
    flights = made.flights
    (name,) = (name for name, one in flights.items() if one.task.solves[-1].key == key)
    made.handle(flights.pop(name), how)


def test_each_solve_has_a_worker_of_its_own_and_all_workers_have_one(dispatched):
    dispatched.suspects += [*task("many", "a", "b", "c").alone(), *task("one", "d").alone()]
    assert look(dispatched) == [("a", "x"), ("b", "y"), ("c", "z")]
    assert look(dispatched) == []
    end(dispatched, "b", TaskOutcome("b", (), written=True))
    assert look(dispatched) == [("d", "y")]


def test_suspects_wait_for_the_other_tasks_and_for_workers_to_settle(dispatched, monkeypatch):
    monkeypatch.setattr(dispatch, "SETTLED_SECONDS", 600.0)
    dispatched.suspects += task("one", "a").alone()
    assert look(dispatched, ["new"]) == []
    monkeypatch.setattr(dispatch, "SETTLED_SECONDS", 0.0)
    dispatched.submit(task("other", "b"))
    assert look(dispatched, ["new"]) == []
    end(dispatched, "b", TaskOutcome("b", (), written=True))
    assert look(dispatched, ["new"]) == [("a", "new")]


def test_only_solves_that_kill_their_workers_alone_are_given_up(dispatched):
    dispatched.submit(task("both", "killer", "innocent"))
    end(dispatched, "innocent", Loss(2))
    assert look(dispatched) == [("killer", "x"), ("innocent", "y")]
    done = TaskOutcome("innocent", (), written=True)
    end(dispatched, "innocent", done)
    for deaths in [1, 0, *[1] * (MAX_WORKER_DEATHS - 2)]:  # none if the scheduler dropped it
        end(dispatched, "killer", Loss(deaths))
        assert look(dispatched) == [("killer", "x")]
    assert [outcome for _, outcome in dispatched.settled] == [done]
    end(dispatched, "killer", Loss(1))
    (_, (_, outcome)) = dispatched.settled
    (record,) = outcome.records
    assert (record.cell, record.status) == ("killer", Status.LOST)
    assert record.deaths == MAX_WORKER_DEATHS
    assert record.error.startswith("its worker died each time: ")


def test_a_trial_whose_worker_is_gone_begins_again_elsewhere(dispatched):
    dispatched.suspects += task("one", "a").alone()
    look(dispatched, ["gone"])
    (name,) = dispatched.flights
    assert look(dispatched, []) == [], "the scheduler does not answer"
    assert dispatched.client.cancelled == []
    assert look(dispatched, ["other"], {name: 1}) == [("a", "other")]
    assert dispatched.client.cancelled == [name]
    (flight,) = dispatched.flights.values()
    assert flight.task.deaths == 1


def test_a_result_that_was_recorded_before_its_worker_died_counts(dispatched):
    one = task("one", "a")
    record = CellRecord("a", "a", "p", Status.OK)
    write_segment(dispatched.worker_store.store.journal, f"{one.name}+000", [record])
    dispatched.give_up(one.again(), "it died")
    ((_, done),) = dispatched.settled
    assert done.records == (record,)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (Loss(0, "worker", "it differs"), "no worker did it: it differs;"),
        (Loss(), "no worker did it: the scheduler dropped it;"),
    ],
)
def test_a_task_that_no_worker_tries_is_sent_again_but_not_for_ever(
    dispatched, monkeypatch, how, said
):
    monkeypatch.setattr(dispatch, "MOST_REPEATS", 3)
    sent = task("one", "a")
    dispatched.submit(sent)
    while not dispatched.settled:
        end(dispatched, "a", how)
    names = dispatched.client.sent
    assert len(names) == len(set(names)) == 4
    assert len(dispatched.refused) == (4 if how.worker else 0)
    ((_, outcome),) = dispatched.settled
    (record,) = outcome.records
    assert (record.status, record.deaths) == (Status.LOST, 0)
    assert re.match(said, record.error)


@pytest.mark.parametrize(
    ("error", "said"), [(UnprintableError(), "UnprintableError"), (OSError("gone"), "gone")]
)
def test_an_error_outside_the_solves_is_a_loss(monkeypatch, error, said):
    monkeypatch.setattr(perform.code, "worker_difference", raising(error))
    assert perform.perform(task("one", "a"), WorkerStore(None)) == Loss(message=said)


def raising(error):
    def raises(*about):
        raise error

    return raises


def over(status, result):
    """A future that has ended so."""
    future = SimpleNamespace(key="k", status=status, result=result)
    future.add_done_callback = lambda callback: callback(future)
    return future


def fetched(client, future):
    """The end of a task whose future has ended."""
    made = dispatch.Dispatch(None, workforce(client), None, (), None)
    made.flights[future.key] = Flight(task("one", "a"), future, [], alone=False)
    future.add_done_callback(made.fetch)
    until(lambda: not made.landed.empty())
    return made.take_next_end()[1]


def test_a_task_that_cannot_be_read_is_refused_by_its_worker(client):
    parcel = perform.pack_call(task("one", "p"), None).replace(b"zlib", b"zlip")
    refusal = fetched(client, client.submit(pickle.loads, parcel, pure=False))
    assert refusal.worker in client.nthreads()
    assert "it has no module 'zlip'; add the module's folder to the PYTHONPATH" in refusal.message


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        ("error", KilledWorker("k", None, 1), Loss(2)),
        ("cancelled", asyncio.CancelledError(), Loss()),
        ("finished", OSError("its worker is gone"), Loss()),
    ],
)
def test_a_task_that_ends_without_a_result_is_lost(status, error, expected):
    def result(timeout):
        raise error

    assert fetched(Client(), over(status, result)) == expected
