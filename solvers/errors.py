"""The errors of the solvers, each also a subclass of a builtin error."""

from workloads.errors import ParameterError


class SolverError(Exception):
    """Base class of the errors that the solvers raise."""


class UnknownMechanismError(SolverError, LookupError):
    """No mechanism has this name; the message suggests the nearest name."""


class OptionError(SolverError, ParameterError):
    """An option does not exist, or its value is out of range; ``parameter`` is its name."""


class NotApplicableError(SolverError, ValueError):
    """The mechanism does not apply to this workload; the message explains why."""


class SolveFailedError(SolverError, ArithmeticError):
    """The computation broke down numerically, or the answer failed its check."""
