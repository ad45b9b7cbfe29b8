"""Commands on stores: ``status`` and ``logs``, ``merge``, ``forget``, ``compact`` and ``pack``."""

import time
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from sweep.cli.common import OK, TROUBLED, AsJson, Store, Text, Where

if TYPE_CHECKING:
    from rich.console import Console

    from sweep.runner.status import StoreStatus

_PAUSE_SECONDS, _PAUSE_SHARE = 1.0, 10.0
"""Shortest pause between readings of a store: in seconds, and as a multiple of a reading's time."""


def status(
    store: Store,
    errors: Annotated[bool, Option("--errors")] = False,
    watch: Annotated[bool, Option("--watch")] = False,
    json_: AsJson = False,
) -> None:
    """Show the state of a store, even during a run.

    This works in any terminal, on any machine that can read the store. The exit codes are those of
    'sweep run'.

    Example: sweep status results/vldb-table5 --watch

    Parameters
    ----------
    errors
        Show all errors, with tracebacks.
    watch
        Update the display until the run ends or Ctrl-C is pressed.
    """
    from sweep.report import consoles, states
    from sweep.runner.status import status as status_of

    console = consoles.make_console()
    state = _watch(store, console, as_json=json_) if watch else status_of(store)
    if json_:
        typer.echo(states.status_json(state, indent=None if watch else 2))
    else:
        console.print(states.describe_status(state))
        for line in states.describe_troubles(state.troubles) if errors else ():
            console.print(line)
    raise typer.Exit(OK if state.healthy else TROUBLED)


def _watch(store: str, console: "Console", *, as_json: bool) -> "StoreStatus":
    """Show a store's state repeatedly until no run is in progress; return the last state."""
    from rich.live import Live

    from sweep.report import states
    from sweep.runner.status import status as status_of

    with Live(console=console, transient=True, auto_refresh=False) as shown:
        while True:
            began = time.monotonic()
            state = status_of(store)
            took = time.monotonic() - began
            if state.running is None:
                return status_of(store)  # the run may have ended after its cells were read
            if as_json:
                typer.echo(states.status_json(state, indent=None))
            elif console.is_terminal:
                shown.update(states.describe_status(state), refresh=True)
            time.sleep(max(_PAUSE_SECONDS, _PAUSE_SHARE * took))


def logs(
    store: Store,
    cell: Annotated[Text, Argument(metavar="CELL")] = None,
    where: Where = None,
    json_: AsJson = False,
) -> None:
    """Show what happened in a store, or to some cells, and when.

    With CELL or --where, shows every attempt of the cells with its full traceback.

    Examples: sweep logs results/vldb-table5

      sweep logs results/vldb-table5 --where "status == 'failed'"

    Parameters
    ----------
    cell
        The id of a cell, or the first characters of the id.
    """
    from sweep.errors import SweepError
    from sweep.report import consoles, states
    from sweep.runner import log
    from sweep.runner.status import read_histories
    from sweep.store.folder import open_

    if cell is not None and where is not None:
        raise SweepError("give either CELL or --where, not both")
    if cell is None and where is None:
        logged = list(log.read_lines(open_(store).path))
        content, lines = [line.content for line in logged], states.describe_log(logged)
    else:
        chosen = read_histories(store, cell or "", where)
        content = list(map(states.history_content, chosen))
        lines = chain.from_iterable(map(states.describe_history, chosen))
    if json_:
        typer.echo(states.to_json(content))
        return
    console = consoles.make_console()
    for line in lines:
        console.print(line, soft_wrap=True)


def merge(
    stores: Annotated[list[str], Argument(metavar="STORE")],
    into: Annotated[str, Option(metavar="STORE")],
) -> None:
    """Merge several stores of an experiment into one store.

    The stores may come from several clusters.

    Example: sweep merge results/here s3://bucket/there --into results/both

    Parameters
    ----------
    stores
        The stores to merge.
    into
        The store that receives the results; created if it does not exist.
    """
    from sweep.runner import maintenance

    cells = maintenance.merge(stores, into)
    typer.echo(f"{cells:,} cell{' has' if cells == 1 else 's have'} a result in {into}")


def forget(
    store: Store, where: Where = None, hidden: Annotated[bool, Option("--hidden")] = False
) -> None:
    """Drop all records of some cells.

    'sweep run' solves these cells again. If this store was merged into another, that store still
    has the results of the cells: forget the cells there, too.

    Example: sweep forget results/vldb-table5 --where "mechanism == 'HM'"

    Parameters
    ----------
    hidden
        Select cells that the experiment no longer contains.
    """
    from sweep.errors import SweepError
    from sweep.runner import maintenance

    if hidden == (where is not None):
        raise SweepError("give either --where CONDITION or --hidden")
    cells = maintenance.forget(store, where)
    typer.echo("1 cell is forgotten" if cells == 1 else f"{cells:,} cells are forgotten")


def compact(store: Store) -> None:
    """Join all journal segments of a store into one.

    A single segment is faster to read and to copy.

    Example: sweep compact results/vldb
    """
    from sweep.runner import maintenance

    segments = maintenance.compact(store)
    joined = f"{segments:,} segments joined into one"
    typer.echo(joined if segments > 1 else "the journal has no segments to join")


def pack(store: Store, file: Annotated[Path, Argument(metavar="FILE")]) -> None:
    """Write a store into one file to send or archive.

    'tar xf' unpacks it.

    Example: sweep pack results/vldb-table5 table5.tar.gz

    Parameters
    ----------
    file
        NAME.tar or NAME.tar.gz.
    """
    from sweep.runner import maintenance

    typer.echo(f"{file}: {maintenance.pack(store, file):,} bytes")
