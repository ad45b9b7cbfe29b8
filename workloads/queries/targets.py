"""The accuracy that a row asks for: a variance, or something equivalent."""

import math
from dataclasses import dataclass

import scipy

from workloads.queries.table import Row

COLUMNS = ("variance", "standard_error", "margin")
"""A row fills one of these."""

CONFIDENCE = 0.95
"""Of a margin of error without one."""


@dataclass(frozen=True)
class Target:
    """A target as a row states it.

    Attributes
    ----------
    variance : float
        The largest variance that the answer may have.
    confidence : float
        Of the row's margin of error, stated or `CONFIDENCE`.
    """

    variance: float
    confidence: float


def quantile(confidence: float) -> float:
    """The margin of error of a normal error in standard errors: 1.96 at 0.95."""
    return float(scipy.special.ndtri(0.5 + confidence / 2))


def target(row: Row) -> Target:
    """The target of a row.

    Raises
    ------
    WorkloadError
        If none or more than one column states it, or a number is not positive.
    """
    stated = [name for name in COLUMNS if name in row.cells]
    expected = f"one of the columns {', '.join(COLUMNS)}"
    if not stated:
        raise row.error(COLUMNS[0], f"no target; fill {expected}")
    if len(stated) > 1:
        raise row.error(stated[1], f"a second target, beside {stated[0]!r}; fill {expected} alone")
    (name,) = stated
    confidence = _confidence(row)
    value = number(row, name)
    if not 0 < value < math.inf:
        raise row.error(name, f"{row.cells[name]!r}; expected a positive finite number")
    if name == "variance":
        return Target(value, confidence)
    error = value if name == "standard_error" else value / quantile(confidence)
    if not 0 < error**2 < math.inf:
        raise row.error(name, f"{row.cells[name]!r} is too far from 1: its square is no number")
    return Target(error**2, confidence)


def number(row: Row, column: str) -> float:
    """The number in a cell; a WorkloadError if it is none."""
    text = row.cells[column]
    try:
        value = float(text)
    except ValueError as error:
        dotted = text.replace(",", ".")
        hint = f"; write {dotted!r}, with a point" if "," in text else ""
        raise row.error(column, f"{text!r} is not a number{hint}") from error
    if math.isnan(value):
        raise row.error(column, f"{text!r} is not a number")
    return value


def _confidence(row: Row) -> float:
    text = row.cells.get("confidence")
    if text is None:
        return CONFIDENCE
    if text.endswith("%"):
        plain = Row(row.place, {"confidence": text.removesuffix("%").strip()})
        confidence = number(plain, "confidence") / 100
    else:
        confidence = number(row, "confidence")
    if not 0 < quantile(confidence) < math.inf:
        raise row.error(
            "confidence", f"{text!r}; expected a number between 0 and 1, such as 0.95 or 95%"
        )
    return confidence
