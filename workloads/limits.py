"""Limits on what an experiment may ask for, against files that would hang a machine.

They are read from the environment when a process starts: the command's and that of its workers.
"""

import os
import warnings

_PREFIX = "SWEEP_"


def limit(name: str, default: int) -> int:
    """A limit: the whole number of the environment's ``SWEEP_name``, or the default.

    Warns
    -----
    UserWarning
        If the environment has something else, upon which the default holds.
    """
    text = os.environ.get(_PREFIX + name)
    if text is None:
        return default
    if text.isdecimal() and int(text) > 0:
        return int(text)
    warnings.warn(
        f"{_PREFIX}{name} in the environment is {text!r}; expected a whole number from 1: the "
        f"limit stays at {default:,}",
        stacklevel=2,
    )
    return default


def raised_by(name: str) -> str:
    """The end of a sentence about a limit: how to raise it."""
    return f"that {_PREFIX}{name} in the environment raises"
