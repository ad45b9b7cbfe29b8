"""Arguments and options that several commands share, and what they stand for."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sweep.cluster.specification import ClusterSpec


def complete_experiment(incomplete: str) -> list[str]:
    """The shipped experiments with this prefix, for completion in the shell."""
    from sweep.experiment.loading import experiments

    return [name for name in experiments() if name.startswith(incomplete)]


ExperimentName = Annotated[
    str,
    typer.Argument(
        metavar="EXPERIMENT",
        help="A shipped experiment, or the path of a YAML file.",
        autocompletion=complete_experiment,
    ),
]
StoreFolder = Annotated[str, typer.Argument(metavar="STORE", help="The store of a 'sweep run'.")]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="STORE",
        help="Folder for the results, or s3://BUCKET/PREFIX, gs://..., az://... "
        "[results/EXPERIMENT]",
    ),
]
ClusterOption = Annotated[
    Path | None,
    typer.Option(
        "--cluster",
        metavar="FILE",
        help="A cluster.yaml in dask-ctl's form. [one process per processor of this machine]",
    ),
]
PatienceOption = Annotated[
    float | None,
    typer.Option(
        "--patience",
        metavar="SECONDS",
        min=0.0,
        help="How long to wait for workers, or for a scheduler that does not answer. [600]",
    ),
]
PrometheusOption = Annotated[
    str | None,
    typer.Option(
        "--prometheus",
        metavar="PORT",
        help="Serve the run's figures to Prometheus at this port of 127.0.0.1, or at HOST:PORT.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a value of the experiment, as in --set d=64,128. May be repeated.",
    ),
]
AllowCode = Annotated[
    bool,
    typer.Option(
        "--allow-code",
        help="Allow calls of functions that the experiment names (workload 'entry-point').",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
WhereOption = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Only cells that meet this condition on coordinates, status and variables.",
    ),
]
AllowMixed = Annotated[
    bool,
    typer.Option(
        "--allow-mixed",
        help="Allow workers with other versions of Python and libraries than this command.",
    ),
]


def cluster_of(path: Path | None, *, allow_code: bool) -> "ClusterSpec | None":
    """The cluster of a ``--cluster`` file; None if there is none.

    With a file, or with ``--allow-code``, modules in the current folder can be imported: either may
    name one.
    """
    if path is not None or allow_code:
        with suppress(FileNotFoundError):  # the folder has been removed
            if (here := os.getcwd()) not in sys.path:
                sys.path.append(here)
    if path is None:
        return None
    from sweep.cluster import specification

    return specification.load(path)


def default_store(name: str) -> str:
    """The default store of an experiment."""
    return f"results/{name}"


def check_choice(option: str, given: str, choices: Sequence[str]) -> None:
    """Refuse a value of an option that is none of its choices.

    Raises
    ------
    SweepError
        With the nearest choice, or all of them.
    """
    from sweep.errors import SweepError
    from workloads.parameters import nearest

    if given not in choices:
        raise SweepError(f"{option} {given!r}: there is none; {nearest(given, list(choices))}")
