"""The command line: ``sweep list``, ``plan``, ``run``, ``status`` and so on.

Input: the arguments of a command. Output: calls of the other packages, a sentence for every error,
and an exit code.
"""

import gc
import io
import os
import re
import sys
import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from sweep.cli import common, results, runs, stores

_COLLECTION_THRESHOLDS = (10_000, 10, 100)
"""Thresholds of Python's garbage collector; with the defaults it runs often during imports."""


class _Command(TyperCommand):
    """A command that rejects a repeated option, and whose help omits the types that typer adds."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = self.make_parser(ctx).parse_args(list(args))[2]
        for option in given:
            if option.nargs == 1 and not option.multiple and given.count(option) > 1:
                ctx.fail(f"{option.opts[0]} is given more than once")
        return super().parse_args(ctx, args)

    def get_help(self, ctx: Any) -> str:
        return re.sub(r" <[\w\[\]]+>", lambda found: " " * len(found[0]), super().get_help(ctx))


app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(requested: bool) -> None:
    if requested:
        from sweep.store.environment import git_revision, version_of

        typer.echo(f"fitness-sweep {version_of('fitness-sweep')} (git revision: {git_revision()})")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Sweeps of differentially private query mechanisms on a Dask cluster.

    An experiment is a grid of workloads, variance targets and mechanisms. EXPERIMENT is the name of
    a shipped experiment ('sweep list experiments') or the path of a YAML file. The results go to a
    store: a folder with a journal and an xarray dataset, STORE/results.zarr, which can be opened at
    any time. Running an experiment again solves only the cells that are not in its store yet.

    \b
    A first session:
      sweep list experiments
      sweep plan vldb-table4
      sweep run vldb-table4
      sweep show results/vldb-table4

    Exit codes: 0 success; 1 some cells failed, timed out, were lost or are still pending, or the
    dataset could not be written; 2 bad input; 70 internal error; 130 interrupted.
    """  # noqa: D301 - click reads the character backspace
    common.debug_mode["on"] = debug


for _command in (
    runs.list_,
    runs.plan,
    runs.run,
    stores.status,
    stores.logs,
    runs.rerun,
    results.show,
    results.plot,
    results.report,
    results.advise,
    results.scorecard,
    stores.merge,
    stores.forget,
    stores.compact,
    stores.pack,
):  # in the order of ``sweep --help``
    _name, _help = _command.__name__.rstrip("_"), common.add_help(_command)
    app.command(_name, cls=_Command, help=_help)(common.handle_errors(_name)(_command))


def main() -> None:
    """Run the command line."""
    gc.set_threshold(*_COLLECTION_THRESHOLDS)
    _prepare_streams()
    try:
        app()
    except SystemExit as end:
        common.limit_exit_time(end.code)
        raise
    finally:
        gc.freeze()  # otherwise Python looks for garbage among all imported objects at exit


def _prepare_streams() -> None:
    """Make the standard streams accept any text, and make warnings print without source code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the calling process
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for good
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    warnings.formatwarning = lambda message, *_about, **_more: f"warning: {message}\n"
