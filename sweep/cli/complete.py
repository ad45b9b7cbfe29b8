"""What the shell completes: names of listings, experiments, settings, variables and so on.

Each function returns all names; typer chooses those that begin with what is typed already.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress

import typer


def listings() -> Iterable[str]:
    """Return the listings of ``sweep list``."""
    from sweep.report.listing import KINDS

    return KINDS


def experiments() -> Iterable[str]:
    """Return the shipped experiments."""
    from sweep.experiment.files import list_experiments

    return list_experiments()


def mechanisms() -> Iterable[str]:
    """Return all mechanisms."""
    import solvers

    return solvers.all_mechanisms()


def settings(ctx: typer.Context) -> Iterator[str]:
    """Yield the keys that ``--set`` can change in the command's experiment."""
    from sweep.errors import SweepError
    from sweep.experiment.loading import load_experiment
    from sweep.experiment.overrides import keys

    with suppress(SweepError):
        yield from (f"{key}=" for key in keys(load_experiment(_get_argument(ctx, "experiment"))))


def variables(ctx: typer.Context) -> Iterator[str]:
    """Yield the numeric variables of the command's store."""
    from sweep.dataset import frames, reading
    from sweep.errors import SweepError

    with suppress(SweepError):
        results = reading.open_dataset(_get_argument(ctx, "store"), reading.LARGE_TEXTS)
        groups = reading.split_groups(results).values()
        yield from dict.fromkeys(name for data in groups for name in frames.list_numeric(data))


def figures(ctx: typer.Context) -> Iterator[str]:
    """Yield the figures that can be drawn of the command's store."""
    from sweep.dataset import reading
    from sweep.errors import SweepError
    from sweep.report import figures as drawn

    with suppress(SweepError):
        results = reading.open_dataset(_get_argument(ctx, "store"), reading.LARGE_TEXTS)
        yield from drawn.list_names(reading.experiment_of(results))


def _get_argument(ctx: typer.Context, name: str) -> str:
    """Return the command's first argument; beside an unfinished option, it is not parsed yet."""
    return ctx.params.get(name) or next(iter(ctx.args), "")
