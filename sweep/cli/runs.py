"""Commands that prepare a run or solve cells: ``list``, ``plan``, ``run``, ``rerun``."""

import ctypes
import json
import signal
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from sweep.cli import complete
from sweep.cli.common import (
    TROUBLED,
    AllowCode,
    AllowMixed,
    AsJson,
    Cluster,
    Experiment,
    NewStore,
    Patience,
    Settings,
    Store,
    Text,
    Where,
    load_cluster,
    print_error,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_MMAP_THRESHOLD = -3
"""``M_MMAP_THRESHOLD`` of glibc's malloc.h."""
_LARGE_BYTES = 2**20


def list_(
    kind: Annotated[Text, Argument(metavar="KIND", autocompletion=complete.listings)] = None,
    json_: AsJson = False,
) -> None:
    """List experiments, workloads, targets and mechanisms.

    Workloads, targets and mechanisms are listed with their parameters.

    Example: sweep list mechanisms

    Parameters
    ----------
    kind
        What to list: experiments, workloads, targets or mechanisms; by default all of them.
    """
    from sweep.report import consoles, listing

    kinds = listing.KINDS if kind is None else [kind]
    listings = {title: listing.list_entries(title) for title in kinds}
    if json_:
        typer.echo(json.dumps(listings, indent=2, default=vars))
        return
    console = consoles.make_console()
    for title, entries in listings.items():
        console.print(listing.make_table(title, entries))
        console.print()
    for trouble in listing.list_troubles():
        console.print(trouble, markup=False)


def plan(
    experiment: Experiment,
    store: NewStore = None,
    set_: Settings = None,
    cluster: Cluster = None,
    allow_code: AllowCode = False,
) -> None:
    """Show what a run would do, without doing it.

    Prints how many cells there are, how many are already in the store, how many solves remain, the
    largest matrix, the memory that a worker needs, and the estimated time.

    Example: sweep plan vldb-table5 --set d=64,128
    """
    from sweep.cluster.clusters import count_threads
    from sweep.experiment.loading import load_experiment
    from sweep.plan import dry_run
    from sweep.report import consoles, states

    loaded = load_experiment(experiment, set_ or ())
    folder = f"results/{loaded.name}" if store is None else store
    spec = load_cluster(cluster, allow_code=allow_code)
    workers = count_threads(spec) if cluster else None
    planned = dry_run.plan(loaded, folder, allow_code=allow_code, workers=workers)
    machines = f"of {cluster}, as fast as this machine" if cluster else "on this machine"
    consoles.make_console().print(states.describe_plan(planned, folder, machines))


def run(
    experiment: Experiment,
    store: NewStore = None,
    cluster: Cluster = None,
    set_: Settings = None,
    allow_code: AllowCode = False,
    allow_mixed: AllowMixed = False,
    patience: Patience = None,
) -> None:
    """Solve the cells that are not in the store yet.

    Shows the tables at the end. Ctrl-C ends the run cleanly; the same command continues where it
    stopped.

    Example: sweep run vldb-table5 --set d=64,128 --store results/small
    """
    from sweep.experiment.loading import load_experiment
    from sweep.runner import commands

    loaded = load_experiment(experiment, set_ or ())
    folder = f"results/{loaded.name}" if store is None else store
    spec = load_cluster(cluster, allow_code=allow_code, allow_mixed=allow_mixed, patience=patience)
    _watch(folder, partial(commands.run, loaded, folder, cluster=spec, allow_code=allow_code))


def rerun(
    store: Store,
    stale: Annotated[bool, Option("--stale")] = False,
    where: Where = None,
    time_limit: Annotated[float | None, Option(metavar="SECONDS", min=0.0)] = None,
    cluster: Cluster = None,
    allow_code: AllowCode = False,
    allow_mixed: AllowMixed = False,
    patience: Patience = None,
) -> None:
    """Solve some cells again, by default those that failed.

    The default includes cells that timed out or were lost. A cell that was ok keeps its earlier
    result if it fails now.

    Example: sweep rerun results/vldb-table5 --where "mechanism == 'CA'"

    Parameters
    ----------
    stale
        Select cells that were solved by other code.
    time_limit
        Time limit of one solve, unless its mechanism has one of its own; by default that of the
        experiment.
    """
    from sweep.errors import SweepError
    from sweep.runner import commands
    from sweep.runner.selection import STALE

    if stale and where is not None:
        raise SweepError("give either --stale or --where, not both")
    spec = load_cluster(cluster, allow_code=allow_code, allow_mixed=allow_mixed, patience=patience)
    work = partial(commands.rerun, store, STALE if stale else where, time_limit=time_limit)
    _watch(store, partial(work, cluster=spec, allow_code=allow_code))


def _watch(folder: str, work: "Callable[..., object]") -> None:
    """Do the work with a progress bar; then print tables, the dataset's path and unfinished cells.

    Raises Exit with code 1 if cells are unfinished or there is no dataset.
    """
    from sweep.dataset import reading
    from sweep.errors import DatasetError, StoreError
    from sweep.report import consoles, formats, messages, states
    from sweep.report.tables import Wanted
    from sweep.store.folder import open_

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, signal.default_int_handler)
    # by default glibc retains freed large arrays for every thread (mallopt(3)), wasting memory
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
    console = consoles.make_console(when_closed=lambda: _note_closed(folder))
    no_dataset: StoreError | None = None
    with messages.ProgressBar(console) as bar:
        try:
            work(listen=bar)
        except DatasetError as error:
            no_dataset = error
    store, last = open_(folder), bar.ended
    assert last is not None
    if no_dataset is None:
        try:
            dataset = reading.open_dataset(store.path, reading.LARGE_TEXTS)
            experiment = reading.experiment_of(dataset)
            formats.show_store(dataset, experiment, folder, console, Wanted(spread="none"))
        except StoreError as error:
            no_dataset = error
    console.print(
        f"{messages.format_counts(last.statuses)} in {messages.format_duration(last.seconds)}"
    )
    if no_dataset is None:
        console.print(f"dataset: {store.dataset.path}", markup=False)
    else:
        print_error(f"warning: {no_dataset}")
    remaining = messages.describe_remaining(last, folder)
    for line in remaining:
        console.print(line, markup=False)
    if other := states.describe_other_code(last.of_other_code, last.statuses, folder):
        console.print(other, markup=False)
    if remaining or no_dataset:
        raise typer.Exit(TROUBLED)


def _note_closed(folder: str) -> None:
    """Report on standard error and in the store's log that the output was closed."""
    from sweep.events import Warned
    from sweep.runner.log import Log
    from sweep.store.paths import locate

    with suppress(OSError):
        print_error("the output was closed; the sweep continues without it, and Ctrl-C ends it")
    Log(locate(folder))(Warned("the output was closed; the run continues without it"))
