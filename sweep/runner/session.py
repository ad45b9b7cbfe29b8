"""One run in an open store: records go to the journal, and the dataset follows."""

import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sweep import events
from sweep.errors import DatasetError
from sweep.grid.cell import Cell
from sweep.plan import bounds, solves, tasks
from sweep.plan.costs import Costs
from sweep.plan.items import Item, Items
from sweep.plan.stored import StoredExperiment
from sweep.runner.log import Log
from sweep.runner.meter import Meter
from sweep.store import journal, versions
from sweep.store.folder import explained
from sweep.store.journal import Journal
from sweep.store.ledger import Ledger
from sweep.store.lock import Check
from sweep.store.objects import ObjectPath
from sweep.store.records import CellRecord, Record

if TYPE_CHECKING:
    from sweep.runner.clusters import ClusterSpec
    from sweep.worker.perform import TaskOutcome

_FLUSH_SECONDS = 2.0
_FLUSH_SHARE = 20.0
_TRY_AGAIN_SECONDS = 30.0


class Session:
    """One run in a locked store, from the first record to the last dataset.

    Parameters
    ----------
    stored : StoredExperiment
        The experiment and its store, which the caller has locked.
    tell : Listener
        Called with every event of the run.
    """

    def __init__(self, stored: StoredExperiment, tell: events.Listener, check_lock: Check) -> None:
        self.stored = stored
        self._check_lock = check_lock
        self.tell = tell
        self.journal = Journal(stored.store.journal)
        self._damaged = stored.store.damage is not None
        self.ledger = self.refresh()
        self.run = _run_name(self.journal.names, stored.store.identity)
        self._next_flush = 0.0
        self.unwritten: DatasetError | None = None
        self._told_apart = False
        self.deadly = 0
        self.mechanisms: Mapping[str, Callable[..., Any]] = {}

    def refresh(self) -> Ledger:
        """Take in what is new in the journal; set aside, and tell of, what is damaged."""
        ledger = self.journal.refresh()
        damaged = dict(self.journal.damaged)
        with explained(self.stored.store.path):
            kept = self.journal.set_aside()
        for name, path in kept.items():
            self._damaged = True
            self.tell(events.SegmentSetAside(str(path), damaged[name]))
        return ledger

    def write(self, name: str, records: Iterable[Record]) -> None:
        """Write records into the journal from this process."""
        held = tuple(records)
        with explained(self.stored.store.path):
            journal.write_segment(self.stored.store.journal, name, held)
        self.journal.take(name, held)

    def reuse(self, cells: Iterable[Cell]) -> None:
        """Record the cells whose solve is already in the journal."""
        records = solves.reusable(cells, self.ledger)
        if records:
            self.write(f"{self.run}-reused", records)

    def work(self, cells: Sequence[Cell], todo: int, client: Any, cluster: "ClusterSpec") -> None:
        """Solve these cells and compute the certificates that are missing."""
        costs = Costs(self.stored.experiment.time_limit)
        solving = solves.needed(cells, self.ledger, costs, self.stored.experiment.warm_start)
        proving = bounds.missing(self.stored.cells.columns, self.ledger, costs)
        items = Items.joined(solving, proving)
        self.tell(
            events.RunStarted(
                experiment=self.stored.experiment.name,
                store=str(self.stored.store.path),
                cells=len(self.stored.cells),
                todo=todo,
                reused=todo - len(cells),
                solves=len(solving),
                bounds=len(proving),
                tasks=len(tasks.packed(items, self.run)),
                deadly=self.deadly,
                hidden=len(self.stored.hidden(self.ledger)),
            )
        )
        self.publish()
        if items:
            self._execute(items, len(cells), client, cluster)

    def publish(self) -> None:
        """Derive the dataset from the journal, unless the one on disk is up to date and sound.

        A disk that does not take it ends nothing: why is told, and noted in `unwritten`.
        """
        self._check_lock()
        with suppress(OSError):
            self.journal.write_index()
        state = f"{self.stored.experiment.digest}:{self.journal.state}"
        if self.stored.store.state == state and not self._damaged:
            return
        from sweep.dataset import build

        started = time.perf_counter()
        made = self._derivation.dataset(self.ledger)
        made.attrs["journal_state"] = state
        try:
            path = self.stored.store.publish(lambda folder: build.write(made, folder))
        except DatasetError as error:
            self._next_flush = time.monotonic() + _TRY_AGAIN_SECONDS
            if str(error) != str(self.unwritten):
                self.tell(events.DatasetNotWritten(str(error)))
            self.unwritten = error
            return
        self._damaged, self.unwritten = False, None
        seconds = time.perf_counter() - started
        self._next_flush = time.monotonic() + max(_FLUSH_SECONDS, _FLUSH_SHARE * seconds)
        self.tell(events.DatasetWritten(str(path), seconds))

    def accept(self, done: "TaskOutcome") -> None:
        """Take in a task's outcome; write it to the journal if its worker could not.

        A worker may also have written it to a copy of the store, on a disk of its own.
        """
        elsewhere = done.written and not self._holds(done.name)
        if (elsewhere or done.apart) and not self._told_apart:
            self._told_apart = True
            hosts = {record.host for record in done.records if isinstance(record, CellRecord)}
            store = str(self.stored.store.path)
            self.tell(events.StoreNotShared(", ".join(sorted(filter(None, hosts))), store))
        if done.written and not elsewhere:
            self.journal.take(done.name, done.records)
        elif done.records:
            self.write(done.name, done.records)

    def _holds(self, segment: str) -> bool:
        """Whether the journal has it: all that see an address in an object store see the same."""
        folder = self.stored.store.journal
        return isinstance(folder, ObjectPath) or (folder / f"{segment}{journal.SUFFIX}").exists()

    def tick(self) -> None:
        """Publish the dataset if enough time has passed since the last one.

        Raises
        ------
        StoreError
            If another run has taken the store over.
        """
        self._check_lock()
        if time.monotonic() >= self._next_flush:
            self.publish()

    @cached_property
    def _derivation(self) -> Any:
        from sweep.dataset import build

        experiment = self.stored.experiment
        attributes = {
            "title": experiment.title or experiment.name,
            "source": experiment.source,
            "experiment": experiment.name,
            "experiment_text": experiment.text,
            "experiment_digest": experiment.digest,
            "reference": experiment.reference,
        }
        terms = build.Terms(
            epsilon=experiment.epsilon,
            delta=experiment.delta,
            reference=experiment.reference,
            attributes=attributes,
        )
        return build.Derivation(self.stored.grids, terms)

    def _execute(
        self,
        items: Items[Item],
        cells: int,
        client: Any,
        spec: "ClusterSpec",
    ) -> None:
        from sweep.runner import dispatch, line, security
        from sweep.runner.workforce import StartedCluster, Workforce
        from sweep.store.view import StoreView
        from sweep.worker import agreement

        experiment, store = self.stored.experiment, self.stored.store
        view = StoreView(
            str(store.path.resolve()),
            store.identity,
            experiment.keep,
            versions="" if spec.allow_mixed else versions.ours(),
            mechanisms=tuple(self.mechanisms.items()),
        )
        with _client(client, spec) as ready, ExitStack() as stack:
            exposed = security.exposure(ready.scheduler.address) if client is None else ""
            if exposed:
                self.tell(events.ClusterExposed(exposed))
            agreement.check_workers(ready, allow_mixed=spec.allow_mixed)
            ours = client is None and ready.cluster is not None
            workforce = Workforce(
                ready,
                StartedCluster(ready.cluster, spec.adapt) if ours else None,
                spec.patience,
                self.tell,
            )

            planned = tasks.packed(items, self.run, _threads(ready))
            meter = Meter(planned, cells, self._name, self.tell)

            def tick() -> None:
                self.tick()
                workforce.look()
                meter.look(workforce.threads)

            def accept(task: tasks.Task, done: "TaskOutcome") -> None:
                self.accept(done)
                meter.take(task, done)

            def regain(lost: Any) -> Any:
                found = line.regained(lost, spec, stack, self.tick, self.tell)
                workforce.follow(found)
                return found

            try:
                dispatch.execute(ready, planned, view, accept, tick, self.tell, regain)
            finally:
                meter.tell()

    def _name(self, cell: str) -> str:
        """A cell's labels, for people."""
        labels = ", ".join(
            f"{axis}={label}" for axis, label in self.stored.cells[cell].coords.items()
        )
        return labels or cell


@contextmanager
def recorded(stored: StoredExperiment, listen: events.Listener) -> Iterator[Session]:
    """A session in the locked store; at its end dataset and log are up to date.

    Raises
    ------
    DatasetError
        At the end, if the dataset could not be written.
    """
    store, started = stored.store, time.monotonic()
    with store.locked() as check_lock:
        stored.check_kinship()
        store.describe(stored.experiment.text, stored.cells)
        tell = events.to_all(Log(store.path), listen)
        session = Session(stored, tell, check_lock)
        interrupted = False
        try:
            yield session
        except (KeyboardInterrupt, SystemExit):
            interrupted = True
            raise
        finally:
            with _undisturbed(), explained(store.path):
                session.refresh()
                session.publish()
                statuses = stored.statuses(session.ledger)
                other = int(stored.of_other_code(session.ledger).sum())
                tell(
                    events.RunEnded(
                        statuses=statuses,
                        seconds=time.monotonic() - started,
                        interrupted=interrupted,
                        of_other_code=other,
                    )
                )
        if session.unwritten is not None:
            raise session.unwritten


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore a second Ctrl-C: it would strike in the midst of the last dataset's threads."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


@contextmanager
def _client(given: Any, spec: "ClusterSpec") -> Iterator[Any]:
    from sweep.runner import clusters

    if given is not None:
        yield given
        return
    with clusters.connected(spec) as client:
        yield client


def _threads(client: Any) -> int:
    """How many threads the cluster has now; 0 if it does not say."""
    try:
        return sum(client.nthreads().values())
    except Exception:
        return 0


def _run_name(segments: Iterable[str], store: str) -> str:
    """A name that no other run has on any cluster; names sort in the order of a store's runs.

    It has to be unique because Dask treats tasks of one key as one task, whoever submits them.
    """
    number = 1 + max(map(_run_number, segments), default=0)
    return f"r{number:06d}-{store[:8]}-{uuid.uuid4().hex[:8]}"


def _run_number(segment: str) -> int:
    head = segment.partition("-")[0].removeprefix("r")
    return int(head) if head.isdigit() else 0
