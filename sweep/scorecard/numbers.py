"""Compares the numbers of a paper with the measured ones, and gives a verdict on each.

A number about a fixed workload is compared with one measurement. A number about a random workload
comes from one draw of the paper's, so it is tested against the distribution of our own draws.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby

import numpy as np
import pandas as pd
import scipy
import xarray as xr
from numpy.typing import NDArray

from sweep.dataset import frames
from sweep.experiment.canonical import Scalar
from sweep.experiment.schema import ComparisonTable, decimals_of
from sweep.experiment.variables import OF_REFERENCE
from sweep.store.records import Status

Array = NDArray[np.float64]

LEVEL = 0.01
"""Largest probability of a false ✗ in a table whose numbers all follow our distribution."""
FEWEST_DRAWS = 20
"""Least number of draws against which a number is tested."""
PUBLISHED_REFERENCE = "SM-II (published)"
"""SM-II as printed: the reference of the papers' ratios, whereas our ratios are to the optimum."""
_CLOSED_FORM_MECHANISM = "IP"
"""A mechanism in closed form: its printed ratios differ from ours only through their reference."""
_MOST_SHORT_DECIMALS = 2
"""Most decimals of a table that may omit final zeros: a table with 8.57 may print 8.60 as 8.6."""


class Verdict(StrEnum):
    """The verdict on a number or claim of a paper, the worst first."""

    FAILS = "fails"
    SLIP = "slip"
    """The number or claim fails, and the paper is proved to be wrong."""
    UNJUDGED = "cannot be judged"
    VARIES = "varies"
    """The number or claim holds for some seeds, but not for all."""
    FACTOR = "holds up to the factor"
    HOLDS = "holds"


NOT_RUN = "not run"
"""The reason for an open verdict if nothing was run."""


@dataclass(frozen=True)
class Compared:
    """One number of a paper, and the measured number at its point.

    Attributes
    ----------
    printed : str
        The number with the digits that the paper prints.
    rounding : float
        Half a unit of the last printed digit.
    reason : str
        Why the number cannot be judged.
    median, least, most : float, optional
        The measured number; for several draws, their median and the interval that contains one more
        draw with probability 1 - `LEVEL`.
    chance : float, optional
        Chance that one more draw is at least as far from the others as the printed number.
    gap : float, optional
        Largest certified gap of the reference of our ratio: its relative excess over the optimum.
    factor : float, optional
        The factor by which the paper's reference exceeds ours, if the number agrees only after
        multiplication by it, or differs even then.
    reference_factor : float, optional
        Factor by which `PUBLISHED_REFERENCE` exceeds the optimum here: the median of its draws.
    repeats : str
        The mechanism of the same row whose number this number repeats; empty if there is none.
    """

    at: Mapping[str, Scalar]
    stated: float
    printed: str
    rounding: float
    verdict: Verdict
    reason: str = ""
    median: float | None = None
    least: float | None = None
    most: float | None = None
    draws: int = 0
    chance: float | None = None
    gap: float | None = None
    factor: float | None = None
    reference_factor: float | None = None
    repeats: str = ""

    @property
    def difference(self) -> float | None:
        """Relative difference of the measured median from the printed number times the factor."""
        expected = self.stated * (self.factor or 1.0)
        return None if self.median is None or not expected else self.median / expected - 1


def signed_percent(share: float) -> str:
    """A relative difference in percent, with its sign."""
    if 0 < abs(share) < 5e-4:
        return f"{100 * share:+.1g} %"
    digits = 1 if abs(share) < 0.0995 else 0
    return f"{100 * share:+.{digits}f} %"


def compare(
    data: xr.Dataset, table: ComparisonTable, reference: str, *, drawn: bool
) -> list[Compared]:
    """Pair every number of a table with the measured one, except the 1s of its own reference.

    A number about a fixed workload agrees if the measured number, within the certified gap of the
    reference, rounds to it. A number about a random workload agrees unless `surprising` says that
    it is not a draw like ours.

    Either may agree up to a factor by which the paper's reference exceeds the optimum. For a random
    workload it is the factor of `PUBLISHED_REFERENCE`, measured at the same point; for a row about
    a fixed workload it comes from IP's number, and at least one other number must confirm it.

    Parameters
    ----------
    drawn : bool
        Whether the workload or its targets are random, so that the paper had a draw of its own.
    """
    cells, axes = pd.DataFrame(), []
    if table.variable in data:
        cells = frames.long(data, table.variable)
        axes = [name for name in frames.axes(data, table.variable) if name != "mechanism"]
    points = [
        _measured(cells, axes, table, at, stated, reference)
        for at, stated in table.points()
        if at.get("mechanism") not in table.same_as
    ]
    points = [
        (number, draws)
        for number, draws in points
        if number.at.get("mechanism") not in table.references
        or not (number.verdict is Verdict.HOLDS or number.reason == NOT_RUN)
    ]
    if drawn:
        found = _as_draws(points)
    elif table.variable == "variance_ratio":
        rows = groupby(
            (number for number, _ in points),
            key=lambda n: [v for k, v in n.at.items() if k != "mechanism"],
        )
        found = [number for _, row in rows for number in _up_to_a_factor(list(row))]
    else:
        found = [number for number, _ in points]
    if table.slip:
        found = [
            replace(n, verdict=Verdict.SLIP) if n.verdict is Verdict.FAILS else n for n in found
        ]
    repeating = [
        replace(number, at={**number.at, "mechanism": name}, repeats=other)
        for name, other in table.same_as.items()
        for number in found
        if number.at["mechanism"] == other
    ]
    places = [at for at, _ in table.points()]
    return sorted([*found, *repeating], key=lambda number: places.index(dict(number.at)))


def surprising(chances: Sequence[float]) -> list[bool]:
    """Mask of the chances that are too small, by Benjamini and Hochberg's rule at `LEVEL`.

    If all numbers are draws like ours, the probability that the rule selects any is at most
    `LEVEL`; otherwise, the expected share of wrong selections is at most `LEVEL`.
    """
    from scipy.stats import false_discovery_control  # takes half a second to import

    return [bool(one <= LEVEL) for one in false_discovery_control(chances)] if chances else []


def chance_of(low: float, high: float, draws: Array) -> float:
    """Chance that one more draw is at least as far from the others as every number in [low, high].

    The logarithms of the draws are taken as normal, so Student's distribution applies.
    """
    logs = np.log(draws)
    middle, spread = float(logs.mean()), float(logs.std(ddof=1)) * np.sqrt(1 + 1 / len(logs))
    away = max(np.log(low) - middle, middle - np.log(high), 0.0)
    if away == 0.0:
        return 1.0
    return 0.0 if spread == 0.0 else float(2 * scipy.special.stdtr(len(logs) - 1, -away / spread))


def prediction_interval(draws: Array) -> tuple[float, float]:
    """The interval that contains one more draw with probability 1 - `LEVEL`."""
    logs = np.log(draws)
    spread = logs.std(ddof=1) * np.sqrt(1 + 1 / len(logs))
    reach = spread * scipy.special.stdtrit(len(logs) - 1, 1 - LEVEL / 2)
    return float(np.exp(logs.mean() - reach)), float(np.exp(logs.mean() + reach))


def ok_numbers(cells: pd.DataFrame, variable: str) -> Array:
    """The finite numbers of the cells that are ok."""
    if variable not in cells:
        return np.empty(0)
    numbers = cells[variable][cells["status"] == Status.OK.label].to_numpy(np.float64)
    return np.asarray(numbers[np.isfinite(numbers)])


def _measured(
    cells: pd.DataFrame,
    axes: Sequence[str],
    table: ComparisonTable,
    at: Mapping[str, Scalar],
    stated: float,
    reference: str,
) -> tuple[Compared, Array]:
    """A number of a table, judged by the median of its draws, and these draws.

    It cannot be judged if cells at several labels of an axis remain.
    """
    decimals = max(decimals_of(stated), min(_MOST_SHORT_DECIMALS, table.decimals))
    rounding = 0.5 * 10.0**-decimals
    number = Compared(at, stated, f"{stated:.{decimals}f}", rounding, Verdict.UNJUDGED, NOT_RUN)
    place = {**table.at, **at}
    here = frames.rows_at(cells, place)
    place.pop("mechanism", None)
    found = frames.rows_at(cells, place)
    draws = ok_numbers(here, table.variable)
    if here.empty:
        return number, draws
    if several := [axis for axis in axes if here[axis].nunique() > 1]:
        reason = f"the table does not say at which {' and '.join(several)}"
        return replace(number, reason=reason), draws
    if not draws.size:
        worst = max(here["status"], key=list(frames.STATES.values()).index)
        reason = "has no number" if worst == Status.OK.label else worst.replace("_", " ")
        return replace(number, reason=reason), draws
    gaps = theirs = draws[:0]
    if table.variable in OF_REFERENCE:
        gaps = ok_numbers(frames.rows_at(found, {"mechanism": reference}), "gap")
        of = frames.rows_at(found, {"mechanism": PUBLISHED_REFERENCE})
        theirs = ok_numbers(of, table.variable)
    median, slack = float(np.median(draws)), 1 + gaps.max(initial=0.0)
    agrees = median / slack - rounding <= stated <= median * slack + rounding
    verdict = Verdict.HOLDS if agrees else Verdict.FAILS
    number = replace(
        number,
        verdict=Verdict.UNJUDGED if table.unjudged else verdict,
        reason=table.unjudged,
        median=median,
        least=float(draws.min()),
        most=float(draws.max()),
        draws=draws.size,
        gap=float(gaps.max()) if gaps.size else None,
        reference_factor=float(np.median(theirs)) if theirs.size else None,
    )
    return number, draws


def _as_draws(points: Sequence[tuple[Compared, Array]]) -> list[Compared]:
    """The numbers of a table, tested together against their draws."""
    found = [number for number, _ in points]
    tested: dict[int, Array] = {}
    for at, (number, draws) in enumerate(points):
        if number.verdict is Verdict.UNJUDGED:
            continue
        if draws.size < FEWEST_DRAWS:
            reason = f"{draws.size} draws, {FEWEST_DRAWS} are needed"
            found[at] = replace(number, verdict=Verdict.UNJUDGED, reason=reason)
        else:
            tested[at] = draws
    alone = [_chance(found[at], draws, 1.0) for at, draws in tested.items()]
    factors = [found[at].reference_factor or 1.0 for at in tested]
    of_factor = map(_chance, (found[at] for at in tested), tested.values(), factors)
    judged = zip(surprising(alone), surprising(list(of_factor)), strict=True)
    for at, chance, factor, (differs, in_spite) in zip(tested, alone, factors, judged, strict=True):
        least, most = prediction_interval(tested[at])
        found[at] = replace(found[at], chance=chance, least=least, most=most, verdict=Verdict.HOLDS)
        if differs:
            verdict = Verdict.FAILS if in_spite else Verdict.FACTOR
            applied = factor if factor != 1.0 else None
            found[at] = replace(found[at], verdict=verdict, factor=applied)
    return found


def _chance(number: Compared, draws: Array, factor: float) -> float:
    """Chance of a draw at least as far from ``draws`` as ``factor`` times the printed number."""
    slack = 1 + (number.gap or 0.0)
    low = (number.stated - number.rounding) * factor / slack
    high = (number.stated + number.rounding) * factor * slack
    return chance_of(low, high, draws)


def _up_to_a_factor(row: Sequence[Compared]) -> list[Compared]:
    """The numbers of a row; those that differ may agree up to the factor from IP's number."""
    closed = [number for number in row if number.at.get("mechanism") == _CLOSED_FORM_MECHANISM]
    if len(closed) != 1 or closed[0].verdict is not Verdict.FAILS:
        return list(row)
    (of,) = closed
    if of.median is None or of.median <= of.stated:
        return list(row)
    factor = of.median / of.stated
    differing = [n for n in row if n is not of and n.verdict is Verdict.FAILS]
    explained = [number for number in differing if _same_factor(number, of)]
    if not explained:
        return list(row)
    return [
        replace(number, factor=factor, verdict=Verdict.FACTOR)
        if number is of or number in explained
        else (replace(number, factor=factor) if number.verdict is Verdict.FAILS else number)
        for number in row
    ]


def _same_factor(number: Compared, of: Compared) -> bool:
    """Whether the factor between `of` and its measurement also explains another number."""
    if number.median is None or of.median is None:
        return False
    slack = 1 + (number.gap or 0.0)
    low = (number.stated - number.rounding) * of.median / (of.stated + of.rounding)
    high = (number.stated + number.rounding) * of.median / (of.stated - of.rounding)
    return number.median / slack <= high and low <= number.median * slack
