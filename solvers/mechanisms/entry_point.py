"""A mechanism that the user gives as a Python function."""

from dataclasses import dataclass

from solvers.errors import OptionError, SolveFailedError
from solvers.forms.dense import verified_solution
from solvers.mechanism import Mechanism
from solvers.problem import Problem
from solvers.solution import Solution
from workloads import WorkloadError, user_code
from workloads.parameters import CodeName

_NONE = CodeName("")


@dataclass(frozen=True)
class EntryPoint(Mechanism):
    """Your own Python function, named as module:function; its answers are verified.

    Attributes
    ----------
    function : str
        The function's name; no other mechanism calls a function that an experiment names.
    arguments : dict, optional
        Its keyword arguments.
    """

    name = "entry-point"
    runs_code = True

    function: CodeName = _NONE
    arguments: dict[str, object] | None = None

    def on_matrix(self, problem: Problem) -> Solution:
        """Return the verified answer of the function.

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
                "mechanism 'entry-point'", self.function, problem, arguments=self.arguments or {}
            )
        except user_code.CallFailedError as error:
            raise SolveFailedError(str(error)) from error.__cause__
        except WorkloadError as error:
            raise OptionError(str(error), error.parameter) from error.__cause__
        return verified_solution(self.function, problem, answer)
