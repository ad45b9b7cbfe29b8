"""A query matrix from a Python function of the user's."""

import inspect
from typing import Any

from workloads import functions
from workloads.errors import WorkloadError
from workloads.family import Family
from workloads.parameters import FunctionName
from workloads.workload import Workload, from_matrix


def build(function: FunctionName, arguments: dict[str, Any] | None = None) -> Workload:
    """The matrix or `Workload` that ``"module:function"`` returns for the arguments."""
    made = functions.load("workload 'entry-point'", function)
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
            f"workload 'entry-point': {function!r} called with {given} raised "
            f"{functions.said(error)}"
        ) from error
    return result if isinstance(result, Workload) else from_matrix(result, "entry-point")


FAMILY = Family(
    "entry-point",
    "the matrix that a Python function of yours returns: module:function",
    build,
    runs_code=True,
)
