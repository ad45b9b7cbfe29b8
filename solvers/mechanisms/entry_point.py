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
    """Your own Python function, named as module:function; its answers are verified.

    Raises
    ------
    OptionError
        If there is no such function, or the function does not accept the arguments.
    SolveFailedError
        If the function raises an error, or its answer is not a verifiable mechanism for the
        workload.
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


MECHANISM = Mechanism.of("entry-point", solve, runs_code=True)
"""The only mechanism that calls a function named in an experiment."""
