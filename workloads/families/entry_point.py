"""A query matrix from a Python function of the user's."""

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from workloads.errors import WorkloadError
from workloads.family import Family
from workloads.parameters import FunctionName
from workloads.workload import Workload, from_matrix


def build(function: FunctionName, arguments: dict[str, Any] | None = None) -> Workload:
    """The matrix or `Workload` that ``"module:function"`` returns for the arguments."""
    made = _load(function)
    given = arguments or {}
    try:
        inspect.signature(made).bind(**given)
    except (TypeError, ValueError) as error:
        raise WorkloadError(
            f"workload 'entry-point': {function!r} does not take {given} ({error})"
        ) from error
    try:
        result = made(**given)
    except (Exception, SystemExit) as error:
        raise WorkloadError(
            f"workload 'entry-point': {function!r} called with {given} raised {_said(error)}"
        ) from error
    return result if isinstance(result, Workload) else from_matrix(result, "entry-point")


def _load(function: str) -> Callable[..., Any]:
    module, _, name = function.partition(":")
    if not module or not name:
        raise WorkloadError(
            f"workload 'entry-point': {function!r} is not a function's name; expected "
            "'module:function'"
        )
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:
        raise WorkloadError(
            f"workload 'entry-point': {function!r} cannot be loaded ({_said(error)}); the module "
            "must be installed wherever the sweep runs, or be in the folder in which the command "
            "runs"
        ) from error
    if not callable(found):
        raise WorkloadError(f"workload 'entry-point': {function!r} is not a function")
    return found


def _said(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:
        return f"{type(error).__name__}, whose message cannot be read"


FAMILY = Family(
    "entry-point",
    "the matrix that a Python function of yours returns: module:function",
    build,
    runs_code=True,
)
