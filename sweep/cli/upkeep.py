"""Commands that keep stores in order: ``merge``, ``forget``, ``compact`` and ``pack``."""

from pathlib import Path
from typing import Annotated

import typer

from sweep.cli.endings import AGAIN, sentences
from sweep.cli.options import StoreFolder


def merge(
    stores: Annotated[list[str], typer.Argument(metavar="STORE...", help="The stores to merge.")],
    into: Annotated[str, typer.Option(metavar="STORE", help="The store that receives them.")],
) -> None:
    """Bring the results of several stores of one experiment together, from several clusters.

    Example: sweep merge results/here s3://bucket/there --into results/both
    """
    with sentences(AGAIN):
        from sweep.runner import upkeep

        cells = upkeep.merge(stores, into)
        typer.echo(f"{cells} cells have a result in {into}")


def forget(
    store: StoreFolder,
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help="Select cells as 'sweep rerun' does."),
    ] = None,
    hidden: Annotated[
        bool, typer.Option("--hidden", help="Select cells that the experiment no longer has.")
    ] = False,
) -> None:
    """Count nothing any more that was recorded of some cells; 'sweep run' solves them again.

    Example: sweep forget results/vldb-table5 --where "mechanism == 'HM'"
    """
    with sentences(AGAIN):
        from sweep.errors import SweepError
        from sweep.runner import upkeep

        if hidden == (where is not None):
            raise SweepError("give --where CONDITION or --hidden, and not both")
        cells = upkeep.forget(store, where)
        typer.echo("1 cell is forgotten" if cells == 1 else f"{cells:,} cells are forgotten")


def compact(store: StoreFolder) -> None:
    """Put all journal segments into one, which is faster to read and to copy.

    Example: sweep compact results/vldb
    """
    with sentences(AGAIN):
        from sweep.runner import upkeep

        segments = upkeep.compact(store)
        said = f"{segments:,} segments are one now"
        typer.echo(said if segments > 1 else "the journal has no segments to put together")


def pack(
    store: StoreFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="NAME.tar or NAME.tar.gz.")],
) -> None:
    """Write a store into one file, to send or to archive; 'tar xf' unpacks it.

    Example: sweep pack results/vldb-table5 table5.tar.gz
    """
    with sentences(AGAIN):
        from sweep.runner import upkeep

        typer.echo(f"{file}: {upkeep.pack(store, file):,} bytes")
