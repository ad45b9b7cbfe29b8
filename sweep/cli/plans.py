"""Commands for use before a run: ``list`` and ``plan``."""

from typing import Annotated

import typer

from sweep.cli.errors import error_handling
from sweep.cli.options import (
    AllowCode,
    AsJson,
    ClusterOption,
    ExperimentName,
    SetOption,
    StoreOption,
    cluster_of,
    default_store,
)


def list_(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="KIND", help="experiments, workloads, targets or mechanisms."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List experiments, workloads, targets and mechanisms with their parameters.

    Example: sweep list mechanisms
    """
    with error_handling():
        from sweep.errors import SweepError
        from sweep.report import consoles, listing

        if kind is not None and kind not in listing.LISTINGS:
            raise SweepError(
                f"there is no list of {kind!r}; expected one of: {', '.join(listing.LISTINGS)}"
            )
        listings = listing.catalog(kind)
        if as_json:
            typer.echo(listing.to_json(listings))
            return
        console = consoles.console()
        for title, entries in listings.items():
            console.print(listing.table(title, entries))
            console.print()
        for trouble in listing.troubles():
            console.print(trouble, markup=False)


def plan(
    experiment: ExperimentName,
    store: StoreOption = None,
    set_: SetOption = None,
    cluster: ClusterOption = None,
    allow_code: AllowCode = False,
) -> None:
    """Show what a run would do, without doing it.

    Prints the numbers of cells, finished cells and solves, the largest matrix, memory and time.

    Example: sweep plan vldb-table5 --set d=64,128
    """
    with error_handling():
        from rich.markup import escape

        from sweep.cluster.size import planned_threads
        from sweep.experiment.loading import load_experiment
        from sweep.plan import dry_run
        from sweep.report import consoles, states

        loaded = load_experiment(experiment, set_ or ())
        folder = default_store(loaded.name) if store is None else store
        spec = cluster_of(cluster, allow_code=allow_code)
        workers = planned_threads(spec) if spec else None
        planned = dry_run.plan(loaded, folder, allow_code=allow_code, workers=workers)
        machines = f"of {cluster}, as fast as this machine" if cluster else "on this machine"
        consoles.console().print(states.planned(planned, f"({folder})", escape(machines)))
