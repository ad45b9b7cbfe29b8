"""Tasks sent to the cluster and collected; those that it loses are retried, then ``lost``."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sweep.events import CellsDone, ConnectionsStalled, Listener, TaskRetried, WorkersPaused
from sweep.plan.tasks import Task, Tasks
from sweep.runner import lost_tasks, stalls
from sweep.runner.in_flight import End, InFlightTasks
from sweep.runner.late_records import LateRecords
from sweep.runner.orphans import Orphans
from sweep.runner.stalls import Stalls, Stuck
from sweep.runner.suspects import Suspects
from sweep.store.records import BoundRecord, CellRecord, Record
from sweep.store.view import StoreView
from sweep.worker.perform import Refusal, TaskOutcome, done_before

_MOST_REPEATS = 10
"""How often a task is sent again that no worker has tried."""

Tick = Callable[[], None]
Accept = Callable[[Task, TaskOutcome], None]


@dataclass(frozen=True)
class Remedies:
    """What to do when something is wrong with the cluster; an error raised ends the dispatch.

    Attributes
    ----------
    regain : callable
        Gives a client that has lost its scheduler, or another one, once that is back.
    renew : callable
        Gives another client in place of one that does not hear of its tasks any more; an OSError
        if the scheduler cannot be reached is no reason to end.
    refuse : callable
        Closes a worker that does not agree with the command; called with how it differs, too.
        Its task is sent again then.
    """

    regain: Callable[[Any], Any]
    renew: Callable[[Any], Any]
    refuse: Callable[[str, str], None]


class Dispatch:
    """Passes all tasks through the cluster, with only as many at a time as keep it busy.

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
    remedies : Remedies
        For a scheduler that is lost, and for connections and workers that do not do.
    late_records : LateRecords
        Records that workers of other runs write during this one.
    """

    def __init__(
        self,
        client: Any,
        planned: Tasks,
        view: StoreView,
        accept: Accept,
        tick: Tick,
        listen: Listener,
        remedies: Remedies,
        late_records: LateRecords,
    ) -> None:
        self._in_flight, self._orphans = InFlightTasks(client, view), Orphans(view.identity, listen)
        self._suspects, self._stalls = Suspects(), Stalls()
        self._repeats = Counter[str]()
        self._planned, self._accept, self._tick = planned, accept, tick
        self._listen, self._remedies = listen, remedies
        self._late_records = late_records

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
            self._in_flight.cancel()
            raise
        finally:
            self._late_records.end()

    def _perform(self) -> None:
        ready, sent = self._orphans.sendable(self._in_flight.client, self._planned), 0
        while self._in_flight.tasks or sent < len(ready) or self._orphans or self._suspects:
            while sent < len(ready) and self._in_flight.has_room:
                self._send(ready[sent])
                sent += 1
            self._tick()
            self._late_records.tell(self._in_flight.tasks.values())
            landed = self._in_flight.wait()
            if self._in_flight.client.status != "running":
                self._start_over(self._remedies.regain(self._in_flight.client))
                continue
            for task in self._orphans.released(self._in_flight.client):
                self._send(task)
            for task, deaths in self._in_flight.stranded():
                self._stranded(task, deaths)
            for task, end in self._in_flight.collect(landed):
                self._handle(task, end)
            if self._suspects:
                self._try_suspects()
            self._unblock(self._stalls.look(self._in_flight.client, self._in_flight.unheard))

    def _unblock(self, stuck: Stuck) -> None:
        if stuck.workers:
            self._listen(ConnectionsStalled(stuck.workers))
        if stuck.paused:
            self._listen(WorkersPaused(stuck.paused))
        if stuck.workers or stuck.paused:
            stalls.restart(self._in_flight.client, stuck.workers + stuck.paused)
        if stuck.driver:
            self._listen(ConnectionsStalled(()))
            try:
                client = self._remedies.renew(self._in_flight.client)
            except OSError:
                return  # the stall is found again, unless the scheduler is given up first
            self._start_over(client)

    def _handle(self, task: Task, end: End) -> None:
        died, on_trial = lost_tasks.deaths(end), self._suspects.on_trial(task)
        nothing_left = on_trial and self._suspects.over(task, died)
        if isinstance(end, TaskOutcome):
            ours = _belongs_to(task, end)
            self._settle(task, end if ours else lost_tasks.outcome(task, lost_tasks.UNEXPECTED))
        elif isinstance(end, Refusal):
            self._remedies.refuse(end.worker, end.said)
            self._repeat(task, on_trial, lost_tasks.refused(end.said))
        elif end == lost_tasks.DROPPED:
            self._repeat(task, on_trial, end)
        elif lost_tasks.retriable(end) and not nothing_left and (died or not on_trial):
            self._suspects.add(task)
        else:
            self._give_up(task, lost_tasks.reason(end))

    def _repeat(self, task: Task, alone: bool, reason: str) -> None:
        self._repeats[task.stem] += 1
        if self._repeats[task.stem] > _MOST_REPEATS:
            self._give_up(task, reason)
        else:
            self._suspects.add(task) if alone else self._send(task.again())

    def _stranded(self, task: Task, deaths: int) -> None:
        done, on_trial = done_before(task, self._in_flight.view), self._suspects.on_trial(task)
        nothing_left = on_trial and self._suspects.over(task, 0 if done else deaths)
        if done is not None:
            self._settle(task, done)
        elif not on_trial:
            self._relaunch(task.again())
        elif nothing_left:
            self._give_up(task, lost_tasks.WORKER_DIED)
        else:
            self._suspects.add(task)

    def _try_suspects(self) -> None:
        """Send suspects to idle workers; to busy ones if nothing else is left to do."""
        busy = len(self._in_flight.tasks) > self._suspects.trials
        for task, worker in self._suspects.next_trials(self._in_flight.loads(), busy=busy):
            self._relaunch(task, alone_on=worker)

    def _start_over(self, client: Any) -> None:
        """Send what is not in the journal by another client, or to a scheduler that came back."""
        self._in_flight.move(client)
        left = self._orphans.take_back()
        for task, done in self._in_flight.abandon():
            if self._suspects.on_trial(task):
                self._suspects.over(task, 0)
            if done is None:
                left.append(task.again())
            else:
                self._settle(task, done)
        for task in self._orphans.sendable(self._in_flight.client, left):
            self._send(task)

    def _settle(self, task: Task, done: TaskOutcome) -> None:
        self._accept(task, done)
        statuses = Counter(r.status.label for r in done.records if isinstance(r, CellRecord))
        self._listen(CellsDone(dict(statuses), task.name))

    def _give_up(self, task: Task, reason: str) -> None:
        if reason == lost_tasks.WORKER_DIED:
            reason = lost_tasks.died()
        self._settle(task, lost_tasks.outcome(task, reason, self._suspects.deaths(task)))

    def _relaunch(self, task: Task, alone_on: str | None = None) -> None:
        self._listen(TaskRetried(len(task.cells)))
        self._send(task, alone_on)

    def _send(self, task: Task, alone_on: str | None = None) -> None:
        self._in_flight.submit(self._late_records.with_late_segments(task), alone_on)


def _belongs_to(task: Task, done: TaskOutcome) -> bool:
    """Whether an outcome has only results of this task."""
    results = {_result(record) for record in done.records}
    return done.name == task.name and results <= task.expected_results


def _result(record: Record) -> tuple[str, str]:
    if isinstance(record, CellRecord):
        return record.cell, record.solve
    return "", record.problem if isinstance(record, BoundRecord) else ""
