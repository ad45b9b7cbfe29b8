"""Compare the numbers of a paper with measured numbers, and give a verdict on each.

A number is compared with one measurement. What we draw ourselves of a random workload decides
nothing about the one draw that a paper prints; it shows how typical that draw is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import groupby
from statistics import median
from typing import Annotated

import numpy as np
import pandas as pd
import scipy
import xarray as xr
from numpy.typing import NDArray
from pydantic import AfterValidator
from pydantic.dataclasses import dataclass

from sweep.dataset import frames
from sweep.experiment.canonical import Scalar
from sweep.experiment.schema import ComparisonTable, count_decimals
from sweep.experiment.variables import OF_REFERENCE
from sweep.store.records import Status

Array = NDArray[np.float64]

_OUTSIDE = 0.01
"""Probability with which a further draw of ours is outside of the interval that pages show."""
OUR_DRAWS = "draws of our own"
"""The reason why a number is not judged by workloads that we drew ourselves."""
PUBLISHED_REFERENCE = "SM-II (published)"
"""Label of the mechanism SM-II as published. The papers compute variance ratios at the privacy cost
of this mechanism. We compute them at the privacy cost of the optimum, and divide them by this
mechanism's ratio where it is run, too."""
_CLOSED_FORM_MECHANISM = "IP"
"""Label of a mechanism in closed form. If its printed ratios differ from ours, the only reason is
that the paper uses another reference mechanism."""
_MOST_SHORT_DECIMALS = 2
"""Missing zeros are added up to this many decimal places: in a table with 8.57, 8.6 is 8.60."""


Short = Annotated[float, AfterValidator(lambda value: float(f"{value:.7g}"))]
"""A float rounded to seven digits: papers print fewer, and all machines agree on these."""


class Verdict(StrEnum):
    """The verdict on a number or claim of a paper; the members run from the worst to the best."""

    FAILS = "fails"
    SLIP = "slip"
    """The number or claim fails, and the paper is proved to be wrong."""
    UNJUDGED = "cannot be judged"
    VARIES = "varies"
    """The number or claim holds for some seeds, but not for all."""
    FACTOR = "holds up to the factor"
    HOLDS = "holds"


NOT_RUN = "not run"
"""The reason why a number or claim of an experiment that was not run cannot be judged."""


OTHER_READING = "other reading"
"""Kind of the numbers that follow from an interpretation of the paper that is not the judged one.

A ✗ on such a number needs no explanation: it only shows that the paper does not mean this
interpretation."""


@dataclass(frozen=True)
class Compared:
    """A number of a paper, and the number that was measured at the same point.

    Attributes
    ----------
    kind : str
        "printed", "closed form" or `OTHER_READING`.
    table, source : str
        The table's title, and where the paper prints the table.
    cause, slip : str
        Why the numbers with ✗ differ, and, if the paper is wrong, the proof.
    printed : str
        The number with the digits that the paper prints.
    reason : str
        Why the number cannot be judged.
    median, least, most : float, optional
        Median of our draws, and the ends of the interval that contains a further draw with a
        probability of 99 %. If there is only one draw, all three are equal.
    gap : float, optional
        Largest certified gap of our reference mechanism; None if the number does not depend on a
        reference mechanism, or this mechanism was not measured.
    factor : float, optional
        Factor by which the squared privacy cost of the paper's reference exceeds that of our
        reference; None if it is unknown, or if the number agrees without it.
    reference_factor : float, optional
        The same factor for `PUBLISHED_REFERENCE`, measured: the median over our draws.
    """

    at: Mapping[str, Scalar]
    printed: str
    verdict: Verdict
    reason: str = ""
    experiment: str = ""
    kind: str = "printed"
    table: str = ""
    source: str = ""
    variable: str = ""
    median: Short | None = None
    least: Short | None = None
    most: Short | None = None
    draws: int = 0
    gap: Short | None = None
    factor: Short | None = None
    reference_factor: Short | None = None
    cause: str = ""
    slip: str = ""

    @property
    def stated(self) -> float:
        """The printed number as a float."""
        return float(self.printed)

    @property
    def rounding(self) -> float:
        """Half a unit of the last printed digit."""
        return 0.5 * 10.0 ** -len(self.printed.partition(".")[2])

    @property
    def difference(self) -> float | None:
        """Relative difference between the measured median and ``printed * factor``.

        It is None if nothing was measured or the printed number is 0. A `factor` of None is 1 here.
        """
        expected = self.stated * (self.factor or 1.0)
        return None if self.median is None or not expected else self.median / expected - 1

    def range(self, *factors: float) -> tuple[float, float]:
        """Return the range of measured numbers that agree with the printed number times a factor.

        The factor may be any number from the smallest to the largest of ``factors``; without
        ``factors``, it is 1. The range allows for the rounding of the printed number and for the
        gap of our reference.
        """
        slack = 1 + (self.gap or 0.0)
        low, high = self.stated - self.rounding, self.stated + self.rounding
        return low * min(factors, default=1.0) / slack, high * max(factors, default=1.0) * slack

    def agrees(self, *factors: float) -> bool:
        """Return whether the measured median is in `range`."""
        low, high = self.range(*factors)
        return self.median is not None and low <= self.median <= high


def compare(
    data: xr.Dataset, table: ComparisonTable, reference: str, *, drawn: bool
) -> list[Compared]:
    """Compare the numbers of a table with measured numbers.

    The numbers of the mechanisms in ``same_as`` are left out. A number of the table's own reference
    mechanism, which is 1, is left out if it agrees or was not run.

    A number agrees if the measured number, within the certified gap of our reference, rounds to it,
    or if it does so at the privacy cost of `PUBLISHED_REFERENCE`; then it is stated at that cost.
    It may also agree up to a factor: the squared privacy cost of the paper's reference divided by
    that of our reference. The factor follows from IP's number in the same row, and must agree with
    at least one further number of the row.

    Parameters
    ----------
    drawn : bool
        Whether the workload or its targets are drawn by us, so that the numbers are not judged.
    """
    cells, axes = pd.DataFrame(), []
    if table.variable in data:
        cells = frames.long(data, table.variable)
        axes = [name for name in frames.axes(data, table.variable) if name != "mechanism"]
    decimals = min(_MOST_SHORT_DECIMALS, table.decimals)
    compared: list[Compared] = []
    for point, stated in table.points():
        if point.get("mechanism") in table.same_as:
            continue
        place = {**table.at, **point}
        matching = frames.rows_at(cells, place)
        draws = select_ok(matching, table.variable)
        several = [axis for axis in axes if matching[axis].nunique() > 1]
        if matching.empty:
            reason = NOT_RUN
        elif several:
            reason = f"the table does not say at which {' and '.join(several)}"
        elif not draws.size:
            worst = max(matching["status"], key=list(frames.STATES.values()).index)
            reason = "has no number" if worst == Status.OK.label else worst.replace("_", " ")
        else:
            reason = table.unjudged or (OUR_DRAWS if drawn else "")
        number = Compared(
            place,
            f"{stated:.{max(count_decimals(stated), decimals)}f}",
            Verdict.UNJUDGED,
            reason,
            table=table.title or table.variable,
            source=table.source,
            variable=table.variable,
            cause=table.cause,
            slip=table.slip,
        )
        if draws.size and not several:
            number = _measure(number, cells, draws, reference)
        of_reference = point.get("mechanism") in table.references
        if not of_reference or not (number.agrees() or number.reason == NOT_RUN):
            compared.append(number)
    rows = groupby(compared, key=lambda n: [v for k, v in n.at.items() if k != "mechanism"])
    return [judged for _, row in rows for judged in _judge(list(row))]


def compute_interval(draws: Array) -> tuple[float, float]:
    """Return the interval that contains a further draw with a probability of 99 %.

    The logarithms of the draws are assumed to be normal, so Student's t distribution applies. Of a
    single draw, both ends are this draw.
    """
    if draws.size == 1:
        return float(draws[0]), float(draws[0])
    logs = np.log(draws)
    spread = logs.std(ddof=1) * np.sqrt(1 + 1 / len(logs))
    reach = spread * scipy.special.stdtrit(len(logs) - 1, 1 - _OUTSIDE / 2)
    return float(np.exp(logs.mean() - reach)), float(np.exp(logs.mean() + reach))


def select_ok(cells: pd.DataFrame, variable: str) -> Array:
    """Return the finite values of a variable in the cells whose status is ok."""
    if variable not in cells:
        return np.empty(0)
    numbers = cells[variable][cells["status"] == Status.OK.label].to_numpy(np.float64)
    return np.asarray(numbers[np.isfinite(numbers)])


def _measure(number: Compared, cells: pd.DataFrame, draws: Array, reference: str) -> Compared:
    """Return a number with the statistics of its draws and of the reference mechanisms."""
    gaps = theirs = draws[:0]
    if number.variable in OF_REFERENCE:
        found = frames.rows_at(cells, {k: v for k, v in number.at.items() if k != "mechanism"})
        gaps = select_ok(frames.rows_at(found, {"mechanism": reference}), "gap")
        published = frames.rows_at(found, {"mechanism": PUBLISHED_REFERENCE})
        theirs = select_ok(published, number.variable)
    least, most = compute_interval(draws)
    return replace(
        number,
        median=float(np.median(draws)),
        least=least,
        most=most,
        draws=draws.size,
        gap=float(gaps.max()) if gaps.size else None,
        reference_factor=float(np.median(theirs)) if theirs.size else None,
    )


def _judge(row: Sequence[Compared]) -> Iterator[Compared]:
    """Judge the numbers of one row of a table, which share a reference and so its factor."""
    factors = _find_factors(row)
    for number in row:
        at_theirs = _refer_to_published(number)
        if number.reason:
            yield number
        elif at_theirs.agrees():
            yield replace(at_theirs, verdict=Verdict.HOLDS)
        elif number.agrees():
            yield replace(number, verdict=Verdict.HOLDS)
        else:
            fails = Verdict.SLIP if number.slip else Verdict.FAILS
            verdict = Verdict.FACTOR if number.agrees(*factors) else fails
            yield replace(number, verdict=verdict, factor=median(factors) if factors else None)


def _refer_to_published(number: Compared) -> Compared:
    """Return a number at the privacy cost of `PUBLISHED_REFERENCE`, if it was run beside it."""
    factor = number.reference_factor
    if factor is None or number.median is None or number.variable != "variance_ratio":
        return number
    one = number.median / factor
    return replace(number, median=one, least=one, most=one, gap=None)


def _find_factors(row: Sequence[Compared]) -> tuple[float, ...]:
    """Return the factors that follow from IP's number in a row: the smallest, central and largest.

    There are several because IP's printed number is rounded, so that IP's number may agree without
    a factor. There are none if IP's number is not a variance ratio or is less than printed, or if
    no other number of the row agrees with them.
    """
    closed = (n for n in row if n.at.get("mechanism") == _CLOSED_FORM_MECHANISM and not n.reason)
    of = next(closed, None)
    if of is None or of.variable != "variance_ratio" or not of.median:
        return ()
    if of.median <= of.stated - of.rounding:
        return ()
    printed = (of.stated + of.rounding, of.stated, of.stated - of.rounding)
    # the paper's reference costs no less than the optimum, so that no factor is below 1
    factors = tuple(max(of.median / number, 1.0) for number in printed)
    others = (number for number in row if number is not of and not number.reason)
    return factors if any(number.agrees(*factors) for number in others) else ()
