"""Solves and bounds computed on a given cluster, or on one started for them."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from distributed import Client

from sweep.cluster import clusters, security, signals
from sweep.cluster.specification import ClusterSpec
from sweep.cluster.workforce import StartedCluster, Workforce
from sweep.events import ClusterExposed
from sweep.plan import tasks
from sweep.plan.items import Item, Items
from sweep.plan.tasks import Task
from sweep.runner.dispatch import Dispatch, Remedies
from sweep.runner.late_records import LateRecords
from sweep.runner.progress import ProgressMeter
from sweep.runner.session import Session
from sweep.store import versions
from sweep.store.view import StoreView
from sweep.worker import compatibility
from sweep.worker.perform import TaskOutcome


def solve(
    session: Session,
    items: Items[Item],
    cells: int,
    client: Any,
    spec: ClusterSpec,
    mechanisms: Mapping[str, Callable[..., Any]],
) -> None:
    """Do the work that a session has planned; every outcome goes to its journal.

    Parameters
    ----------
    session : Session
        The run.
    items : Items
        The solves and bounds.
    cells : int
        Number of the cells that they solve.
    client : distributed.Client, optional
        Client of the cluster to use; None to start one, or to connect to one.
    spec : ClusterSpec
        How to get that cluster, and what is asked of its workers.
    mechanisms : Mapping[str, callable]
        Mechanisms that workers know from this process alone.

    Raises
    ------
    ClusterError, SchedulerLostError, NoWorkersError
        As for `sweep.runner.commands.run`.
    """
    store = session.stored.store
    view = StoreView(
        str(store.path.resolve()),
        store.identity,
        session.stored.experiment.keep,
        versions="" if spec.allow_mixed else versions.ours(),
        mechanisms=tuple(mechanisms.items()),
    )
    late_records = LateRecords(view, session.journal.names, session.run)
    with ExitStack() as stack:
        ready = stack.enter_context(clusters.connected(spec)) if client is None else client
        exposed = security.exposure(ready.scheduler.address) if client is None else ""
        if exposed:
            session.tell(ClusterExposed(exposed))
        compatibility.check_workers(ready, view)
        started = ready.cluster if client is None else None
        workforce = Workforce(
            ready,
            None if started is None else StartedCluster(started, spec.adapt),
            spec.patience,
            session.tell,
        )
        planned = tasks.packed(items, session.run, _threads(ready))
        meter = ProgressMeter(planned, cells, session.stored.label, session.began, session.tell)
        interruption = stack.enter_context(signals.noted())

        def wait() -> None:
            interruption()
            session.tick()

        def tick() -> None:
            wait()
            workforce.look()
            meter.look(workforce.threads)

        def accept(task: Task, done: TaskOutcome) -> None:
            session.accept(done)
            meter.take(task, done)

        def regain(lost: Any) -> Any:
            return workforce.follow(clusters.reconnected(lost, spec, stack, wait, session.tell))

        def renew(stalled: Any) -> Any:
            make: Any = Client
            scheduler = stalled.cluster or stalled.scheduler.address
            client = make(scheduler, security=stalled.security, set_as_default=False)
            stack.callback(client.close, timeout=5)
            return workforce.follow(client)

        try:
            remedies = Remedies(regain, renew, workforce.refuse)
            Dispatch(
                ready, planned, view, accept, tick, session.tell, remedies, late_records
            ).perform()
        finally:
            meter.tell()


def _threads(client: Any) -> int:
    """How many threads the cluster has now; 0 if it does not say."""
    try:
        return sum(client.nthreads().values())
    except Exception:
        return 0
