"""Functions of the user's, by name: ``module:function``."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from workloads.errors import WorkloadError


class CallFailedError(WorkloadError):
    """A function of the user's raised an error."""


def load(owner: str, function: str) -> Callable[..., Any]:
    """The function of that name, its module imported.

    Parameters
    ----------
    owner : str
        Who asks for it, for messages: ``workload 'entry-point'``.

    Raises
    ------
    WorkloadError
        If it cannot be loaded.
    """
    module, _, name = function.partition(":")
    if not module or not name:
        raise WorkloadError(
            f"{owner}: {function!r} is not a function's name; expected 'module:function'"
        )
    try:
        loaded: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:
        raise WorkloadError(
            f"{owner}: {function!r} cannot be loaded ({error_text(error)}); the module must be "
            "installed wherever the sweep runs, or be in the folder in which the command runs"
        ) from error
    if not callable(loaded):
        raise WorkloadError(f"{owner}: {function!r} is not a function")
    return loaded


def call(owner: str, function: str, *problem: Any, arguments: Mapping[str, Any]) -> Any:
    """What the function of that name returns for a problem, if it takes one, and the arguments.

    Raises
    ------
    WorkloadError
        If it cannot be loaded, or does not take them.
    CallFailedError
        If it raises.
    """
    loaded = load(owner, function)
    try:
        inspect.signature(loaded).bind(*problem, **arguments)
    except (TypeError, ValueError) as error:
        raise WorkloadError(
            f"{owner}: {function!r} does not take {dict(arguments)} ({error})"
        ) from error
    try:
        return loaded(*problem, **arguments)
    except (Exception, SystemExit) as error:
        raise CallFailedError(
            f"{owner}: {function!r} called with {dict(arguments)} raised {error_text(error)}"
        ) from error


def error_text(error: BaseException) -> str:
    """The message of an error of the user's code, in one line."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:
        return f"{type(error).__name__}, whose message cannot be read"
