"""A mechanism that the user gives as a Python function."""

from typing import Any

from solvers.errors import OptionError, SolveFailedError
from solvers.forms.dense import verified_solution
from solvers.mechanism import Mechanism
from solvers.problem import Problem
from solvers.solution import Solution
from workloads import WorkloadError, user_code
from workloads.parameters import CodeName

_NONE = CodeName("")


def solve(
    problem: Problem, *, function: CodeName = _NONE, arguments: dict[str, Any] | None = None
) -> Solution:
    """Verify what ``"module:function"`` returns for the problem and the arguments.

    Raises
    ------
    OptionError
        If there is no such function, or it does not take the arguments.
    SolveFailedError
        If it raises, or its answer is not borne out by its factors.
    """
    try:
        answer = user_code.call(
            "mechanism 'entry-point'", function, problem, arguments=arguments or {}
        )
    except user_code.CallFailedError as error:
        raise SolveFailedError(str(error)) from error.__cause__
    except WorkloadError as error:
        raise OptionError(str(error)) from error.__cause__
    return verified_solution(function, problem, answer)


MECHANISMS = (
    Mechanism(
        "entry-point",
        "a Python function of the user's, module:function; its answers are verified",
        solve,
        runs_code=True,
    ),
)
"""The only mechanism that calls a function named in an experiment."""
