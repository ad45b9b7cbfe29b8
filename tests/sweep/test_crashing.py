"""Cells that crash, and every way in which a Dask future can end."""

import asyncio
import pickle

import pytest
from distributed import Client, KilledWorker, wait

from sweep.plan.tasks import Task
from sweep.runner import in_flight, lost_tasks
from sweep.worker import calls
from sweep.worker.perform import Refusal


class UnsayableError(Exception):
    """Its text cannot be had."""

    def __str__(self):
        raise ValueError("no text")


def swallowed(client, *arguments):
    """A future that has ended as this says: it is looked at as the engine does."""
    made = in_flight.InFlightTasks(client, None)
    return made._answer(*arguments)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_what_a_task_raised_is_looked_at_and_never_raised(client, error):
    class Ended:
        client, status, key = None, "error", "k"

        async def exception(self, *, asynchronous):
            return error

    assert swallowed(client, in_flight._error, client, Ended()) is error
    assert lost_tasks.reason(error)


def test_a_task_that_cannot_be_read_is_refused_by_its_worker(client):
    parcel = calls.serialised(int, 3).replace(b"zlib", b"zlip")
    future = client.submit(pickle.loads, parcel, pure=False)
    wait(future)
    (refusal,) = [swallowed(client, in_flight._error, client, future)]
    assert isinstance(refusal, Refusal)
    assert refusal.worker in client.nthreads()
    assert "cannot read its tasks (ModuleNotFoundError: No module named 'zlip')" in refusal.said


def test_what_a_client_has_sent_is_nobodys_once_another_takes_its_place(client, monkeypatch):
    def known(dask_scheduler):
        return "r1-s-n-000000" in dask_scheduler.tasks

    monkeypatch.setattr(in_flight, "perform", int)
    made = in_flight.InFlightTasks(client, 0)
    made.submit(Task("r1-s-n-000000", ()))
    wait(made._futures["r1-s-n-000000"])
    with Client(client.scheduler.address, set_as_default=False) as other:
        assert other.run_on_scheduler(known)
        made.move(other)
        assert not other.run_on_scheduler(known)


def test_what_a_function_raises_is_its_result():
    assert pickle.loads(calls.serialised(int, "3")) == 3
    assert repr(pickle.loads(calls.serialised(int, "x"))) == repr(
        ValueError("invalid literal for int() with base 10: 'x'")
    )


@pytest.mark.parametrize(
    "error", [KilledWorker("k", None, 1), SystemExit(3), KeyboardInterrupt(), OSError("gone")]
)
def test_what_gathering_raises_stays_there(client, monkeypatch, error):
    async def gather(futures, errors, asynchronous):
        raise error

    future = client.submit(int, 3, pure=False)
    monkeypatch.setattr(client, "gather", gather)
    assert in_flight.InFlightTasks(client, None)._fetch([future, future]) == {}
    assert future.result() == 3


def test_the_reason_is_a_sentence_whatever_the_error():
    assert lost_tasks.reason(UnsayableError()) == "the cluster could not run it: UnsayableError"
    assert "SystemExit: 3" in lost_tasks.reason(SystemExit(3))
    assert lost_tasks.retriable(SystemExit(3))
    assert not lost_tasks.retriable(UnsayableError())
