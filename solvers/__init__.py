"""Choose the noise of differentially private query releases; every mechanism gives a `Solution`."""

from solvers import privacy
from solvers.errors import (
    NotApplicableError,
    OptionError,
    SolveFailedError,
    SolverError,
    UnknownMechanismError,
)
from solvers.forms.reduction import Reduction
from solvers.forms.solving import REDUCTIONS, expected_work, solve
from solvers.mechanism import Mechanism, Work, all_mechanisms
from solvers.noise.draws import simulate
from solvers.problem import GraphProblem, Problem
from solvers.problem.neighbours import Neighbours
from solvers.solution import Solution

__all__ = [
    "REDUCTIONS",
    "GraphProblem",
    "Mechanism",
    "Neighbours",
    "NotApplicableError",
    "OptionError",
    "Problem",
    "Reduction",
    "Solution",
    "SolveFailedError",
    "SolverError",
    "UnknownMechanismError",
    "Work",
    "all_mechanisms",
    "expected_work",
    "privacy",
    "simulate",
    "solve",
]
