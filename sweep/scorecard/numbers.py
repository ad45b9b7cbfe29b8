"""Compares the numbers of a paper with the measured ones, and gives a verdict on each.

A number about a fixed workload is compared with one measurement. A number about a random workload
comes from a single draw by its authors, so it is tested against the distribution of our own draws.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Any

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
"""The mechanism SM-II as printed. The papers' ratios refer to it; ours refer to the optimum."""
_CLOSED_FORM_MECHANISM = "IP"
"""A mechanism in closed form: its printed ratios differ from ours only through their reference."""
_MOST_SHORT_DECIMALS = 2
"""Most decimals to which omitted zeros are restored: in a table with 8.57, 8.6 means 8.60."""


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
"""The reason why a number or claim cannot be judged if nothing was run."""


OTHER_READING = "other reading"
"""Kind of the numbers computed under an interpretation other than the one that is judged.

Their ✗ need no explanation: they only show that the paper does not mean this interpretation."""


@dataclass(frozen=True)
class Compared:
    """One number of a paper with its table, and the measured number at its point.

    Attributes
    ----------
    kind : str
        "printed", "closed form" or `OTHER_READING`.
    table, source, cause, slip : str
        The table's title; where the table is printed; why its numbers with ✗ differ; and, if they
        are misprints, the proof of that.
    printed : str
        The number with the digits that the paper prints.
    reason : str
        Why the number cannot be judged.
    median, least, most : float, optional
        The measured number; for several draws, their median and the interval that contains one more
        draw with probability 1 - `LEVEL`.
    gap : float, optional
        Largest certified gap of the mechanism to which our ratio refers: the mechanism's relative
        excess over the optimum.
    factor : float, optional
        The factor by which the paper's reference exceeds ours, if the number agrees only after
        multiplication by it, or differs even then.
    reference_factor : float, optional
        Factor by which `PUBLISHED_REFERENCE` exceeds the optimum here: the median of its draws.
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
    median: float | None = None
    least: float | None = None
    most: float | None = None
    draws: int = 0
    gap: float | None = None
    factor: float | None = None
    reference_factor: float | None = None
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
        """Relative difference of the measured median from the printed number times the factor."""
        expected = self.stated * (self.factor or 1.0)
        return None if self.median is None or not expected else self.median / expected - 1

    def range(self, *factors: float) -> tuple[float, float]:
        """The range of measured numbers that agree with the printed number times a factor.

        The factor is one of ``factors`` or lies between them; without any, it is 1.
        """
        slack = 1 + (self.gap or 0.0)
        low, high = self.stated - self.rounding, self.stated + self.rounding
        return low * min(factors, default=1.0) / slack, high * max(factors, default=1.0) * slack

    def agrees(self, *factors: float) -> bool:
        """Whether the measured median is in `range`."""
        low, high = self.range(*factors)
        return self.median is not None and low <= self.median <= high


def compare(
    data: xr.Dataset, table: ComparisonTable, reference: str, *, drawn: bool
) -> list[Compared]:
    """Compare every number of a table with the measured number, except repeated numbers.

    A number of the table's own reference, which is 1, is left out if it agrees or was not run.

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
    decimals = min(_MOST_SHORT_DECIMALS, table.decimals)
    found: list[Compared] = []
    draws_of: list[Array] = []
    for at, stated in table.points():
        if at.get("mechanism") in table.same_as:
            continue
        place = {**table.at, **at}
        here = frames.rows_at(cells, place)
        draws, facts = ok_numbers(here, table.variable), dict[str, Any]()
        if here.empty:
            reason = NOT_RUN
        elif several := [axis for axis in axes if here[axis].nunique() > 1]:
            reason = f"the table does not say at which {' and '.join(several)}"
        elif not draws.size:
            worst = max(here["status"], key=list(frames.STATES.values()).index)
            reason = "has no number" if worst == Status.OK.label else worst.replace("_", " ")
        else:
            facts = _facts(table.variable, place, cells, draws, reference)
            few = drawn and draws.size < FEWEST_DRAWS
            reason = f"{draws.size} draws, {FEWEST_DRAWS} are needed" if few else table.unjudged
        number = Compared(
            place,
            f"{stated:.{max(decimals_of(stated), decimals)}f}",
            Verdict.UNJUDGED,
            reason,
            table=table.title or table.variable,
            **{name: getattr(table, name) for name in ("source", "variable", "cause", "slip")},
            **facts,
        )
        if not reason:
            verdict = Verdict.HOLDS if number.agrees() else Verdict.FAILS
            number = replace(number, verdict=verdict)
        of_reference = at.get("mechanism") in table.references
        if not of_reference or not (number.agrees() or number.reason == NOT_RUN):
            found.append(number)
            draws_of.append(draws)
    if drawn:
        found = _as_draws(found, draws_of)
    elif table.variable == "variance_ratio":
        rows = groupby(found, key=lambda n: [v for k, v in n.at.items() if k != "mechanism"])
        found = [number for _, row in rows for number in _up_to_a_factor(list(row))]
    if table.slip:
        proved = {Verdict.FAILS: Verdict.SLIP}
        return [
            replace(number, verdict=proved.get(number.verdict, number.verdict)) for number in found
        ]
    return found


def surprising(chances: Sequence[float]) -> list[bool]:
    """Mask of the chances that are too small, by Benjamini and Hochberg's rule at `LEVEL`.

    If all numbers are draws like ours, the probability that the rule selects any is at most
    `LEVEL`; otherwise, the expected share of wrong selections is at most `LEVEL`.
    """
    from scipy.stats import false_discovery_control  # takes half a second to import

    return [bool(one <= LEVEL) for one in false_discovery_control(chances)] if chances else []


def chance_of(low: float, high: float, draws: Array) -> float:
    """Chance that one more draw is as far from the middle of the draws as [low, high], or farther.

    The logarithms of the draws are assumed to be normal, so Student's distribution applies.
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


def _facts(
    variable: str, place: Mapping[str, Scalar], cells: pd.DataFrame, draws: Array, reference: str
) -> dict[str, Any]:
    """The measured fields of a `Compared`: those of its draws, and those of the references."""
    gaps = theirs = draws[:0]
    if variable in OF_REFERENCE:
        found = frames.rows_at(cells, {k: v for k, v in place.items() if k != "mechanism"})
        gaps = ok_numbers(frames.rows_at(found, {"mechanism": reference}), "gap")
        theirs = ok_numbers(frames.rows_at(found, {"mechanism": PUBLISHED_REFERENCE}), variable)
    return {
        "median": float(np.median(draws)),
        "least": float(draws.min()),
        "most": float(draws.max()),
        "draws": draws.size,
        "gap": float(gaps.max()) if gaps.size else None,
        "reference_factor": float(np.median(theirs)) if theirs.size else None,
    }


def _as_draws(found: Sequence[Compared], draws_of: Sequence[Array]) -> list[Compared]:
    """The numbers of a table with their verdicts, from one test of them all against our draws."""
    judged = list(found)
    tested = [at for at, number in enumerate(found) if number.verdict is not Verdict.UNJUDGED]
    factors = [found[at].reference_factor or 1.0 for at in tested]
    plain = [chance_of(*found[at].range(), draws_of[at]) for at in tested]
    scaled = [
        chance_of(*found[at].range(factor), draws_of[at])
        for at, factor in zip(tested, factors, strict=True)
    ]
    for at, differs, by_factor in zip(tested, surprising(plain), surprising(scaled), strict=True):
        least, most = prediction_interval(draws_of[at])
        judged[at] = replace(found[at], least=least, most=most, verdict=Verdict.HOLDS)
        if differs:
            verdict = Verdict.FAILS if by_factor else Verdict.FACTOR
            judged[at] = replace(judged[at], verdict=verdict, factor=found[at].reference_factor)
    return judged


def _up_to_a_factor(row: Sequence[Compared]) -> Sequence[Compared]:
    """The numbers of a row, with a new verdict on those that agree up to a factor.

    The factor follows from IP's number.
    """
    differing = [number for number in row if number.verdict is Verdict.FAILS]
    of = next((n for n in differing if n.at.get("mechanism") == _CLOSED_FORM_MECHANISM), None)
    if of is None or not of.median or of.median <= of.stated:
        return row
    factors = of.median / (of.stated + of.rounding), of.median / (of.stated - of.rounding)
    explained = [n for n in differing if n.agrees(*factors)]
    if explained == [of]:
        return row
    factor = of.median / of.stated
    return [
        replace(n, factor=factor, verdict=Verdict.FACTOR if n in explained else n.verdict)
        if n in differing
        else n
        for n in row
    ]
