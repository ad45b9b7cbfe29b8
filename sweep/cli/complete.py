"""What the shell completes: names of listings, experiments, settings, variables and so on."""

from collections.abc import Iterable
from contextlib import suppress

import typer


def listings(incomplete: str) -> list[str]:
    """Return the listings of ``sweep list`` whose names have this prefix."""
    from sweep.report.listing import LISTINGS

    return _filter(incomplete, LISTINGS)


def experiments(incomplete: str) -> list[str]:
    """Return the shipped experiments whose names have this prefix."""
    from sweep.experiment.files import list_experiments as shipped

    return _filter(incomplete, shipped())


def mechanisms(incomplete: str) -> list[str]:
    """Return the mechanisms whose names have this prefix."""
    import solvers

    return _filter(incomplete, solvers.all_mechanisms())


def settings(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the keys with this prefix that ``--set`` can change in the command's experiment."""
    from sweep.errors import SweepError
    from sweep.experiment.loading import load_experiment
    from sweep.experiment.overrides import keys

    with suppress(SweepError):
        experiment = load_experiment(_get_argument(ctx, "experiment"))
        return _filter(incomplete, (f"{key}=" for key in keys(experiment)))
    return []


def variables(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the numeric variables with this prefix of the command's store."""
    from sweep.dataset import frames, reading
    from sweep.errors import SweepError

    with suppress(SweepError):
        groups = reading.groups(
            reading.open_dataset(_get_argument(ctx, "store"), reading.LARGE_TEXTS)
        )
        names = dict.fromkeys(name for data in groups.values() for name in frames.numeric(data))
        return _filter(incomplete, names)
    return []


def figures(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the figures with this prefix that can be drawn of the command's store."""
    from sweep.dataset import reading
    from sweep.errors import SweepError
    from sweep.report import figures as drawn

    with suppress(SweepError):
        results = reading.open_dataset(_get_argument(ctx, "store"), reading.LARGE_TEXTS)
        return _filter(incomplete, drawn.list_names(reading.experiment_of(results)))
    return []


def _get_argument(ctx: typer.Context, name: str) -> str:
    """Return the command's first argument; beside an unfinished option, it is not parsed yet."""
    return ctx.params.get(name) or next(iter(ctx.args), "")


def _filter(prefix: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(prefix)]
