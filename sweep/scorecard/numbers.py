"""Compare the numbers of a paper with measured numbers, and give a verdict on each.

A number about a fixed workload is compared with one measurement. A number about a random workload
comes from a single draw by the paper's authors, so it is tested against the distribution of our own
draws.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import groupby
from statistics import median
from typing import Annotated, Any

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

LEVEL = 0.01
"""Largest probability that a table gets any ✗ although all its numbers follow our distribution."""
FEWEST_DRAWS = 20
"""Smallest number of our draws against which a printed number is tested."""
PUBLISHED_REFERENCE = "SM-II (published)"
"""Label of the mechanism SM-II as published. The papers compute variance ratios at the privacy cost
of this mechanism, and we compute them at the privacy cost of the optimum."""
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
        Median of the draws, and the ends of the interval that contains a further draw with
        probability 1 - `LEVEL`. If the number cannot be judged, the interval extends from the
        smallest to the largest draw. If there is only one draw, all three are equal.
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

    A number about a fixed workload agrees if the measured number, within the certified gap of our
    reference, rounds to it. A number about a random workload agrees unless `find_surprising`
    rejects its p-value.

    A number may also agree up to a factor: the squared privacy cost of the paper's reference
    divided by that of our reference.
    If the workload is random, this factor is measured at the same point, with the mechanism
    `PUBLISHED_REFERENCE`. If the workload is fixed, the factor follows from IP's number in the same
    row, and must explain at least one further number of the row.

    Parameters
    ----------
    drawn : bool
        Whether the workload or its targets are random, so that the paper's numbers come from a
        single draw.
    """
    cells, axes = pd.DataFrame(), []
    if table.variable in data:
        cells = frames.long(data, table.variable)
        axes = [name for name in frames.axes(data, table.variable) if name != "mechanism"]
    decimals = min(_MOST_SHORT_DECIMALS, table.decimals)
    compared: list[Compared] = []
    draws_of: list[Array] = []
    for point, stated in table.points():
        if point.get("mechanism") in table.same_as:
            continue
        place = {**table.at, **point}
        matching = frames.rows_at(cells, place)
        draws, facts = select_ok(matching, table.variable), dict[str, Any]()
        if matching.empty:
            reason = NOT_RUN
        elif several := [axis for axis in axes if matching[axis].nunique() > 1]:
            reason = f"the table does not say at which {' and '.join(several)}"
        elif not draws.size:
            worst = max(matching["status"], key=list(frames.STATES.values()).index)
            reason = "has no number" if worst == Status.OK.label else worst.replace("_", " ")
        else:
            facts = _measure(table.variable, place, cells, draws, reference)
            few = drawn and draws.size < FEWEST_DRAWS
            reason = f"{draws.size} draws, {FEWEST_DRAWS} are needed" if few else table.unjudged
        number = Compared(
            place,
            f"{stated:.{max(count_decimals(stated), decimals)}f}",
            Verdict.UNJUDGED,
            reason,
            table=table.title or table.variable,
            **{name: getattr(table, name) for name in ("source", "variable", "cause", "slip")},
            **facts,
        )
        of_reference = point.get("mechanism") in table.references
        if not of_reference or not (number.agrees() or number.reason == NOT_RUN):
            compared.append(number)
            draws_of.append(draws)
    return _judge(compared, draws_of, drawn=drawn)


def find_surprising(chances: Sequence[float]) -> list[bool]:
    """Return whether the Benjamini-Hochberg rule rejects each p-value in ``chances`` at `LEVEL`.

    If all numbers come from our distribution, the probability that the rule rejects any of them is
    at most `LEVEL`; otherwise, the expected share of wrong rejections is at most `LEVEL`.
    """
    from scipy.stats import false_discovery_control  # takes half a second to import

    return [bool(chance <= LEVEL) for chance in false_discovery_control(chances)] if chances else []


def compute_chance(low: float, high: float, draws: Array) -> float:
    """Return the probability that a further draw is at least as far from the mean as [low, high].

    The mean is the geometric mean of the draws, and distances are measured between logarithms. The
    logarithms of the draws are assumed to be normal, so Student's t distribution applies. If
    [low, high] contains the mean, the probability is 1.
    """
    logs = np.log(draws)
    middle, spread = float(logs.mean()), float(logs.std(ddof=1)) * np.sqrt(1 + 1 / len(logs))
    away = max(np.log(low) - middle, middle - np.log(high), 0.0)
    if away == 0.0:
        return 1.0
    return 0.0 if spread == 0.0 else float(2 * scipy.special.stdtr(len(logs) - 1, -away / spread))


def compute_interval(draws: Array) -> tuple[float, float]:
    """Return the interval that contains a further draw with probability 1 - `LEVEL`."""
    logs = np.log(draws)
    spread = logs.std(ddof=1) * np.sqrt(1 + 1 / len(logs))
    reach = spread * scipy.special.stdtrit(len(logs) - 1, 1 - LEVEL / 2)
    return float(np.exp(logs.mean() - reach)), float(np.exp(logs.mean() + reach))


def select_ok(cells: pd.DataFrame, variable: str) -> Array:
    """Return the finite values of a variable in the cells whose status is ok."""
    if variable not in cells:
        return np.empty(0)
    numbers = cells[variable][cells["status"] == Status.OK.label].to_numpy(np.float64)
    return np.asarray(numbers[np.isfinite(numbers)])


def _measure(
    variable: str, place: Mapping[str, Scalar], cells: pd.DataFrame, draws: Array, reference: str
) -> dict[str, Any]:
    """Return the measured fields of a `Compared`: statistics of its draws and of the references."""
    gaps = theirs = draws[:0]
    if variable in OF_REFERENCE:
        found = frames.rows_at(cells, {k: v for k, v in place.items() if k != "mechanism"})
        gaps = select_ok(frames.rows_at(found, {"mechanism": reference}), "gap")
        theirs = select_ok(frames.rows_at(found, {"mechanism": PUBLISHED_REFERENCE}), variable)
    return {
        "median": float(np.median(draws)),
        "least": float(draws.min()),
        "most": float(draws.max()),
        "draws": draws.size,
        "gap": float(gaps.max()) if gaps.size else None,
        "reference_factor": float(np.median(theirs)) if theirs.size else None,
    }


def _judge(found: Sequence[Compared], draws_of: Sequence[Array], *, drawn: bool) -> list[Compared]:
    """Judge the numbers of a table together; ``draws_of`` contains our draws for each number."""
    if drawn:
        factors: list[tuple[float, ...]] = [
            (n.reference_factor,) if n.reference_factor else () for n in found
        ]
    else:
        rows = groupby(found, key=lambda n: [v for k, v in n.at.items() if k != "mechanism"])
        factors = [of_row for _, row in rows for of_row in _find_factors(list(row))]
    tested = [at for at, number in enumerate(found) if not number.reason]

    def chance(at: int, *known: float) -> float:
        if drawn:
            return compute_chance(*found[at].range(*known), draws_of[at])
        return float(found[at].agrees(*known))

    judged = list(found)
    plain = find_surprising([chance(at) for at in tested])
    scaled = find_surprising([chance(at, *factors[at]) for at in tested])
    for at, differs, by_factor in zip(tested, plain, scaled, strict=True):
        number = replace(found[at], verdict=Verdict.HOLDS)
        if drawn:
            least, most = compute_interval(draws_of[at])
            number = replace(number, least=least, most=most)
        if differs:
            fails = Verdict.SLIP if number.slip else Verdict.FAILS
            factor = median(factors[at]) if factors[at] else None
            number = replace(number, verdict=fails if by_factor else Verdict.FACTOR, factor=factor)
        judged[at] = number
    return judged


def _find_factors(row: Sequence[Compared]) -> list[tuple[float, ...]]:
    """Return, for each number of a row, the factors that follow from IP's number.

    These are the smallest, the central and the largest factor, because IP's printed number is
    rounded. There are none if IP's number agrees, is not a variance ratio or is less than printed,
    or if they explain no other number of the row.
    """
    differing = [one for one in row if not (one.reason or one.agrees())]
    of = next((n for n in differing if n.at.get("mechanism") == _CLOSED_FORM_MECHANISM), None)
    if of is None or of.variable != "variance_ratio" or not of.median or of.median <= of.stated:
        return [()] * len(row)
    factors = tuple(of.median / (of.stated + away) for away in (of.rounding, 0, -of.rounding))
    explained = sum(one.agrees(*factors) for one in differing)
    return [factors if explained > 1 else ()] * len(row)
