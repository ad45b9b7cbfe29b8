"""One run in an open store: records go to the journal, and the dataset follows."""

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sweep import events
from sweep.cluster import signals
from sweep.grid.cells import Cell
from sweep.plan import bounds, solves, tasks
from sweep.plan.costs import Costs
from sweep.plan.items import Item, Items
from sweep.plan.stored import StoredExperiment
from sweep.runner.log import Log
from sweep.runner.publication import Publication
from sweep.store import arrays, disk, segments
from sweep.store.disk_errors import explained
from sweep.store.journal import Journal
from sweep.store.lease import Check
from sweep.store.ledger import Ledger
from sweep.store.objects import ObjectPath
from sweep.store.records import CellRecord, Record

if TYPE_CHECKING:
    from sweep.worker.perform import TaskOutcome


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
        self.began = time.monotonic()
        self.stored = stored
        self._check_lock = check_lock
        self.tell = tell
        self.journal = Journal(stored.store.journal)
        self.publication = Publication(stored, tell)
        self.refresh()
        self.run = _run_name(self.journal.names, stored.store.identity)
        self._told_apart = False
        self.remove_forgotten_arrays()

    @property
    def ledger(self) -> Ledger:
        """What the journal says of every cell."""
        return self.journal.ledger

    def refresh(self) -> Ledger:
        """Read what is new in the journal; set damaged segments aside and report them.

        What the run had forgotten holds again, unless the journal has something newer.
        """
        if self.ledger.altered:
            self.journal = Journal(self.stored.store.journal)
        ledger = self.journal.refresh()
        damaged = dict(self.journal.damaged)
        with explained(self.stored.store.path):
            kept = self.journal.set_aside()
        for name, path in kept.items():
            self.publication.damaged = True
            self.tell(events.SegmentSetAside(str(path), damaged[name]))
        return ledger

    def write(self, name: str, records: Iterable[Record]) -> None:
        """Write records into the journal from this process."""
        held = tuple(records)
        with explained(self.stored.store.path):
            segments.write_segment(self.stored.store.journal, name, held)
        self.journal.take(name, held)

    def remove_forgotten_arrays(self) -> None:
        """Remove the arrays of solves that no cell has any more."""
        store = self.stored.store.path
        with explained(store):
            for solve in self.ledger.forgotten_solves.intersection(arrays.names(store)):
                disk.remove(arrays.folder(store, solve))

    def reuse(self, cells: Iterable[Cell]) -> None:
        """Record the cells whose solve is already in the journal."""
        records = solves.reusable(cells, self.ledger)
        if records:
            self.write(f"{self.run}-reused", records)

    def begin(self, cells: Sequence[Cell], reused: int = 0, deadly: int = 0) -> Items[Item]:
        """The work to solve these cells and to certify problems that no solve will certify.

        Parameters
        ----------
        cells : sequence of Cell
            The cells.
        reused : int
            Number of others that an earlier solve serves.
        deadly : int
            Number of others that are left alone, since too many workers have died of them.
        """
        costs = Costs(self.stored.experiment.time_limit)
        solving = solves.needed(cells, self.ledger, costs, self.stored.experiment.warm_start)
        proving = bounds.missing(self.stored.cells, self.ledger, costs)
        items = Items.joined(solving, proving)
        self.tell(
            events.RunStarted(
                experiment=self.stored.experiment.name,
                store=str(self.stored.store.path),
                cells=len(self.stored.cells),
                todo=len(cells) + reused,
                reused=reused,
                solves=len(solving),
                bounds=len(proving),
                tasks=len(tasks.packed(items, self.run)),
                deadly=deadly,
                hidden=len(self.stored.hidden(self.ledger)),
            )
        )
        self.publish()
        return items

    def publish(self) -> None:
        """Bring the dataset up to date with the journal now.

        Raises
        ------
        StoreError
            If another run has taken the store over.
        """
        self._check_lock()
        with suppress(OSError):
            self.journal.write_index()
        self.publication.follow(self.journal)

    def accept(self, done: "TaskOutcome") -> None:
        """Accept a task's outcome; write it to the journal if its worker could not.

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
        """Whether the journal has it; in an object store every process sees the same segments."""
        folder = self.stored.store.journal
        return isinstance(folder, ObjectPath) or (folder / f"{segment}{segments.SUFFIX}").exists()

    def tick(self) -> None:
        """Publish the dataset if enough time has passed since the last one.

        Raises
        ------
        StoreError
            If another run has taken the store over.
        """
        self._check_lock()
        if self.publication.is_due:
            self.publish()


@contextmanager
def open_session(stored: StoredExperiment, listen: events.Listener) -> Iterator[Session]:
    """A session in the locked store; at its end dataset and log are up to date.

    Raises
    ------
    DatasetError
        At the end, if the dataset could not be written.
    """
    store = stored.store
    with store.locked() as check_lock:
        stored.check_kinship()
        store.describe(stored.experiment.text, stored.cells.ids)
        tell = events.to_all(Log(store.path), listen)
        session = Session(stored, tell, check_lock)
        interrupted = False
        try:
            yield session
        except (KeyboardInterrupt, SystemExit):
            interrupted = True
            raise
        finally:
            with signals.undisturbed(), explained(store.path):
                session.refresh()
                session.publish()
                statuses = stored.statuses(session.ledger)
                other = int(stored.of_other_code(session.ledger).sum())
                tell(
                    events.RunEnded(
                        statuses=statuses,
                        seconds=time.monotonic() - session.began,
                        interrupted=interrupted,
                        of_other_code=other,
                    )
                )
        if session.publication.unwritten is not None:
            raise session.publication.unwritten


def _run_name(segments: Iterable[str], store: str) -> str:
    """A name that no other run has on any cluster; names sort in the order of a store's runs.

    It has to be unique because Dask treats tasks with the same key as one, even across clients. Two
    runs have the same number if the first was killed before the second had anything of it to read:
    then the names sort by the second in which they began.
    """
    number = 1 + max(map(_run_number, segments), default=0)
    began = f"{int(time.time()):08x}"
    return f"r{number:06d}-{store[:8]}-{began}{uuid.uuid4().hex[:8]}"


def _run_number(segment: str) -> int:
    head = segment.partition("-")[0].removeprefix("r")
    return int(head) if head.isdigit() else 0
