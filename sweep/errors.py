"""Exceptions that the package raises.

The message of each exception is a sentence. Every subclass of `SweepError` also extends
`ValueError`, `OSError` or `RuntimeError`.
"""

import shlex


class SweepError(Exception):
    """Base class of the package's exceptions; messages say what is wrong, where, and what to do."""


class ExperimentError(SweepError, ValueError):
    """An experiment, or a ``--set`` change to it, is not valid."""


class StoreError(SweepError, OSError):
    """A store cannot be read or written, or belongs to another experiment."""


class UnknownNameError(StoreError):
    """A store has results of a mechanism that is not defined in this process."""


class DatasetError(StoreError):
    """The dataset of a store cannot be written, although the store's journal can be written."""


class DamagedSegmentError(StoreError):
    """A journal segment is damaged, so that its records cannot be read."""


class ClusterError(SweepError, RuntimeError):
    """A Dask cluster cannot be started or reached, or its description is not valid."""


class SchedulerLostError(ClusterError):
    """The scheduler was lost and did not come back within the time that a run waits for it."""


class NoWorkersError(ClusterError):
    """A cluster has been without workers for longer than a run waits for them."""


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message.

    If the message is empty or cannot be obtained, return the name of the exception's type. The name
    also precedes the line if the exception is a `KeyError` or is not an `Exception`.
    """
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
    """Return a command line to quote in a message, such as ``'sweep status results/x --errors'``.

    ``store`` is quoted for the shell; ``options`` must be quoted already. The command line is
    enclosed in single quotes or, if it contains a single quote, in backquotes.
    """
    text = " ".join(filter(None, ("sweep", verb, shlex.quote(str(store)), options)))
    return f"`{text}`" if "'" in text else f"'{text}'"
