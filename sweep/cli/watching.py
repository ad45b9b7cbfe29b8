"""Commands that watch a sweep from outside: ``status`` and ``logs``."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from sweep.cli.endings import OK, TROUBLED, sentences
from sweep.cli.options import AsJson, StoreFolder, WhereOption

if TYPE_CHECKING:
    from rich.console import Console

    from sweep.runner.status import StoreStatus

_GLANCE_SECONDS = 1.0
_LOOK_SECONDS, _LOOK_SHARE = 2.0, 20.0
"""A look at the whole journal is repeated after this, and takes a twentieth of the time at most."""


def status(
    store: StoreFolder,
    errors: Annotated[
        bool, typer.Option("--errors", help="Show all errors, with tracebacks.")
    ] = False,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Go on showing it until the run in progress ends, or Ctrl-C."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the state of a store: from any terminal or machine, even while it is being filled.

    Exit codes are those of 'sweep run'.

    Example: sweep status results/vldb-table5 --watch
    """
    with sentences():
        from sweep.report.terminal import consoles, machine, screen
        from sweep.runner.status import status as status_of

        console = consoles.console()
        found = _watched(store, console, as_json=as_json) if watch else status_of(store)
        if as_json:
            typer.echo(machine.state(found))
        else:
            console.print(screen.store_status(found))
            for line in screen.troubles(found.troubles, traces=errors):
                console.print(line)
        raise typer.Exit(OK if found.well else TROUBLED)


def logs(
    store: StoreFolder,
    cell: Annotated[
        str | None, typer.Argument(metavar="[CELL]", help="Id of a cell, or its beginning.")
    ] = None,
    where: WhereOption = None,
    as_json: AsJson = False,
) -> None:
    """Say what happened in a store and when; of cells, every attempt with its whole traceback.

    Examples: sweep logs results/vldb-table5

      sweep logs results/vldb-table5 --where "status == 'failed'"
    """
    with sentences():
        from sweep.errors import SweepError
        from sweep.report.terminal import consoles, machine, screen
        from sweep.runner import log, stories
        from sweep.store.folder import open_

        if cell is not None and where is not None:
            raise SweepError("CELL and --where exclude each other; give one of them")
        console = consoles.console()
        if cell is None and where is None:
            lines = list(log.lines(open_(store).path))
            if as_json:
                typer.echo(machine.events(lines))
                return
            for line in screen.logged(lines):
                console.print(line, soft_wrap=True)
            return
        found = stories.where(store, where) if where else stories.of_cells(store, cell or "")
        if as_json:
            typer.echo(machine.stories(found))
            return
        for one in found:
            for line in screen.story(one):
                console.print(line, soft_wrap=True)


def _watched(store: str, console: "Console", *, as_json: bool) -> "StoreStatus":
    """Show the state until no run is in progress; the state in the end."""
    from rich.live import Live

    from sweep.report.terminal import machine, screen
    from sweep.runner import status as states

    shows = Live(console=console, transient=True, auto_refresh=False)
    next_look, found = 0.0, None
    with shows:
        while True:
            began = time.monotonic()
            if found is None or began >= next_look:
                found = states.status(store)
                took = time.monotonic() - began
                next_look = began + max(_LOOK_SECONDS, _LOOK_SHARE * took)
            else:
                found = states.glance(found)
            if found.user is None:
                return states.status(store)
            if as_json:
                typer.echo(machine.state(found, indent=None))
            elif console.is_terminal:
                shows.update(screen.store_status(found), refresh=True)
            time.sleep(_GLANCE_SECONDS)
