"""Conditions over coordinates, such as ``d <= 256 or mechanism != 'SM-II'``.

The language is that of `workloads.conditions`; here its errors are those of a sweep.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sweep.errors import SweepError
from workloads import conditions


class MissingCoordinateError(SweepError):
    """A condition uses a coordinate that does not exist."""


class Condition(conditions.Condition):
    """A condition whose errors are those of a sweep."""

    def holds(self, values: Mapping[str, Any]) -> bool:
        """As in `workloads.conditions`, but raising `MissingCoordinateError` or `SweepError`."""
        with _translated_errors():
            return super().holds(values)


def parse(text: str) -> Condition:
    """Read a condition.

    Raises
    ------
    SweepError
        If it is not an expression, or contains more than comparisons.
    """
    with _translated_errors():
        return Condition(**vars(conditions.parse(text)))


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except conditions.MissingNameError as error:
        raise MissingCoordinateError(str(error)) from error
    except conditions.ConditionError as error:
        raise SweepError(str(error)) from error
