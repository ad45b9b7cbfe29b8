"""Tasks sent to the cluster and taken back; those that it loses are retried, then ``lost``."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from sweep.events import CellsDone, Listener, TaskRetried
from sweep.plan.tasks import Task, Tasks
from sweep.runner import losses
from sweep.runner.flight import End, Flight
from sweep.runner.latecomers import Latecomers
from sweep.runner.orphans import Orphans
from sweep.runner.suspects import Suspects
from sweep.store.records import BoundRecord, CellRecord, Record
from sweep.store.view import StoreView
from sweep.worker.perform import TaskOutcome, done_before

_MOST_DROPS = 5

Tick = Callable[[], None]
Accept = Callable[[Task, TaskOutcome], None]
Regain = Callable[[Any], Any]


class Dispatch:
    """One pass of all tasks through the cluster, which holds only as many as keep it busy.

    A task that is lost with its workers is split, so that one cell does not take others down
    with it, and each of its items is tried on a worker of its own; one of which `DEADLY` workers
    die is recorded as ``lost``. What workers still do for a driver that is gone is waited for.

    Parameters
    ----------
    client : distributed.Client
        The client of the cluster.
    planned : Tasks
        The tasks, most urgent first; each is asked for when it is sent.
    view : StoreView
        The part of the store that workers see.
    accept : callable
        Called with every task and its outcome.
    tick : callable
        Called at least every few seconds; an error that it raises ends the dispatch.
    listen : Listener
        Called with an event for every task that ends.
    regain : callable
        Gives a client that has lost its scheduler, or another one, once that is back; an error
        that it raises ends the dispatch.
    latecomers : Latecomers
        What workers of other runs record meanwhile.
    """

    def __init__(
        self,
        client: Any,
        planned: Tasks,
        view: StoreView,
        accept: Accept,
        tick: Tick,
        listen: Listener,
        regain: Regain,
        latecomers: Latecomers,
    ) -> None:
        self._flight, self._orphans = Flight(client, view), Orphans(view.identity, listen)
        self._suspects = Suspects()
        self._planned, self._accept, self._tick = planned, accept, tick
        self._listen, self._regain, self._latecomers = listen, regain, latecomers

    def perform(self) -> None:
        """Do all tasks.

        Raises
        ------
        KeyboardInterrupt
            If the user interrupts it; no task is in flight then.
        """
        try:
            self._perform()
        except BaseException:
            self._flight.cancel()
            raise

    def _perform(self) -> None:
        ready, sent = self._orphans.sendable(self._flight.client, self._planned), 0
        while self._flight.tasks or sent < len(ready) or self._orphans or self._suspects:
            while sent < len(ready) and self._flight.has_room:
                self._send(ready[sent])
                sent += 1
            self._tick()
            landed = self._flight.wait()
            if self._flight.client.status != "running":
                self._start_over()
                continue
            for task in self._orphans.released(self._flight.client):
                self._send(task)
            for task, deaths in self._flight.stranded():
                self._stranded(task, deaths)
            for task, end in self._flight.land(landed):
                self._landed(task, end)
            if self._suspects:
                self._try_suspects()

    def _landed(self, task: Task, end: End) -> None:
        died, on_trial = losses.deaths(end), self._suspects.on_trial(task)
        nothing_left = on_trial and self._suspects.over(task, died)
        if isinstance(end, TaskOutcome):
            ours = _belongs_to(task, end)
            self._settle(task, end if ours else losses.outcome(task, losses.UNEXPECTED))
        elif end == losses.DROPPED and len(task.earlier) < _MOST_DROPS:
            if on_trial:
                self._suspects.add(task)
            else:
                self._send(task.again())
        elif losses.retriable(end) and not nothing_left and (died or not on_trial):
            self._suspects.add(task)
        else:
            self._give_up(task, losses.reason(end))

    def _stranded(self, task: Task, deaths: int) -> None:
        done, on_trial = done_before(task, self._flight.view), self._suspects.on_trial(task)
        nothing_left = on_trial and self._suspects.over(task, 0 if done else deaths)
        if done is not None:
            self._settle(task, done)
        elif not on_trial:
            self._relaunch(task.again())
        elif nothing_left:
            self._give_up(task, losses.WORKER_DIED)
        else:
            self._suspects.add(task)

    def _try_suspects(self) -> None:
        """Send suspects to workers that have nothing else; to others if nothing else is left."""
        busy = len(self._flight.tasks) > self._suspects.trials
        for task, worker in self._suspects.next_trials(self._flight.loads(), busy=busy):
            self._relaunch(task, alone_on=worker)

    def _start_over(self) -> None:
        """Send to a scheduler that came back what is not in the journal."""
        self._flight.move(self._regain(self._flight.client))
        left = self._orphans.take_back()
        for task, done in self._flight.abandon():
            if self._suspects.on_trial(task):
                self._suspects.over(task, 0)
            if done is None:
                left.append(task.again())
            else:
                self._settle(task, done)
        for task in self._orphans.sendable(self._flight.client, left):
            self._send(task)

    def _settle(self, task: Task, done: TaskOutcome) -> None:
        self._accept(task, done)
        statuses = Counter(r.status.label for r in done.records if isinstance(r, CellRecord))
        self._listen(CellsDone(dict(statuses), task.name))

    def _give_up(self, task: Task, reason: str) -> None:
        if reason == losses.WORKER_DIED:
            reason = losses.died(self._flight.exit_codes(self._suspects.dead(task)))
        self._settle(task, losses.outcome(task, reason, self._suspects.deaths(task)))

    def _relaunch(self, task: Task, alone_on: str | None = None) -> None:
        self._listen(TaskRetried(len(task.cells)))
        self._send(task, alone_on)

    def _send(self, task: Task, alone_on: str | None = None) -> None:
        self._flight.launch(self._latecomers.heeded(task), alone_on)


def _belongs_to(task: Task, done: TaskOutcome) -> bool:
    """Whether all of an outcome is of this task."""
    results = {_result(record) for record in done.records}
    return done.name == task.name and results <= task.expected_results


def _result(record: Record) -> tuple[str, str]:
    if isinstance(record, CellRecord):
        return record.cell, record.solve
    return "", record.problem if isinstance(record, BoundRecord) else ""
