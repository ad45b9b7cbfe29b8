"""The errors raised for workloads and for targets; both are subclasses of ValueError."""

from collections.abc import Iterator
from contextlib import contextmanager


class ParameterError(ValueError):
    """Base class of the errors that the value of a parameter can cause.

    Attributes
    ----------
    parameter : str or None
        The name of the parameter, by which the place where a user wrote its value is found; None if
        no single parameter is to blame.
    """

    def __init__(self, message: str, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


class WorkloadError(ParameterError):
    """Raised if a workload cannot be made or used; the message says why, where and what to do."""


class TargetsError(ParameterError):
    """Raised if variance targets are missing, cannot be made, or are not positive and finite."""


@contextmanager
def blaming(parameter: str) -> Iterator[None]:
    """Let the errors raised in the ``with`` block that blame no parameter blame this one."""
    try:
        yield
    except ParameterError as error:
        error.parameter = error.parameter or parameter
        raise
