"""Commands that solve cells: ``run`` and ``rerun``."""

import ctypes
import signal
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweep.cli import errors
from sweep.cli.errors import RESUME, TROUBLED, print_error
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

    from rich.console import Console

    from sweep.cluster.specification import ClusterSpec
    from sweep.events import RunEnded
    from sweep.store.folder import Store

_MMAP_THRESHOLD = -3
"""``M_MMAP_THRESHOLD`` of glibc's malloc.h."""
_LARGE_BYTES = 2**20


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
    """Solve the cells that are not in the store yet, and show the tables.

    Ctrl-C ends the run cleanly; the same command continues where it stopped.

    Example: sweep run vldb-table5 --set d=64,128 --store results/small
    """
    with errors.error_handling(RESUME):
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
            metavar="SECONDS", min=0.0, help="Time limit of one solve, instead of the experiment's."
        ),
    ] = None,
    cluster: ClusterOption = None,
    allow_code: AllowCode = False,
    allow_mixed: AllowMixed = False,
    patience: PatienceOption = None,
    prometheus: PrometheusOption = None,
) -> None:
    """Solve some cells again: by default those that failed, timed out or were lost.

    A cell that was ok keeps its result if it now fails.

    Example: sweep rerun results/vldb-table5 --where "mechanism == 'CA' and d > 256"
    """
    with errors.error_handling(RESUME):
        from sweep.errors import SweepError
        from sweep.runner import commands
        from sweep.runner.selection import STALE

        if stale and where is not None:
            raise SweepError("give either --stale or --where, not both")
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
    from sweep.errors import DatasetError, StoreError
    from sweep.events import Event, RunEnded, to_all
    from sweep.report import consoles, messages, states
    from sweep.report.messages import ProgressBar
    from sweep.store.folder import open_

    ended: list[RunEnded] = []

    def remember(event: Event) -> None:
        if isinstance(event, RunEnded):
            ended.append(event)

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _return_memory()
    console = consoles.console(when_closed=lambda: _note_closed(folder))
    no_dataset: StoreError | None = None
    with ProgressBar(console) as bar:
        try:
            work(cluster=cluster, listen=to_all(bar, remember), **options)
        except DatasetError as error:
            no_dataset = error
    store, last = open_(folder), ended[-1]
    if no_dataset is None:
        try:
            _show_tables(store, console)
        except StoreError as error:
            no_dataset = error
    console.print(f"{messages.counts(last.statuses)} in {states.duration(last.seconds)}")
    if no_dataset is None:
        console.print(f"dataset: {store.dataset.path}", markup=False)
    else:
        print_error(f"warning: {no_dataset}")
    left = list(_left(last, folder))
    for line in left:
        console.print(line, markup=False)
    if last.of_other_code:
        total = sum(last.statuses.values())
        console.print(states.other_code(last.of_other_code, total, folder), markup=False)
    if left or no_dataset:
        raise typer.Exit(TROUBLED)


def _show_tables(store: "Store", console: "Console") -> None:
    from sweep.dataset import reading
    from sweep.dataset.reading import LARGE_TEXTS, open_dataset
    from sweep.report import formats, tables

    dataset = open_dataset(store.path, LARGE_TEXTS)
    formats.show(tables.all_tables(dataset, reading.experiment_of(dataset), "none"), console)


def _return_memory() -> None:
    """Return large arrays to the system when they are freed; this process solves nothing.

    By itself glibc keeps more and more of them, for every thread (``mallopt(3)``).
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)


def _left(last: "RunEnded", folder: str) -> "Iterator[str]":
    """What is left to do after a run, in sentences."""
    from sweep.report import messages

    if any(last.statuses.get(name) for name in ("failed", "timeout", "lost")):
        yield f"'sweep status {folder} --errors' shows why; 'sweep rerun {folder}' retries them"
    if pending := last.statuses.get("pending", 0):
        yield f"pending: {messages.counted(pending, 'cell')}; 'sweep run' continues"


def _note_closed(folder: str) -> None:
    """Report a closed output on standard error and in the store's log."""
    from sweep.events import OutputClosed
    from sweep.runner.log import Log
    from sweep.store.location import located

    with suppress(OSError):
        print_error("the output was closed; the sweep continues without it, and Ctrl-C ends it")
    Log(located(folder))(OutputClosed())
