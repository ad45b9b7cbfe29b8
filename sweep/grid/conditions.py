"""Conditions over coordinates, such as ``d <= 256 or mechanism != 'SM-II'``.

The language is that of `workloads.conditions`; here its errors are those of a sweep.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sweep.errors import SweepError
from workloads import conditions


class MissingCoordinateError(SweepError):
    """A condition uses a coordinate that does not exist."""


@dataclass(frozen=True)
class Condition:
    """A condition that was checked to be harmless.

    Attributes
    ----------
    checked : workloads.conditions.Condition
        What it says.
    """

    checked: conditions.Condition

    @property
    def text(self) -> str:
        """As written."""
        return self.checked.text

    @property
    def names(self) -> frozenset[str]:
        """The coordinates that it uses."""
        return self.checked.names

    def holds(self, coordinates: Mapping[str, Any]) -> bool:
        """Whether the condition is true at these coordinates.

        Raises
        ------
        MissingCoordinateError
            If a coordinate is missing.
        SweepError
            If the values cannot be compared.
        """
        with _told():
            return self.checked.holds(coordinates)


def parse(text: str) -> Condition:
    """Read a condition.

    Raises
    ------
    SweepError
        If it is not an expression, or contains more than comparisons.
    """
    with _told():
        return Condition(conditions.parse(text))


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except conditions.MissingNameError as error:
        raise MissingCoordinateError(str(error)) from error
    except conditions.ConditionError as error:
        raise SweepError(str(error)) from error
