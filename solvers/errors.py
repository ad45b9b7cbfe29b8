"""The errors that solves raise, each also a subclass of a builtin error."""


class SolverError(Exception):
    """Base of the errors below."""


class UnknownMechanismError(SolverError, LookupError):
    """No mechanism has that name; the message gives the nearest one."""


class OptionError(SolverError, ValueError):
    """An option does not exist, or its value is out of range."""


class NotApplicableError(SolverError, ValueError):
    """The mechanism does not apply to this workload; the message says why, and when it applies."""


class SolveFailedError(SolverError, ArithmeticError):
    """The computation broke down numerically, or the answer fails its own check."""
