"""Commands that keep stores in order: ``merge``, ``forget``, ``compact`` and ``pack``."""

from pathlib import Path
from typing import Annotated

import typer

from sweep.cli.errors import AGAIN, error_handling
from sweep.cli.options import StoreFolder


def merge(
    stores: Annotated[list[str], typer.Argument(metavar="STORE", help="The stores to merge.")],
    into: Annotated[str, typer.Option(metavar="STORE", help="The store that receives them.")],
) -> None:
    """Merge the results of several stores of one experiment, for instance from several clusters.

    Example: sweep merge results/here s3://bucket/there --into results/both
    """
    with error_handling(AGAIN):
        from sweep.runner import maintenance

        cells = maintenance.merge(stores, into)
        typer.echo(f"{cells:,} cell{' has' if cells == 1 else 's have'} a result in {into}")


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
    """Drop everything recorded about some cells; 'sweep run' solves them again.

    Stores that this one was merged into keep them: merge it again, or forget them there, too.

    Example: sweep forget results/vldb-table5 --where "mechanism == 'HM'"
    """
    with error_handling(AGAIN):
        from sweep.errors import SweepError
        from sweep.runner import maintenance

        if hidden == (where is not None):
            raise SweepError("give either --where CONDITION or --hidden")
        cells = maintenance.forget(store, where)
        typer.echo("1 cell is forgotten" if cells == 1 else f"{cells:,} cells are forgotten")


def compact(store: StoreFolder) -> None:
    """Join all journal segments into one, which is faster to read and copy.

    Example: sweep compact results/vldb
    """
    with error_handling(AGAIN):
        from sweep.runner import maintenance

        segments = maintenance.compact(store)
        sentence = f"{segments:,} segments joined into one"
        typer.echo(sentence if segments > 1 else "the journal has no segments to join")


def pack(
    store: StoreFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="NAME.tar or NAME.tar.gz.")],
) -> None:
    """Write a store into one file to send or archive; 'tar xf' unpacks it.

    Example: sweep pack results/vldb-table5 table5.tar.gz
    """
    with error_handling(AGAIN):
        from sweep.runner import maintenance

        typer.echo(f"{file}: {maintenance.pack(store, file):,} bytes")
