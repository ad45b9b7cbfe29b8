"""A query matrix from a Python function of the user's."""

from typing import Any

from workloads import functions
from workloads.family import Family
from workloads.given import from_matrix
from workloads.parameters import FunctionName
from workloads.workload import Workload


def build(function: FunctionName, arguments: dict[str, Any] | None = None) -> Workload:
    """The matrix or `Workload` that ``"module:function"`` returns for the arguments."""
    given = arguments or {}
    result = functions.call("workload 'entry-point'", function, arguments=given)
    return result if isinstance(result, Workload) else from_matrix(result, "entry-point")


FAMILY = Family(
    "entry-point",
    "the matrix that a Python function of the user's returns, module:function",
    build,
    runs_code=True,
)
