"""A mechanism that is a Python function of the user's."""

import inspect
from typing import Any

from solvers.errors import OptionError, SolveFailedError
from solvers.mechanism import Mechanism
from solvers.problem import Problem
from solvers.solution import Solution
from workloads import WorkloadError, functions
from workloads.parameters import CodeName

_NONE = CodeName("")


def solve(
    problem: Problem, *, function: CodeName = _NONE, arguments: dict[str, Any] | None = None
) -> Solution:
    """What ``"module:function"`` returns for the problem and the arguments, verified.

    Raises
    ------
    OptionError
        If there is no such function, or it does not take the arguments.
    SolveFailedError
        If it raises, or its answer is not borne out by its factors.
    """
    from solvers import foreign

    owner, given = "mechanism 'entry-point'", arguments or {}
    try:
        made = functions.load(owner, function)
    except WorkloadError as error:
        raise OptionError(str(error)) from error
    try:
        inspect.signature(made).bind(problem, **given)
    except (TypeError, ValueError) as error:
        raise OptionError(f"{owner}: {function!r} does not take {given} ({error})") from error
    try:
        answer = made(problem, **given)
    except (Exception, SystemExit) as error:
        raise SolveFailedError(f"{owner}: {function!r} raised {functions.said(error)}") from error
    return foreign.checked(function, problem, answer)


MECHANISMS = (
    Mechanism(
        "entry-point",
        "what a Python function of yours does: module:function; its answers are verified",
        solve,
        runs_code=True,
    ),
)
"""The one mechanism that calls what an experiment names."""
