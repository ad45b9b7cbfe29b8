"""Commands that solve cells: ``run`` and ``rerun``."""

import signal
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweep.cli import endings
from sweep.cli.endings import RESUME, TROUBLED, complain
from sweep.cli.options import (
    AllowCode,
    AllowMixed,
    ClusterOption,
    ExperimentName,
    PatienceOption,
    PrometheusOption,
    SetOption,
    StoreFolder,
    StoreOption,
    cluster_of,
    default_store,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sweep.cluster.specification import ClusterSpec
    from sweep.events import RunEnded


def run(
    experiment: ExperimentName,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    set_: SetOption = None,
    allow_code: AllowCode = False,
    allow_mixed: AllowMixed = False,
    patience: PatienceOption = None,
    prometheus: PrometheusOption = None,
) -> None:
    """Solve the cells that the store does not hold yet, and show the tables.

    Ctrl-C ends it cleanly; the same command continues where it stopped.

    Example: sweep run vldb-table5 --set d=64,128 --store results/small
    """
    with endings.sentences(RESUME):
        from sweep.experiment.loading import load_experiment
        from sweep.runner import commands

        loaded = load_experiment(experiment, set_ or ())
        folder = default_store(loaded.name) if store is None else store
        _watch(
            folder,
            partial(commands.run, loaded, folder),
            cluster_of(cluster, allow_code=allow_code),
            patience=patience,
            prometheus=prometheus,
            allow_code=allow_code,
            allow_mixed=allow_mixed,
        )


def rerun(
    store: StoreFolder,
    stale: Annotated[
        bool, typer.Option("--stale", help="Select cells that were solved by other code.")
    ] = False,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="Select cells by coordinates, status, code ('current' or 'other') and other "
            "variables.",
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0.0, help="Limit for one solve, instead of the experiment's."
        ),
    ] = None,
    cluster: ClusterOption = None,
    allow_code: AllowCode = False,
    allow_mixed: AllowMixed = False,
    patience: PatienceOption = None,
    prometheus: PrometheusOption = None,
) -> None:
    """Solve some cells again: by default the failed, timed-out and lost cells.

    A cell that was ok keeps its result if it now fails.

    Example: sweep rerun results/vldb-table5 --where "mechanism == 'CA' and d > 256"
    """
    with endings.sentences(RESUME):
        from sweep.errors import SweepError
        from sweep.runner import commands
        from sweep.runner.selection import STALE

        if stale and where is not None:
            raise SweepError("--stale and --where exclude each other; give one of them")
        _watch(
            store,
            partial(commands.rerun, store, STALE if stale else where, time_limit=time_limit),
            cluster_of(cluster, allow_code=allow_code),
            patience=patience,
            prometheus=prometheus,
            allow_code=allow_code,
            allow_mixed=allow_mixed,
        )


def _watch(
    folder: str, work: "Callable[..., object]", cluster: "ClusterSpec | None", **options: Any
) -> None:
    """Run with a progress bar, then show the tables, the path of the dataset and what is left."""
    from sweep.dataset.reading import LARGE_TEXTS, open_dataset
    from sweep.errors import DatasetError
    from sweep.events import Event, RunEnded, to_all
    from sweep.plan.stored import experiment_of
    from sweep.report.tables import exports
    from sweep.report.terminal import consoles, screen, sentences, tables
    from sweep.report.terminal.progress import ProgressBar
    from sweep.store.folder import open_

    ended: list[RunEnded] = []

    def remember(event: Event) -> None:
        if isinstance(event, RunEnded):
            ended.append(event)

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = consoles.console(when_closed=lambda: _note_closed(folder))
    unwritten: DatasetError | None = None
    with ProgressBar(console) as bar:
        try:
            work(cluster=cluster, listen=to_all(bar, remember), **options)
        except DatasetError as error:
            unwritten = error
    store, last = open_(folder), ended[-1]
    if unwritten is None:
        dataset = open_dataset(folder, LARGE_TEXTS)
        tables.show(exports.tables(dataset, experiment_of(store), "none"), console)
    console.print(f"{sentences.counts(last.statuses)} in {screen.duration(last.seconds)}")
    if unwritten is None:
        console.print(f"dataset: {store.dataset.path}", markup=False)
    else:
        complain(f"warning: {unwritten}")
    left = list(_left(last, folder))
    for said in left:
        console.print(said, markup=False)
    if last.of_other_code:
        total = sum(last.statuses.values())
        console.print(screen.other_code(last.of_other_code, total, folder), markup=False)
    if left or unwritten:
        raise typer.Exit(TROUBLED)


def _left(last: "RunEnded", folder: str) -> "Iterator[str]":
    """What is left to do after a run, in sentences."""
    from sweep.report.terminal import sentences

    if any(last.statuses.get(name) for name in ("failed", "timeout", "lost")):
        yield f"'sweep status {folder} --errors' shows why; 'sweep rerun {folder}' retries them"
    if pending := last.statuses.get("pending", 0):
        yield f"pending: {sentences.counted(pending, 'cell')}; 'sweep run' goes on"


def _note_closed(folder: str) -> None:
    """Say where it may be read that nobody reads the output any more."""
    from sweep.events import OutputClosed
    from sweep.runner.log import Log
    from sweep.store.location import located

    with suppress(OSError):
        complain("the output was closed; the sweep goes on without it, and Ctrl-C ends it")
    Log(located(folder))(OutputClosed())
