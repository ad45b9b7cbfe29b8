"""Measured numbers against those of a published table and against what its text claims."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from sweep.experiment.canonical import Scalar
from sweep.experiment.published import Claim, ComparisonTable
from sweep.experiment.schema import Experiment
from sweep.report.judgement.agreement import unit_mechanisms
from sweep.report.judgement.verdicts import Judgement, judge
from sweep.report.numbers.pivots import Pivot, percent, take
from sweep.store.records import Status

_AGREE = 0.01
"""Ratios that differ by less, relatively, count as one factor."""


@dataclass(frozen=True)
class Pair:
    """A measured number beside the published one.

    Attributes
    ----------
    measured : float
        NaN where there is none.
    paper : float or None
        None where the paper prints none.
    """

    measured: float
    paper: float | None

    @property
    def ratio(self) -> float:
        """Measured / paper, NaN where either is missing."""
        return self.measured / self.paper if self.paper else np.nan


@dataclass(frozen=True)
class Comparison:
    """A table to compare with, and the measured numbers that belong beside it.

    Attributes
    ----------
    group : str
        The group of the dataset that has them.
    published : ComparisonTable
        The table.
    kind : str
        Whose numbers these are: ``paper`` or ``closed form``.
    pivot : Pivot
        The measured numbers.
    columns : tuple of Scalar
        The mechanisms: the paper's first, in its order.
    title, caption : str
        What is compared, and what has to be said of it.
    """

    group: str
    published: ComparisonTable
    kind: str
    pivot: Pivot
    columns: tuple[Scalar, ...]
    title: str
    caption: str


def comparisons(groups: Mapping[str, xr.Dataset], experiment: Experiment) -> list[Comparison]:
    """Every table to compare with of which the datasets have cells."""
    return [
        found
        for kind, tables in (
            ("paper", experiment.published),
            ("closed form", experiment.closed_form),
        )
        for published in tables
        for group, data in groups.items()
        if published.group in (None, group)
        for found in [_compared(group, data, published, kind, experiment.reference)]
        if found is not None
    ]


def without_published(
    groups: Mapping[str, xr.Dataset], experiment: Experiment
) -> dict[str, xr.Dataset]:
    """The groups of which there is no table to compare with."""
    compared = {table.group for table in (*experiment.published, *experiment.closed_form)}
    return {
        group: data
        for group, data in groups.items()
        if group not in compared and None not in compared
    }


def claims(
    groups: Mapping[str, xr.Dataset], stated: Sequence[Claim]
) -> Iterator[tuple[Claim, Judgement]]:
    """Every claim with its verdict."""
    first = next(iter(groups), "")
    for claim in stated:
        data = groups.get(claim.group or first)
        yield claim, judge(xr.Dataset() if data is None else data, claim)


def pair(published: ComparisonTable, pivot: Pivot, index: tuple[int, ...], mechanism: Any) -> Pair:
    """The measured and the published number of one row and column."""
    here = {name: labels[at] for (name, labels), at in zip(pivot.rows.items(), index, strict=True)}
    at = (*index, pivot.columns.index(mechanism))
    return Pair(pivot.number(at), published.printed({**here, "mechanism": mechanism}))


def meaning(data: xr.Dataset, variable: str, reference: str) -> str:
    """The long name of a variable, the reference by its name."""
    long_name = str(data[variable].attrs.get("long_name", variable))
    return long_name.replace("the reference mechanism", reference)


def _compared(
    group: str, data: xr.Dataset, published: ComparisonTable, kind: str, reference: str
) -> Comparison | None:
    pivot = take(data, published.variable, published.at)
    if pivot is None or "mechanism" not in published.axes:
        return None
    first = [name for name in published.axes["mechanism"] if name in pivot.columns]
    columns = (*first, *(name for name in pivot.columns if name not in first))
    own = unit_mechanisms(published)
    parts = [
        published.source,
        f"ratio = measured / {kind}",
        _largest_gap(data, {**published.at, "mechanism": reference}),
    ]
    return Comparison(
        group,
        published,
        kind,
        pivot,
        columns,
        f"{published.title or published.variable}: {meaning(data, published.variable, reference)}",
        _caption(parts, pivot, _factors(published, pivot, {reference, *own}), own or [reference]),
    )


def _factors(published: ComparisonTable, pivot: Pivot, references: set[Scalar]) -> dict[str, float]:
    """The factor of every row in which most columns share one."""
    if pivot.replicates > 1 or published.variable != "variance_ratio":
        return {}
    factors: dict[str, float] = {}
    for index, names in pivot.each_row():
        others = [name for name in pivot.columns if name not in references]
        factor = _shared_factor([pair(published, pivot, index, name) for name in others])
        if factor is not None:
            labels = zip(pivot.rows, names, strict=True)
            factors[", ".join(f"{name} = {value}" for name, value in labels)] = factor
    return factors


def _shared_factor(pairs: Sequence[Pair]) -> float | None:
    """The factor that most distinct numbers of a row share, if it is above 1."""
    ratios = list({pair.paper: pair.ratio for pair in pairs if not np.isnan(pair.ratio)}.values())
    if len(ratios) < 2:
        return None
    middle = float(np.median(ratios))
    agree = sum(abs(ratio / middle - 1) < _AGREE for ratio in ratios)
    return middle if agree >= 2 and agree > len(ratios) / 2 and middle > 1 + _AGREE else None


def _largest_gap(data: xr.Dataset, at: Mapping[str, Scalar]) -> str:
    """A clause with the largest gap of the reference, which bounds its distance to the optimum."""
    gaps = take(data, "gap", at)
    if gaps is None:
        return ""
    ok = gaps.values[gaps.states == Status.OK]
    known = ok[np.isfinite(ok)]
    return f"gap of {at['mechanism']} at most {percent(known.max())}" if known.size else ""


def _caption(
    parts: Sequence[str], pivot: Pivot, factors: Mapping[str, float], references: Sequence[Scalar]
) -> str:
    means = f"means of {pivot.replicates} replicates" if pivot.replicates > 1 else ""
    text = "; ".join(part for part in (*parts, means) if part) + "."
    if factors:
        listed = ", ".join(
            f"{factor:.3f}{f' at {row}' if row else ''}" for row, factor in factors.items()
        )
        text += (
            f" Most columns of a row exceed the paper's by one factor ({listed}): the paper's "
            f"{', '.join(map(str, references))} stopped that far above the optimum."
        )
    return text
