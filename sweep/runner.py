"""A run: the experiment's missing cells solved, the journal kept, the dataset derived."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep import conditions, events, graph, history, journal
from sweep.cells import Cell, Grid
from sweep.costs import Costs
from sweep.errors import StoreError, SweepError
from sweep.experiment import Experiment, load_experiment, parse_experiment
from sweep.grid import expand
from sweep.journal import Journal, Ledger
from sweep.outcome import Record
from sweep.store import Store, create, explained, open_

if TYPE_CHECKING:
    import xarray as xr

    from sweep.cluster import ClusterSpec
    from sweep.worker import Done

_FLUSH_SECONDS = 2.0
_FLUSH_SHARE = 20.0


@dataclass(frozen=True, eq=False)
class Sweep:
    """An experiment laid out in a store.

    Attributes
    ----------
    experiment : Experiment
        What is asked.
    grids : tuple of Grid
        Its cells.
    store : Store
        Where the answers are kept.
    """

    experiment: Experiment
    grids: tuple[Grid, ...]
    store: Store

    @cached_property
    def cells(self) -> Mapping[str, Cell]:
        """The cells of all grids, by id."""
        return graph.distinct(self.grids)

    def statuses(self, ledger: Ledger) -> dict[str, int]:
        """Number of cells by status."""
        return dict(Counter(ledger.status(cell).label for cell in self.cells))


def run(
    experiment: Experiment | str | Path,
    store: str | Path,
    client: Any = None,
    *,
    cluster: "ClusterSpec | None" = None,
    listen: events.Listener = events.ignore,
) -> "xr.Dataset | xr.DataTree":
    """Solve what a store does not hold yet of an experiment.

    Parameters
    ----------
    experiment : Experiment, str or Path
        What to sweep; a name or a path is loaded.
    store : str or Path
        The folder of the results; made if it does not exist. If it holds earlier results of
        this experiment, only what is missing (or was lost) is solved.
    client : distributed.Client, optional
        Of the cluster to use; otherwise one is started, if there is anything to do.
    cluster : ClusterSpec, optional
        Which one to start; by default one process for every processor of this machine.
    listen : callable, optional
        Hears what happens; see `sweep.events`.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        The dataset; a tree with one node for each group if there are several.

    Raises
    ------
    ExperimentError
        If the experiment is not valid.
    StoreError
        If the store belongs to another experiment, is in use, or cannot be written.
    ClusterError
        If the cluster cannot be started or reached.
    """
    loaded = experiment if isinstance(experiment, Experiment) else load_experiment(experiment)
    grids = expand(loaded)
    sweep = Sweep(loaded, grids, create(Path(store), loaded.name))
    with _recorded(sweep, listen) as session:
        todo = [cell for id_, cell in sweep.cells.items() if not session.ledger.status(id_).final]
        session.reuse(todo)
        left = [cell for cell in todo if not session.ledger.status(cell.id).final]
        session.work(left, len(todo), client, cluster)
    return open_dataset(store)


def rerun(
    store: str | Path,
    where: str | None = None,
    client: Any = None,
    *,
    time_limit: float | None = None,
    cluster: "ClusterSpec | None" = None,
    listen: events.Listener = events.ignore,
) -> "xr.Dataset | xr.DataTree":
    """Solve some cells of a store again.

    Parameters
    ----------
    store : str or Path
        The folder of the results.
    where : str, optional
        A condition over the coordinates and ``status``, for instance
        ``"method == 'CA' and d > 256"``; by default the cells that failed, timed out or
        were lost. A cell that was ``ok`` keeps its result if it now fails.
    time_limit : float, optional
        Seconds for one solve, instead of the experiment's.
    client, cluster, listen
        As for `run`.

    Returns
    -------
    xarray.Dataset or xarray.DataTree

    Raises
    ------
    SweepError
        If the condition is not valid or holds for no cell.
    StoreError, ClusterError
        As for `run`.
    """
    sweep = of_store(store)
    if time_limit is not None:
        longer = sweep.experiment.model_copy(update={"time_limit": time_limit})
        sweep = replace(sweep, experiment=longer)
    with _recorded(sweep, listen) as session:
        chosen = selected(sweep, session.ledger, where)
        for cell in chosen:
            session.ledger.bound_errors.pop(cell.problem_key, None)
        session.work(chosen, len(chosen), client, cluster)
    return open_dataset(store)


def open_dataset(store: str | Path) -> "xr.Dataset | xr.DataTree":
    """The dataset of a store as it stands, in memory.

    Raises
    ------
    StoreError
        If the folder is no store, or its first dataset is not written yet.
    """
    from sweep import dataset

    found = open_(Path(store))
    if not found.results.exists():
        raise StoreError(f"store {str(store)!r} has no dataset yet; 'sweep run' writes one")
    return dataset.read(found.results)


def experiment_of(store: Store) -> Experiment:
    """The experiment that a store was last run with."""
    return parse_experiment(store.text, f"{store.experiment}.yaml")


def of_store(store: str | Path) -> Sweep:
    """The experiment of a store, laid out.

    Raises
    ------
    StoreError
        If the folder is no store, or a file that its experiment names holds something else
        now.
    """
    found = open_(Path(store))
    experiment = experiment_of(found)
    sweep = Sweep(experiment, expand(experiment), found)
    _check_growth(sweep)
    return sweep


def selected(sweep: Sweep, ledger: Ledger, where: str | None) -> list[Cell]:
    """The cells for which a condition holds; those in trouble if there is none.

    Raises
    ------
    SweepError
        If the condition is not valid or holds for no cell.
    """
    if where is None:
        return [cell for id_, cell in sweep.cells.items() if ledger.status(id_).troubled]
    condition = conditions.parse(where)
    found = {
        cell.id: cell
        for grid in sweep.grids
        for cell in grid.cells
        if condition.holds(
            {
                **grid.scalars,
                **_companions(grid, cell),
                **cell.coords,
                "group": grid.group,
                "status": ledger.status(cell.id).label,
            }
        )
    }
    if not found:
        raise SweepError(
            f"condition {where!r} holds for no cell of store {str(sweep.store.path)!r}; "
            "'sweep status' shows what it holds"
        )
    return list(found.values())


class _Session:
    """The open store of one run: its journal, and its dataset kept up to date."""

    def __init__(self, sweep: Sweep, tell: events.Listener) -> None:
        self.sweep = sweep
        self.tell = tell
        self.journal = Journal(sweep.store.journal)
        self.ledger = self.journal.refresh()
        self.number = 1 + max(map(_run_number, self.journal.names), default=0)
        self._next_flush = 0.0

    def write(self, name: str, records: Iterable[Record]) -> None:
        """Put records into the journal from here."""
        held = tuple(records)
        with explained(self.sweep.store.path):
            journal.write_segment(self.sweep.store.journal, name, held)
        self.journal.take(name, held)

    def reuse(self, cells: Iterable[Cell]) -> None:
        """Record the cells whose solve is in the journal already."""
        records = graph.reusable(cells, self.ledger)
        if records:
            self.write(f"r{self.number:06d}-reused", records)

    def work(
        self, cells: list[Cell], todo: int, client: Any, cluster: "ClusterSpec | None"
    ) -> None:
        """Solve these cells and compute the certificates that are missing."""
        costs = Costs(self.sweep.experiment.time_limit)
        solves = graph.solves(cells, self.ledger, costs, self.sweep.experiment.warm_start)
        missing = graph.bounds(self.sweep.cells.values(), self.ledger, costs)
        planned = graph.tasks([*solves, *missing], f"r{self.number:06d}")
        self.tell(
            events.RunStarted(
                self.sweep.experiment.name,
                self.sweep.store.path,
                len(self.sweep.cells),
                todo,
                todo - len(cells),
                len(solves),
                len(missing),
                len(planned),
            )
        )
        self.publish()
        if planned:
            self._execute(planned, client, cluster)

    def publish(self) -> None:
        """Derive the dataset from the journal, unless the one on the disk says the same."""
        state = f"{self.sweep.experiment.digest}:{self.journal.segments}"
        if self.sweep.store.state == state:
            return
        from sweep import dataset

        started = time.perf_counter()
        made = self._derivation.dataset(self.ledger)
        made.attrs["journal_state"] = state
        path = self.sweep.store.publish(lambda folder: dataset.write(made, folder))
        seconds = time.perf_counter() - started
        self._next_flush = time.monotonic() + max(_FLUSH_SECONDS, _FLUSH_SHARE * seconds)
        self.tell(events.DatasetWritten(path, seconds))

    def accept(self, done: "Done") -> None:
        """Take in a task's outcome; write it down here if its worker could not."""
        if done.written:
            self.journal.take(done.name, done.records)
        elif done.records:
            self.write(done.name, done.records)

    def tick(self) -> None:
        """Publish if it is time."""
        if time.monotonic() >= self._next_flush:
            self.publish()

    @cached_property
    def _derivation(self) -> Any:
        from sweep import dataset

        experiment = self.sweep.experiment
        attributes = {
            "title": experiment.title or experiment.name,
            "source": experiment.source,
            "experiment": experiment.name,
            "experiment_text": experiment.text,
            "experiment_digest": experiment.digest,
            "reference": experiment.reference,
        }
        terms = dataset.Terms(
            experiment.epsilon, experiment.delta, experiment.reference, attributes
        )
        return dataset.Derivation(self.sweep.grids, terms)

    def _execute(self, planned: list[graph.Task], client: Any, spec: "ClusterSpec | None") -> None:
        from sweep import engine
        from sweep.place import Place

        experiment, store = self.sweep.experiment, self.sweep.store
        place = Place(
            str(store.path.resolve()), store.identity, experiment.keep, experiment.time_limit
        )
        with _client(client, spec) as ready:
            threads = ready.nthreads()
            self.tell(events.ClusterReady(len(threads), sum(threads.values())))
            engine.execute(ready, planned, place, self.accept, self.tick, self.tell)


@contextmanager
def _recorded(sweep: Sweep, listen: events.Listener) -> Iterator[_Session]:
    """A session with the store locked; the dataset and the history are right at its end."""
    store, started = sweep.store, time.monotonic()
    with store.locked():
        _check_growth(sweep)
        store.describe(sweep.experiment.text, sweep.cells)
        tell = events.to_all(history.recorder(store.path), listen)
        session = _Session(sweep, tell)
        interrupted = False
        try:
            yield session
        except KeyboardInterrupt:
            interrupted = True
            raise
        finally:
            with explained(store.path):
                session.journal.refresh()
                session.publish()
                statuses = sweep.statuses(session.ledger)
                tell(events.RunEnded(statuses, time.monotonic() - started, interrupted))


def _check_growth(sweep: Sweep) -> None:
    """Refuse an experiment of the same name that no longer has all the store's cells."""
    if not sweep.store.described:
        return
    gone = sweep.store.cells - sweep.cells.keys()
    if gone:
        raise StoreError(
            f"store {str(sweep.store.path)!r} holds {len(gone)} cells that experiment "
            f"{sweep.experiment.name!r} does not have as it is now (it has {len(sweep.cells)}): a "
            "value was taken out, or a file that it names holds something else now; a store can "
            "grow, not change: give another --store"
        )


@contextmanager
def _client(given: Any, spec: "ClusterSpec | None") -> Iterator[Any]:
    from sweep import cluster

    if given is not None:
        yield given
        return
    with cluster.connected(spec or cluster.LOCAL) as client:
        yield client


def _companions(grid: Grid, cell: Cell) -> dict[str, Any]:
    return {
        name: values[axis.values.index(cell.coords[axis.name])]
        for axis in grid.axes
        for name, values in axis.companions.items()
    }


def _run_number(segment: str) -> int:
    head = segment.partition("-")[0].removeprefix("r")
    return int(head) if head.isdigit() else 0
