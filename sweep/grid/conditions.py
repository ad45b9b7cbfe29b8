"""Conditions over coordinates, in the language of `workloads.conditions`, with a sweep's errors."""

from collections.abc import Mapping
from typing import Any

from sweep.errors import SweepError
from workloads import conditions
from workloads.conditions import Condition, ConditionError, MissingNameError


def parse(text: str) -> Condition:
    """Read a condition.

    Raises
    ------
    SweepError
        If it is not an expression, or contains more than comparisons.
    """
    try:
        return conditions.parse(text)
    except ConditionError as error:
        raise SweepError(str(error)) from error


def holds(condition: Condition, values: Mapping[str, Any]) -> bool:
    """Whether a condition holds for these values; not if one that it needs is missing.

    Raises
    ------
    SweepError
        If the values cannot be compared.
    """
    try:
        return condition.holds(values)
    except MissingNameError:
        return False
    except ConditionError as error:
        raise SweepError(str(error)) from error
