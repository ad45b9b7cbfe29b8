"""Numbers of a paper beside the measured ones, each with a verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby

import xarray as xr

from sweep.dataset.pivots import STATE, ok_numbers, row_labels, take
from sweep.experiment.canonical import Scalar
from sweep.experiment.schema import ComparisonTable
from sweep.experiment.variables import OF_REFERENCE
from sweep.store.records import Status

_CLOSED_FORM_MECHANISM = "IP"
"""Its noise is a formula: the printed number differs from ours by the paper's reference alone."""


_DECIMALS = 2
"""Of every printed table; trailing zeros are not written down."""


class Agreement(StrEnum):
    """The verdict on a number of a paper."""

    AGREES = "agrees"
    FACTOR = "agrees up to the factor"
    DIFFERS = "differs"
    DEFINED = "1 by definition"
    NOT_RUN = "not run"
    UNJUDGED = "cannot be judged"


@dataclass(frozen=True)
class Compared:
    """One number of a paper and what was measured at its point.

    Attributes
    ----------
    rounding : float
        Half a unit of its last printed digit.
    reason : str
        Why it cannot be judged.
    least, most : float, optional
        The range that was measured over the seeds.
    gap : float, optional
        How far the reference of a ratio may be above the optimum.
    factor : float, optional
        The factor by which the paper's reference is above ours, if its row has one; numbers that
        agree without it have none.
    """

    at: Mapping[str, Scalar]
    stated: float
    rounding: float
    agreement: Agreement
    reason: str = ""
    least: float | None = None
    most: float | None = None
    seeds: int = 0
    gap: float | None = None
    factor: float | None = None

    @property
    def difference(self) -> float | None:
        """How far the nearest measured number is from the paper's, times the factor if any."""
        expected = self.stated * (self.factor or 1.0)
        if self.least is None or self.most is None or not expected:
            return None
        return min(max(expected, self.least), self.most) / expected - 1


def signed_percent(share: float) -> str:
    """A relative difference in percent, with its sign."""
    digits = 1 if abs(share) < 0.0995 else 0
    return f"{100 * share:+.{digits}f} %"


def compare(
    data: xr.Dataset, table: ComparisonTable, reference: str, *, drawn: bool
) -> list[Compared]:
    """Every number of a table beside what was measured.

    A number agrees if it lies within the measured spread, widened by its print rounding and by the
    certified gap of the reference. In a row about a workload that is not drawn at random, the
    other numbers may agree once they are multiplied by the one factor that IP, a closed form, is
    off by: the paper's reference was that far above the optimum.

    Parameters
    ----------
    drawn : bool
        Whether the workload or its targets are drawn at random, so that every run has its own.
    """
    unit = table.references
    numbers = [_compared(data, table, at, stated, reference, unit) for at, stated in table.points()]
    if drawn or table.variable != "variance_ratio":
        return numbers
    rows = groupby(numbers, key=lambda n: [v for k, v in n.at.items() if k != "mechanism"])
    return [number for _, row in rows for number in _up_to_a_factor(list(row))]


def _compared(
    data: xr.Dataset,
    table: ComparisonTable,
    at: Mapping[str, Scalar],
    stated: float,
    reference: str,
    unit: Sequence[Scalar],
) -> Compared:
    rounding = _rounding(stated)
    by_definition = at.get("mechanism") in unit
    empty = Compared(
        at, stated, rounding, Agreement.DEFINED if by_definition else Agreement.NOT_RUN
    )
    point = {**table.at, **at}
    point_data = take(data, table.variable, point)
    if point_data is None:
        return empty
    left = [name for name, labels in row_labels(point_data).items() if len(labels) > 1]
    if left:
        reason = f"the table does not say at which {' and '.join(left)}"
        return replace(empty, agreement=Agreement.UNJUDGED, reason=reason)
    worst = Status(int(point_data[STATE].max()))
    if worst is Status.ABSENT:
        return empty
    known = ok_numbers(point_data)
    if not known.size:
        reason = "has no number" if worst is Status.OK else worst.label.replace("_", " ")
        return replace(empty, agreement=Agreement.UNJUDGED, reason=reason)
    least, most = float(known.min()), float(known.max())
    of_reference = {**point, "mechanism": reference}
    gap = largest_gap(data, of_reference) if table.variable in OF_REFERENCE else None
    slack = 1 + (gap or 0.0)
    agrees = least / slack - rounding <= stated <= most * slack + rounding
    agreement = Agreement.DEFINED if by_definition else Agreement.AGREES
    if not agrees:
        agreement = Agreement.DIFFERS
    return replace(empty, agreement=agreement, least=least, most=most, seeds=known.size, gap=gap)


def largest_gap(data: xr.Dataset, at: Mapping[str, Scalar]) -> float | None:
    """The largest certified gap of the cells there that are ok; None if none has one."""
    gaps = take(data, "gap", at)
    if gaps is None or not (known := ok_numbers(gaps)).size:
        return None
    return float(known.max())


def _up_to_a_factor(row: Sequence[Compared]) -> list[Compared]:
    """The numbers of a row, some of them explained by the factor read from IP."""
    closed = [number for number in row if number.at.get("mechanism") == _CLOSED_FORM_MECHANISM]
    if len(closed) != 1 or closed[0].agreement is not Agreement.DIFFERS:
        return list(row)
    (of,) = closed
    if of.least is None or of.least <= of.stated:
        return list(row)
    factor = of.least / of.stated
    explained = [n for n in row if n is not of and n.agreement is Agreement.DIFFERS and _by(n, of)]
    if not explained:
        return list(row)
    return [
        replace(number, factor=factor, agreement=Agreement.FACTOR)
        if number is of or number in explained
        else (replace(number, factor=factor) if number.agreement is Agreement.DIFFERS else number)
        for number in row
    ]


def _by(number: Compared, of: Compared) -> bool:
    """Whether the factor that `of` is off by, within print rounding, takes one to the measured."""
    if number.least is None or number.most is None or of.least is None:
        return False
    slack = 1 + (number.gap or 0.0)
    low = (number.stated - number.rounding) * of.least / (of.stated + of.rounding)
    high = (number.stated + number.rounding) * of.least / (of.stated - of.rounding)
    return number.least / slack <= high and low <= number.most * slack


def _rounding(stated: float) -> float:
    """Half a unit of the last printed digit: the second decimal, or a later one."""
    decimals = len(f"{stated:.12f}".rstrip("0").partition(".")[2])
    return float(0.5 * 10.0 ** -max(decimals, _DECIMALS))
