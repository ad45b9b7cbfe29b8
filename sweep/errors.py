"""The errors of a sweep.

The message of each error is a sentence. Every class below `SweepError` also extends `ValueError`,
`OSError` or `RuntimeError`.
"""

import shlex


class SweepError(Exception):
    """The base class of the errors below; a message says what is wrong, where, and what to do."""


class ExperimentError(SweepError, ValueError):
    """An experiment, or a ``--set`` that changes it, is not valid."""


class StoreError(SweepError, OSError):
    """A store cannot be read or written, or belongs to another experiment."""


class UnknownNameError(StoreError):
    """A store has results of a mechanism that this process does not know."""


class DatasetError(StoreError):
    """The dataset of a store cannot be written, but the store's journal can."""


class DamagedSegmentError(StoreError):
    """A journal segment differs from what was written."""


class ClusterError(SweepError, RuntimeError):
    """A Dask cluster cannot be started or reached, or its description is not valid."""


class SchedulerLostError(ClusterError):
    """A scheduler was lost and did not come back in the time for which a run waits."""


class NoWorkersError(ClusterError):
    """A cluster has had no workers for longer than a run waits for them."""


def first_line(error: BaseException) -> str:
    """The first line of the message of an error that other code has raised.

    The name of the error's type replaces an empty message. It also precedes the line if the error
    is a `KeyError` or is not an `Exception`.
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
    """A command to suggest in a message: ``'sweep status results/x --errors'``.

    The store's name is quoted for the shell; ``options`` must be quoted already. The command is
    between single quotes or, if it contains one, between backquotes.
    """
    text = " ".join(filter(None, ("sweep", verb, shlex.quote(str(store)), options)))
    return f"`{text}`" if "'" in text else f"'{text}'"
