"""One run in an open store: writes records to the journal, and derives the dataset from it."""

import hashlib
import re
import sys
import time
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sweep import events
from sweep.cluster import signals
from sweep.errors import DatasetError, command
from sweep.grid.cells import Cells
from sweep.plan import solves
from sweep.plan.costs import Costs
from sweep.plan.tasks import Solves, Task
from sweep.runner.log import Log
from sweep.runner.progress import ProgressMeter
from sweep.state.stored import StoredExperiment, compare_code, count_statuses
from sweep.store import arrays, code
from sweep.store.journal import SUFFIX, Journal, write_segment
from sweep.store.keys import KEY, to_texts
from sweep.store.lease import Check
from sweep.store.ledger import Ledger
from sweep.store.paths import ObjectPath, store_errors
from sweep.store.records import TROUBLED, CellRecord, Record, Status

if TYPE_CHECKING:
    from sweep.worker.perform import TaskOutcome

FLUSH_SECONDS = 2.0
"""Least number of seconds between two datasets."""
_FLUSH_SHARE = 100.0
"""Least ratio of the time between two datasets to the time that writing one takes."""
_TRY_AGAIN_SECONDS = 30.0
"""Seconds until a dataset that could not be written is tried again, for instance on a full disk."""


class Session:
    """One run in a locked store, from the first record to the last dataset.

    Parameters
    ----------
    stored : StoredExperiment
        The experiment and its store, which the caller has locked.
    emit : Listener
        Called with every event of the run.
    check_lock : callable
        Raises `StoreError` if another run has taken over the store.

    Attributes
    ----------
    begun : bool
        Whether the run has planned its work and announced it.
    meter : ProgressMeter
        Measures the progress, once the run has begun.
    troubled : set of str
        Ids of the cells that failed, timed out or were lost in this run.
    unwritten : DatasetError, optional
        Why the last attempt to write the dataset failed; None if it succeeded.
    run : str
        The run's name, with which the names of its journal segments begin.
    """

    def __init__(self, stored: StoredExperiment, emit: events.Listener, check_lock: Check) -> None:
        self.began = time.monotonic()
        self.stored, self.emit, self._check_lock = stored, emit, check_lock
        self.journal = Journal(stored.store.journal)
        self.unwritten: DatasetError | None = None
        self.run, self.begun = "", False
        self._published: str | None = None
        self._deriving_code = ""
        self._next_dataset = self.began + FLUSH_SECONDS
        self._reported_apart = False
        self.troubled = set[str]()

    def prepare(self) -> None:
        """Read the journal, report what is missing from it, name the run, and tidy the store."""
        self.refresh()
        for name in self.journal.missing:
            self.emit(
                events.Warned(f"journal segment {name!r} is gone; its cells are solved again")
            )
        self.run = name_run(self.journal.names, self.stored.store.about.identity)
        deriving = hashlib.sha256(code.project().encode())
        for file in sorted((Path(__file__).parents[1] / "dataset").glob("*.py")):
            deriving.update(file.read_bytes())
        self._deriving_code = deriving.hexdigest()[:16]
        self._published = self.stored.store.dataset.state
        self.remove_forgotten_arrays()

    def refresh(self) -> Ledger:
        """Read the journal's new segments, report and set aside damaged ones; return the ledger."""
        ledger = self.journal.refresh()
        if damaged := self.journal.damaged:
            with store_errors(self.stored.store.path):
                kept, ledger = self.journal.set_aside()
            for name, path in kept.items():
                self.emit(events.Warned(f"{damaged[name]}; it is {str(path)!r} now"))
        return ledger

    def write(self, name: str, records: Iterable[Record]) -> None:
        """Write records into the journal, as a segment called ``name``."""
        listed = tuple(records)
        with store_errors(self.stored.store.path):
            write_segment(self.journal.folder, name, listed)
        self.journal.take(name, listed)

    def remove_forgotten_arrays(self) -> None:
        """Remove the arrays of solves that no cell uses any more."""
        store, forgotten = self.stored.store.path, self.journal.ledger.forgotten_solves
        if forgotten:
            with store_errors(store):
                for solve in forgotten.intersection(arrays.list_solves(store)):
                    arrays.locate_file(store, solve).unlink(missing_ok=True)

    def begin(
        self, cells: Cells, reused: int = 0, deadly: int = 0, again: Collection[str] = ()
    ) -> Solves:
        """Plan, announce and return the solves of some cells and of all missing lower bounds.

        Parameters
        ----------
        cells : Cells
            The cells to solve.
        reused : int
            Number of other cells that take their result from an earlier solve.
        deadly : int
            Number of lost cells that are not solved again, because they killed too many workers.
        again : collection of str
            Keys of problems to certify even if they have a bound already.
        """
        stored, ledger = self.stored, self.journal.ledger
        costs = Costs(stored.experiment.time_limit)
        solving = solves.list_solves(cells, ledger, costs, stored.experiment.warm_start)
        proving = solves.list_proofs(stored.cells, ledger, costs, again)
        work = solving + proving
        self.meter = ProgressMeter(
            float(work.seconds.sum()), len(cells), stored.label, self.began, self.emit
        )
        self.begun = True
        self.emit(
            events.RunStarted(
                experiment=stored.experiment.name,
                store=str(stored.store.path),
                cells=len(stored.cells),
                todo=len(cells) + reused,
                reused=reused,
                solves=len(solving),
                bounds=len(proving),
                deadly=deadly,
                hidden=len(ledger.others(stored.cells.ids)),
            )
        )
        return work

    def accept(self, task: Task, done: "TaskOutcome") -> list[CellRecord]:
        """Accept a task's outcome, and return the records of the task's cells.

        Records that are not in the journal yet are written to it: the worker may have been unable
        to write them, or may have written them to a copy of the store on its own disk.
        """
        folder, name = self.journal.folder, f"{done.name}{SUFFIX}"
        cells = [record for record in done.records if isinstance(record, CellRecord)]
        # in an object store every process sees the same segments
        written = done.written and (isinstance(folder, ObjectPath) or (folder / name).exists())
        if written:
            self.journal.take(done.name, done.records)
        elif done.records:
            self.write(done.name, done.records)
        hosts = "" if written else ", ".join(sorted({record.host for record in cells} - {""}))
        if hosts and not self._reported_apart:
            self._reported_apart = True
            self.emit(
                events.Warned(
                    f"a worker on {hosts} does not share the disk of store "
                    f"{str(self.stored.store.path)!r}, or cannot write to it, so this command "
                    "writes its results: if the command is killed, results in flight are lost; "
                    "time limits are not enforced from outside; cells whose arrays are kept fail"
                )
            )
        statuses = Counter(record.status.label for record in cells)
        self.troubled.update(record.cell for record in cells if record.status in TROUBLED)
        self.meter.take(task, cells, done.seconds)
        self.emit(events.CellsDone(dict(statuses), task.name))
        return cells

    def tick(self) -> None:
        """Publish the dataset if it was not published recently.

        Raises
        ------
        StoreError
            If another run has taken the store over.
        """
        self._check_lock()
        if time.monotonic() >= self._next_dataset:
            self.publish()

    def publish(self) -> None:
        """Derive the dataset from the journal, unless the stored one is up to date and undamaged.

        If the dataset cannot be written, the run continues; the reason is reported and stored in
        `unwritten`.

        Raises
        ------
        StoreError
            If another run has taken the store over.
        """
        self._check_lock()
        with suppress(OSError):
            self.journal.write_index()
        store, experiment = self.stored.store.dataset, self.stored.experiment
        state = f"{self._deriving_code}:{experiment.digest}:{self.journal.state}"
        if self._published == state:
            return
        from sweep.dataset import build

        started = time.perf_counter()
        dataset = build.build_dataset(experiment, self.stored.grids, self.journal.ledger)
        dataset.attrs["journal_state"] = state
        try:
            path = store.publish(build.make_files(dataset))
        except DatasetError as error:
            self._next_dataset = time.monotonic() + _TRY_AGAIN_SECONDS
            if str(error) != str(self.unwritten):
                self.emit(events.Warned(str(error)))
            self.unwritten = error
            return
        self._published, self.unwritten = state, None
        seconds = time.perf_counter() - started
        # the driver spends at most a hundredth of its time on datasets
        self._next_dataset = time.monotonic() + max(FLUSH_SECONDS, _FLUSH_SHARE * seconds)
        self.emit(events.DatasetWritten(str(path), seconds))


@contextmanager
def open_session(stored: StoredExperiment, listen: events.Listener | None) -> Iterator[Session]:
    """Lock a store and open a session in it; at the end, bring its dataset and log up to date.

    Raises
    ------
    DatasetError
        At the end, if the dataset could not be written.
    """
    store = stored.store
    with store.locked() as check_lock:
        stored.check_kinship()
        store.describe(stored.experiment.name, stored.experiment.text, stored.cells.ids)
        emit = Log(store.path, listen)
        session = Session(stored, emit, check_lock)
        session.prepare()
        try:
            yield session
        finally:
            interrupted = isinstance(sys.exception(), KeyboardInterrupt | SystemExit)
            with signals.ignored_interrupt(), store_errors(store.path):
                ledger = session.refresh()
                session.publish()
                if session.troubled:
                    failed = np.array(sorted(session.troubled), dtype=KEY)
                    kept = to_texts(failed[ledger.statuses(ledger.rows(failed)) == Status.OK])
                    if kept:
                        shown = f"{command('logs', store.path, kept[0])} shows why for the first"
                        text = "cells that failed this time and keep their earlier results"
                        emit(events.Warned(f"{text}: {len(kept):,}; {shown}"))
                if session.begun:
                    statuses = count_statuses(stored.cells.ids, ledger)
                    seconds = time.monotonic() - session.began
                    stale, _ = compare_code(stored.cells, ledger)
                    emit(events.RunEnded(statuses, seconds, interrupted, int(stale.sum())))
        if session.unwritten is not None:
            raise session.unwritten


def name_run(segments: Iterable[str], store: str) -> str:
    """Name a run uniquely on any cluster; the names of a store's runs sort chronologically.

    The name must be unique because Dask treats tasks with the same key as one task, even if two
    clients have sent them. If a run was killed before it wrote a segment, the next run gets the
    same number, and the starting times in the two names (in whole seconds) order them.
    """
    numbers = re.findall(r"^r(\d+)-", "\n".join(segments), re.MULTILINE)
    began = f"{int(time.time()):08x}"
    number = 1 + max(map(int, numbers), default=0)
    return f"r{number:06d}-{store[:8]}-{began}{uuid.uuid4().hex[:8]}"
