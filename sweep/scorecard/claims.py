"""Judge whether the claims of papers hold for the numbers of a dataset."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
import xarray as xr
from pydantic.dataclasses import dataclass

from sweep.dataset import frames
from sweep.dataset.pivots import label_text, row_labels
from sweep.experiment.schema import Claim
from sweep.grid.cells import REPLICATE
from sweep.scorecard.numbers import NOT_RUN, Compared, Short, Verdict
from sweep.store.records import Status

_NAMED_PLACES = 4
"""A verdict names at most so many points that contradict a claim, about a line of text."""
_NUMBER, _STATE, _BELOW = "the number", "status", " below"


@dataclass(frozen=True)
class Judgement:
    """The verdict on a claim, with the measured numbers.

    Attributes
    ----------
    reason : str
        Where the claim fails, for how many seeds it holds, or why it cannot be judged.
    least, most : float, optional
        Smallest and largest of the numbers that decide the claim; None if there are no such
        numbers.
    points, against : int
        Number of points, and number of points that contradict the claim. A point counts once for
        each seed.
    """

    verdict: Verdict
    reason: str = ""
    least: Short | None = None
    most: Short | None = None
    points: int = 0
    against: int = 0


def judge(data: xr.Dataset | None, claim: Claim) -> Judgement:
    """Judge a claim by the dataset of its group; the dataset is None if the group was not run.

    If the claim's `share` is less than 1, the claim holds or fails depending on the share of the
    points that are within the range. Every other claim has the first of these verdicts whose
    condition is met:

    - fails: for every seed, at least one point contradicts the claim;
    - cannot be judged: one of the claim's cells in the dataset has no number, for instance because
      it failed or is pending;
    - varies: for some seeds, a point contradicts the claim;
    - holds: no point contradicts the claim.

    Labels of the claim that the dataset does not have are ignored, and named in the reason.
    `judge_by_numbers` judges the claims that repeat printed numbers.
    """
    if claim.unjudged:
        return Judgement(Verdict.UNJUDGED, claim.unjudged)
    if data is None:
        return Judgement(Verdict.UNJUDGED, NOT_RUN)
    if claim.variable is None or claim.variable not in data:
        return Judgement(Verdict.UNJUDGED, f"the dataset has no {claim.variable!r}")
    if claim.least is None and claim.most is None:
        repeated = "see the numbers that it repeats" if claim.repeats_number else ""
        return Judgement(Verdict.UNJUDGED, repeated or "it states no range")
    numbers, without = _select_numbers(data, claim.variable, claim)
    finite = numbers[(numbers[_STATE] == Status.OK.label) & np.isfinite(numbers[_NUMBER])]
    if finite.empty:
        return Judgement(
            Verdict.UNJUDGED, "; ".join(filter(None, (_explain_missing(numbers), without)))
        )
    # as many digits as are kept: rounding errors decide nothing, such as 1 + 2e-16 against 1
    values = finite[_NUMBER].map("{:.7g}".format).astype(np.float64)
    against = finite[[not _is_within(value, claim.least, claim.most) for value in values]]
    seeds = numbers[REPLICATE].nunique()
    held, within = seeds - against[REPLICATE].nunique(), 1 - len(against) / len(finite)
    fails = Verdict.SLIP if claim.slip else Verdict.FAILS
    where = _name_places(against, finite)
    if claim.share < 1:
        verdict = Verdict.HOLDS if within >= claim.share else fails
        reason = f"at {100 * within:.3g} % of {len(finite)} points"
    elif not held:
        verdict, reason = fails, where
    elif len(finite) < len(numbers):
        verdict, reason = Verdict.UNJUDGED, _explain_missing(numbers.drop(finite.index))
    elif len(against):
        reason = f"for {held} of {seeds} seeds{where and f'; {where}'}"
        verdict = Verdict.VARIES
    else:
        verdict, reason = Verdict.HOLDS, f"for all {seeds} seeds" if seeds > 1 else ""
    remark = "; ".join(filter(None, (reason, without)))
    least, most = float(values.min()), float(values.max())
    return Judgement(verdict, remark, least, most, len(finite), len(against))


def judge_by_numbers(claim: Claim, numbers: Sequence[Compared]) -> Judgement:
    """Judge a claim that repeats printed numbers: return the worst verdict on these numbers."""
    repeated = [
        number
        for number in numbers
        if all(number.at.get(axis) in labels for axis, labels in claim.at.items())
    ]
    values = [number.median for number in repeated if number.median is not None]
    if not repeated:
        return Judgement(Verdict.UNJUDGED, "none of its numbers is printed")
    verdict = find_worst(number.verdict for number in repeated)
    decisive = [number for number in repeated if number.verdict is verdict]
    return Judgement(
        verdict,
        decisive[0].reason or "as the numbers in the table",
        min(values, default=None),
        max(values, default=None),
        points=len(repeated),
        against=len(decisive) if verdict is Verdict.FAILS else 0,
    )


def find_worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of the verdicts."""
    return min(verdicts, key=list(Verdict).index)


def format_range(
    least: float | None, most: float | None, stated: tuple[float | None, float | None] | None = None
) -> str:
    """Return a range as text; if both ends are None, the text is empty.

    Without ``stated``, an end has up to 12 significant digits. With another range ``stated``, an
    end has four significant digits, or more if rounding would otherwise move it into or out of
    ``stated``.
    """

    def text(value: float) -> str:
        if stated is None:
            return f"{value:.12g}"
        shown = (f"{value:.{digits}g}" for digits in range(4, 18))
        inside = _is_within(value, *stated)
        return next(short for short in shown if _is_within(float(short), *stated) == inside)

    if least is None:
        return "" if most is None else f"≤ {text(most)}"
    if most is None:
        return f"≥ {text(least)}"
    first, last = text(least), text(most)
    return first if first == last else f"{first}–{last}"


def _is_within(value: float, least: float | None, most: float | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


def _select_numbers(data: xr.Dataset, variable: str, claim: Claim) -> tuple[pd.DataFrame, str]:
    """Return the numbers that decide a claim, and a text that names the claim's missing labels.

    The table has a row for every cell: its labels (the mechanism first), replicate, number and
    status.
    """
    axes = sorted(frames.axes(data, variable), key=lambda axis: axis != "mechanism")
    cells = frames.long(data, variable)
    missing = dict.fromkeys(axis for axis in (*claim.at, claim.along) if axis and axis not in cells)
    decisive = {REPLICATE: cells.get(REPLICATE, 0), _NUMBER: cells[variable]}
    cells = cells.assign(**missing, **decisive)
    numbers, gone = cells, list[str]()
    over = {} if claim.over is None else {"mechanism": (claim.over,)}
    for axis, labels in (*over.items(), *claim.at.items()):
        labels_run = cells[axis].unique()
        absent = [label for label in labels if label not in labels_run]
        gone += [f"{axis} = {', '.join(map(label_text, absent))}"] if absent else []
    for axis, labels in claim.at.items():
        numbers = numbers[numbers[axis].isin(labels)]
    if over:
        numbers = numbers[numbers["mechanism"] != claim.over]
        below = cells[cells["mechanism"] == claim.over]
        numbers = _divide(numbers, below, [axis for axis in axes if axis != "mechanism"])
    if claim.along is not None:  # each number is divided by the one at the previous label
        following = dict(pairwise(numbers[claim.along].unique()))
        earlier = numbers[numbers[claim.along].isin(following)]
        later = earlier[claim.along].map(following)
        numbers = _divide(numbers, earlier.assign(**{claim.along: later}), axes)
    without = f"without {'; '.join(gone)}" if gone else ""
    return numbers[[*axes, REPLICATE, _NUMBER, _STATE]], without


def _divide(above: pd.DataFrame, below: pd.DataFrame, on: Sequence[str]) -> pd.DataFrame:
    """Divide the numbers in ``above`` by those in ``below`` that have the same labels along ``on``.

    If the status of the numerator or the denominator is not ok, the quotient has that status.
    """
    keys = [*on, REPLICATE]
    both = above.merge(below[[*keys, _NUMBER, _STATE]], on=keys, suffixes=("", _BELOW))
    number = both[_NUMBER] / both[_NUMBER + _BELOW].where(both[_NUMBER + _BELOW] != 0)
    state = both[_STATE].where(both[_STATE] != Status.OK.label, both[_STATE + _BELOW])
    quotients = both.drop(columns=[_NUMBER + _BELOW, _STATE + _BELOW])
    return quotients.assign(**{_NUMBER: number, _STATE: state})


def _explain_missing(unknown: pd.DataFrame) -> str:
    """Say why some points have no number, and name the first of these points."""
    if unknown.empty:
        return "nothing that it compares was run"
    state = str(unknown[_STATE].iloc[0])
    why = "has no number" if state == Status.OK.label else f"is {state.replace('_', ' ')}"
    (where,) = row_labels(unknown[:1], list(unknown.columns[:-3]))
    others = len(unknown) - 1
    more = f", and {others} more cell{'s' * (others > 1)}" if others else ""
    return f"{where or 'its cell'} {why}{more}"


def _name_places(against: pd.DataFrame, known: pd.DataFrame) -> str:
    """Name the points at which the numbers contradict a claim; empty if there is only one point.

    Only the coordinates that vary are named.
    """
    varying = [axis for axis in known.columns[:-3] if known[axis].nunique() > 1]
    points, places = ([*dict.fromkeys(row_labels(some, varying))] for some in (known, against))
    if len(points) == 1:
        return ""
    shown = places if len(places) <= _NAMED_PLACES else [*places[:_NAMED_PLACES], "..."]
    return f"not at {len(places)} of {len(points)} points: {'; '.join(shown)}"
