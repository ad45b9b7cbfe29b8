"""The errors of a sweep: one sentence each, and also subclasses of builtin errors."""

import shlex


class SweepError(Exception):
    """Base of the errors below; the message says what is wrong, where, and what to do."""


class ExperimentError(SweepError, ValueError):
    """An experiment, or a ``--set`` that changes it, is not valid."""


class StoreError(SweepError, OSError):
    """A store cannot be read or written, or belongs to another experiment."""


class UnknownNameError(StoreError):
    """A store has results of a mechanism that this process does not know."""


class DatasetError(StoreError):
    """The dataset of a store cannot be written, but its journal can."""


class DamagedSegmentError(StoreError):
    """A journal segment differs from what was written."""


class ClusterError(SweepError, RuntimeError):
    """A Dask cluster cannot be started or reached, or its description is not valid."""


class SchedulerLostError(ClusterError):
    """A scheduler was lost and did not come back within the run's patience."""


class NoWorkersError(ClusterError):
    """A cluster has had no workers for longer than the run's patience."""


def first_line(error: BaseException) -> str:
    """The first line of an error from foreign code, with its type if the line says little."""
    kind = type(error).__name__
    try:
        lines = str(error).strip().splitlines()
    except (Exception, SystemExit):
        lines = []
    if not lines:
        return kind
    alone = isinstance(error, Exception) and not isinstance(error, KeyError)
    return lines[0] if alone else f"{kind}: {lines[0]}"


def command(verb: str, store: object, options: str = "") -> str:
    """A command to suggest in a message: ``'sweep status results/x --errors'``.

    The store's name is quoted for the shell; ``options`` must be quoted already. If the command
    contains quotation marks, it is between backquotes.
    """
    text = " ".join(filter(None, ("sweep", verb, shlex.quote(str(store)), options)))
    return f"`{text}`" if "'" in text else f"'{text}'"
