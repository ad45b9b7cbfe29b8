"""The application to which every module adds its commands."""

import io
import os
import sys
import warnings
from typing import Annotated

import typer

from sweep.cli.errors import debug_mode

_HELP = """
Sweeps of differentially private query mechanisms on a Dask cluster.

An EXPERIMENT is a grid of workloads, variance targets and mechanisms: either the name of a shipped
one ('sweep list experiments') or the path of a YAML file. Its results go to a store, a folder with
a journal and an xarray dataset, STORE/results.zarr, which can be opened at any time. Running an
experiment again solves only the cells that are not in its store yet.

A first session:

  sweep list experiments\n
  sweep plan vldb-table4\n
  sweep run vldb-table4\n
  sweep show results/vldb-table4

Exit codes: 0 success; 1 some cells failed, timed out, were lost or are still pending, or the
dataset could not be written; 2 bad input; 70 internal error; 130 interrupted.
"""

app = typer.Typer(
    help=_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(requested: bool) -> None:
    if requested:
        from sweep.dataset.provenance import revision, version_of

        typer.echo(f"fitness-sweep {version_of('fitness-sweep')} (git revision: {revision()})")
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
    debug_mode["on"] = debug


def settle() -> None:
    """Make standard streams accept any text, and warnings print without source code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the calling process
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for good
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    warnings.formatwarning = lambda message, *_about, **_more: f"warning: {message}\n"
