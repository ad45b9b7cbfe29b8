"""The commands run and rerun: solve cells, write the journal, and derive the dataset."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from solvers import mechanism
from sweep import events
from sweep.errors import ClusterError, ExperimentError, SweepError
from sweep.experiment.loading import load_experiment
from sweep.experiment.schema import Experiment
from sweep.grid.expansion import expand, find_code_entries, refuse_code
from sweep.plan import solves, tasks
from sweep.plan.tasks import Solves
from sweep.runner.session import Session, open_session
from sweep.state.stored import (
    StoredExperiment,
    find_other_certifiers,
    load_stored,
    select_unfinished,
)
from sweep.store import code, environment
from sweep.store.folder import Store, WorkerStore, create
from sweep.store.keys import to_texts
from sweep.store.ledger import MAX_WORKER_DEATHS

if TYPE_CHECKING:
    from distributed import Client

    from sweep.cluster.specification import ClusterSpec


def run(
    experiment: Experiment | str | Path,
    store: str | Path,
    client: "Client | None" = None,
    *,
    cluster: "ClusterSpec | str | Path | None" = None,
    allow_code: bool = False,
    allow_mixed: bool = False,
    patience: float | None = None,
    mechanisms: Mapping[str, code.Function] | None = None,
    listen: events.Listener | None = None,
) -> Store:
    """Solve the cells of an experiment for which a store has no result yet.

    Parameters
    ----------
    experiment : Experiment, str or Path
        The experiment, or its name, or the path of its file.
    store : str or Path
        The folder of the results; created if it does not exist. If it already has results of this
        experiment, only the cells without a result, or with status ``lost``, are solved, except
        lost cells that killed three workers.
    client : distributed.Client, optional
        Client of the cluster to use; by default a cluster is started if there is anything to solve.
    cluster : ClusterSpec, str or Path, optional
        The cluster to start, or the path of its ``cluster.yaml``; by default a cluster on this
        machine with one process for every processor.
    allow_code : bool
        Whether functions that the experiment names (workload or mechanism ``entry-point``) may be
        called, here and on the workers.
    allow_mixed : bool
        Whether workers may have other versions of Python and of libraries than this process.
    patience : float, optional
        Seconds to wait for workers or for a scheduler that does not answer; by default the
        ``patience`` of the cluster's specification, which is 600 unless it is set there.
    mechanisms : Mapping[str, callable], optional
        Functions ``f(problem, *, option=default, ...)``, by the mechanism's name in the experiment.
        A function returns a strategy matrix or a `solvers.Solution`, which is verified.
        The workers must be able to import or unpickle the functions.
    listen : callable, optional
        Called with every event; see `sweep.events`.

    Returns
    -------
    Store
        The store. `sweep.run` returns its dataset instead: an `xarray.Dataset`, or an
        `xarray.DataTree` with one node for each group if there are several.

    Raises
    ------
    ExperimentError
        If the experiment is not valid, or names a function and ``allow_code`` is false.
    StoreError
        If the store belongs to another experiment, is in use, or cannot be written.
    DatasetError
        If the store's dataset could not be written; raised after the results have been recorded.
    ClusterError
        If the cluster cannot be started or reached.
    SchedulerLostError
        If the cluster's scheduler is lost for longer than ``patience``; the remaining cells stay
        pending.
    NoWorkersError
        If the cluster has no workers for longer than ``patience``; the remaining cells stay
        pending.
    """
    from sweep.cluster.specification import requested

    spec = requested(cluster, patience, allow_mixed=allow_mixed)
    with mechanism.added(mechanisms or {}):
        loaded = experiment if isinstance(experiment, Experiment) else load_experiment(experiment)
        _check_given(loaded, mechanisms or {})
        grids = expand(loaded, allow_code=allow_code)
        stored = StoredExperiment(loaded, grids, create(store, loaded.name))
        with open_session(stored, listen) as session:
            ledger = session.journal.ledger
            todo = select_unfinished(stored.cells, ledger)
            if records := solves.reuse_records(todo, ledger):
                session.write(f"{session.run}-reused", records)
                todo = select_unfinished(todo, ledger)
            deadly = ledger.deaths(ledger.rows(todo.ids)) >= MAX_WORKER_DEATHS
            work = session.begin(todo.take(~deadly), len(records), int(deadly.sum()))
            solve(session, work, client, spec, mechanisms or {})
    return stored.store


def rerun(
    store: str | Path,
    where: str | None = None,
    client: "Client | None" = None,
    *,
    time_limit: float | None = None,
    cluster: "ClusterSpec | str | Path | None" = None,
    allow_code: bool = False,
    allow_mixed: bool = False,
    patience: float | None = None,
    mechanisms: Mapping[str, code.Function] | None = None,
    listen: events.Listener | None = None,
) -> Store:
    """Solve some cells of a store again.

    Parameters
    ----------
    store : str or Path
        The folder of the results.
    where : str, optional
        A condition over the coordinates, ``status``, ``code`` and every other variable that has
        one value for each cell, for instance ``"mechanism == 'CA' and variance_ratio > 2"``. By
        default the failed, timed-out and lost cells are solved again, and certificates that failed
        or were stopped are repeated. ``code`` is ``other`` if the cell was solved, or its problem
        certified, by another revision of the code or another version of a user's function. It is
        ``edited`` if a module of the mechanism or workload has changed since the solve without a
        new revision; otherwise, and for pending and lost cells, it is ``current``. A cell that was
        ``ok`` keeps its result if it fails this time.
    time_limit : float, optional
        Time limit of one solve in seconds; replaces the experiment's time limit.
    client, cluster, patience, mechanisms, allow_code, allow_mixed, listen
        As for `run`.

    Returns
    -------
    Store
        As for `run`.

    Raises
    ------
    SweepError
        If the condition is not valid or holds for no cell, or the time limit is negative.
    ExperimentError, StoreError, DatasetError, ClusterError, SchedulerLostError, NoWorkersError
        As for `run`.
    """
    from sweep.cluster.specification import requested
    from sweep.runner.selection import select_cells

    spec = requested(cluster, patience, allow_mixed=allow_mixed)
    with mechanism.added(mechanisms or {}):
        stored = load_stored(store)
        _check_given(stored.experiment, mechanisms or {})
        if not allow_code:
            refuse_code(stored.experiment)
        if time_limit is not None:
            if not time_limit >= 0:
                raise SweepError(
                    f"time limit is {time_limit}; expected a number of seconds, 0 or more"
                )
            longer = stored.experiment.model_copy(update={"time_limit": time_limit})
            stored = replace(stored, experiment=longer)
        with open_session(stored, listen) as session:
            chosen = select_cells(stored, session.journal.ledger, where)
            keys, number = chosen.problems
            again = set(session.journal.ledger.bound_errors)
            if where is not None:
                again.intersection_update(to_texts(keys[np.unique(number)]))
            outdated = find_other_certifiers(chosen, session.journal.ledger, code.Codes())
            again.update(to_texts(keys[np.unique(number[outdated])]))
            solve(session, session.begin(chosen, again=again), client, spec, mechanisms or {})
    return stored.store


def _check_given(experiment: Experiment, mechanisms: Mapping[str, code.Function]) -> None:
    """Refuse functions that the experiment does not name, or whose answers cannot be kept apart.

    Raises
    ------
    ExperimentError
        If one of ``mechanisms`` is not a mechanism of the experiment, or captures a value that
        cannot be compared with that of a later run.
    """
    for name, function in mechanisms.items():
        named = {entry.name for block in experiment.blocks for entry in block.mechanism}
        if name not in named:
            raise ExperimentError(
                f"mechanisms: {name!r} is not a mechanism of experiment {experiment.name!r}, which "
                f"has {', '.join(sorted(named))}; add it to a block: mechanism: [..., {name}]"
            )
        for variable, hashed in code.hash_captured(function).items():
            if hashed is None:
                raise ExperimentError(
                    f"mechanisms: {name!r} uses the variable {variable!r}, whose value cannot be "
                    "compared with that of a later run, so a change of it would go unnoticed; make "
                    "it an option of the function (with a default, after a *), or create it inside"
                )


def _list_modules(experiment: Experiment, mechanisms: Mapping[str, code.Function]) -> set[str]:
    """Return the modules of all functions that the experiment names or the user passes.

    ``__main__`` is left out.
    """
    modules = {function.__module__ for function in mechanisms.values()}
    for _, _, entry in find_code_entries(experiment):
        written = entry.params.get("function", "")
        named = written if isinstance(written, list) else [written]
        modules.update(str(function).partition(":")[0] for function in named)
    return modules - {"__main__", ""}


def solve(
    session: Session,
    work: Solves,
    client: "Client | None",
    spec: "ClusterSpec",
    mechanisms: Mapping[str, code.Function],
) -> None:
    """Do the solves that a session has planned, and write every outcome into the session's journal.

    Parameters
    ----------
    session : Session
        The session of the run.
    work : Solves
        The solves; if it is empty, no cluster is started.
    client : distributed.Client, optional
        Client of the cluster to use; None to start or connect to the cluster of ``spec``.
    spec : ClusterSpec
        The specification of the cluster and of what its workers must have.
    mechanisms : Mapping[str, callable]
        The user's functions, by the name of the mechanism; this process sends them to the workers.

    Raises
    ------
    ClusterError, SchedulerLostError, NoWorkersError
        As for `run`.
    """
    if not work:
        return
    from sweep.cluster import clusters, signals
    from sweep.cluster.workforce import Workforce
    from sweep.runner.dispatch import Dispatch
    from sweep.worker import checks

    if client is not None and not hasattr(client, "scheduler_info"):
        raise ClusterError(f"client is {client!r}; expected a distributed.Client")
    store = session.stored.store
    worker_store = WorkerStore(
        replace(store, path=store.path.resolve()),
        session.stored.experiment.keep,
        versions="" if spec.allow_mixed else environment.list_versions(),
        mechanisms=tuple(mechanisms.items()),
    )
    session.meter.report()
    with ExitStack() as stack:
        ready = stack.enter_context(clusters.connected(spec)) if client is None else client
        started = None if client is not None or spec.address else ready.cluster
        workforce = Workforce(ready, spec, session.emit, stack, started)
        if client is None and (exposed := clusters.describe_exposure(workforce.address)):
            open_to = (
                f"scheduler {workforce.address} asks for no key: {exposed} can run code as you"
            )
            session.emit(events.Warned(open_to))
        checks.check_workers(
            ready, worker_store, _list_modules(session.stored.experiment, mechanisms)
        )
        workforce.look()
        blocks = tasks.pack_tasks(work, sum(workforce.threads))
        check_interrupts = stack.enter_context(signals.deferred_interrupt())

        def tick() -> None:
            check_interrupts()
            session.tick()

        try:
            Dispatch(session, workforce, work, blocks, worker_store).perform(tick)
            session.meter.tasks = 0
        finally:
            session.meter.report()
