"""Commands that watch a sweep from outside: ``status`` and ``logs``."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from sweep.cli.errors import OK, TROUBLED, error_handling
from sweep.cli.options import AsJson, StoreFolder, WhereOption

if TYPE_CHECKING:
    from rich.console import Console

    from sweep.runner.status import StoreStatus

_GLANCE_SECONDS = 1.0
_LOOK_SECONDS, _LOOK_SHARE = 2.0, 20.0
"""The whole journal is read this often, for at most a twentieth of the time."""


def status(
    store: StoreFolder,
    errors: Annotated[
        bool, typer.Option("--errors", help="Show all errors, with tracebacks.")
    ] = False,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Keep it up to date until the run ends, or Ctrl-C."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the state of a store, from any terminal or machine, even during a run.

    The exit codes are those of 'sweep run'.

    Example: sweep status results/vldb-table5 --watch
    """
    with error_handling():
        from sweep.report import consoles, states
        from sweep.runner.status import status as status_of

        console = consoles.console()
        state = _watched(store, console, as_json=as_json) if watch else status_of(store)
        if as_json:
            typer.echo(states.status_json(state))
        else:
            console.print(states.store_status(state))
            for line in states.troubles(state.troubles, traces=errors):
                console.print(line)
        raise typer.Exit(OK if state.well else TROUBLED)


def logs(
    store: StoreFolder,
    cell: Annotated[
        str | None, typer.Argument(metavar="CELL", help="The id of a cell, or its beginning.")
    ] = None,
    where: WhereOption = None,
    as_json: AsJson = False,
) -> None:
    """Show what happened in a store and when; for cells, every attempt with its full traceback.

    Examples: sweep logs results/vldb-table5

      sweep logs results/vldb-table5 --where "status == 'failed'"
    """
    with error_handling():
        from sweep.errors import SweepError
        from sweep.report import consoles, states
        from sweep.runner import history, log
        from sweep.store.folder import open_

        if cell is not None and where is not None:
            raise SweepError("give either CELL or --where, not both")
        console = consoles.console()
        if cell is None and where is None:
            lines = list(log.lines(open_(store).path))
            if as_json:
                typer.echo(states.log_json(lines))
                return
            for line in states.logged(lines):
                console.print(line, soft_wrap=True)
            return
        if where is not None:
            histories = history.where(store, where)
        else:
            histories = history.of_cells(store, cell or "")
        if as_json:
            typer.echo(states.histories_json(histories))
            return
        for cell_history in histories:
            for line in states.history(cell_history):
                console.print(line, soft_wrap=True)


def _watched(store: str, console: "Console", *, as_json: bool) -> "StoreStatus":
    """Show the state until no run is in progress, then return it."""
    from rich.live import Live

    from sweep.report import states
    from sweep.runner import status as store_status

    shows = Live(console=console, transient=True, auto_refresh=False)
    next_look, state = 0.0, None
    with shows:
        while True:
            began = time.monotonic()
            if state is None or began >= next_look:
                state = store_status.status(store)
                took = time.monotonic() - began
                next_look = began + max(_LOOK_SECONDS, _LOOK_SHARE * took)
            else:
                state = store_status.glance(state)
            if state.user is None:
                return store_status.status(store)
            if as_json:
                typer.echo(states.status_json(state, indent=None))
            elif console.is_terminal:
                shows.update(states.store_status(state), refresh=True)
            time.sleep(_GLANCE_SECONDS)
