"""Measured numbers beside those of published tables, and claims with their verdicts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import xarray as xr

from sweep.experiment.canonical import Scalar
from sweep.experiment.published import Claim, ComparisonTable
from sweep.experiment.schema import Experiment
from sweep.report.judgement.agreement import largest_gap
from sweep.report.judgement.verdicts import Judgement, judge
from sweep.report.numbers.pivots import label_text, labels_of, percent, row_labels, take

_AGREE = 0.01
"""Ratios that differ by less, relatively, count as one factor."""


@dataclass(frozen=True)
class Comparison:
    """A table to compare with, and the measured numbers that belong beside it.

    Attributes
    ----------
    kind : str
        Whose numbers these are: ``paper`` or ``closed form``.
    rows : Mapping[str, list of Scalar]
        The dimensions of its rows and their labels.
    columns : tuple of Scalar
        The mechanisms: the paper's first, in its order.
    remarks : tuple of str
        What has to be said of it.
    references : tuple of Scalar
        The mechanisms that ratios refer to: the paper's, or else ours.
    is_open : bool
        Whether it does not say at which labels of an axis its numbers are, so that they belong
        nowhere.
    """

    group: str
    published: ComparisonTable
    kind: str
    rows: Mapping[str, list[Any]]
    columns: tuple[Scalar, ...]
    title: str
    remarks: tuple[str, ...]
    references: tuple[Scalar, ...]
    is_open: bool = False

    def caption(self, numbers: pd.DataFrame, reference: str) -> str:
        """The remarks, and the one factor by which most columns of a row exceed the paper's.

        Parameters
        ----------
        numbers : pandas.DataFrame
            Entries of a `sweep.report.numbers.layout.Table` with the published numbers.
        reference : str
            The mechanism that our ratios refer to.
        """
        text = "; ".join(self.remarks) + "."
        text = f"{text[:1].upper()}{text[1:]}"
        factors = self._factors(numbers[~numbers["mechanism"].isin([reference, *self.references])])
        if not factors or self.published.variable != "variance_ratio":
            return text
        listed = ", ".join(
            f"{factor:.3f}{f' at {row}' if row else ''}" for row, factor in factors.items()
        )
        return (
            f"{text} Most columns of a row exceed the paper's by one factor ({listed}): the "
            f"paper's {', '.join(map(str, self.references))} stopped that far above the optimum."
        )

    def _factors(self, others: pd.DataFrame) -> dict[str, float]:
        """The factor of every row in which most columns share one."""
        if (others["cells"] > 1).any():
            return {}
        factors: dict[str, float] = {}
        for labels, row in others.groupby(list(self.rows) or (lambda _: ""), sort=False):
            listed = labels if isinstance(labels, tuple) else (labels,)
            factor = _shared_factor(row)
            if factor is not None:
                shown = zip(self.rows, map(label_text, listed), strict=False)
                factors[", ".join(f"{name} = {value}" for name, value in shown)] = factor
        return factors


def comparisons(groups: Mapping[str, xr.Dataset], experiment: Experiment) -> list[Comparison]:
    """Every table to compare with for which the datasets have cells."""
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


def claims(
    groups: Mapping[str, xr.Dataset], stated: Sequence[Claim]
) -> Iterator[tuple[Claim, Judgement]]:
    """Every claim with its verdict."""
    first = next(iter(groups), "")
    for claim in stated:
        yield claim, judge(groups.get(claim.group or first), claim)


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
    known = labels_of(pivot, "mechanism")
    first = [name for name in published.axes["mechanism"] if name in known]
    columns = (*first, *(name for name in known if name not in first))
    gap = largest_gap(data, {**published.at, "mechanism": reference})
    rows = row_labels(pivot)
    stated = {dim for name in published.axes if name in pivot.coords for dim in pivot[name].dims}
    left = [name for name, labels in rows.items() if len(labels) > 1 and name not in stated]
    beside = f"ratio = measured / {kind}"
    if left:
        beside = f"the table does not say at which {' and '.join(left)} its numbers are"
    elif not _has_a_number(pivot, published):
        beside = "none of its numbers is about what is shown"
    remarks = (
        published.source,
        beside,
        "" if gap is None else f"gap of {reference} at most {percent(gap)}",
    )
    return Comparison(
        group,
        published,
        kind,
        rows,
        columns,
        f"{published.title or published.variable}: {meaning(data, published.variable, reference)}",
        tuple(filter(None, remarks)),
        tuple(published.references or [reference]),
        bool(left),
    )


def _has_a_number(pivot: xr.Dataset, published: ComparisonTable) -> bool:
    """Whether a number of the table belongs beside one that may have been measured."""
    return all(
        axis in pivot.coords and not set(labels).isdisjoint(labels_of(pivot, axis))
        for axis, labels in published.axes.items()
    )


def _shared_factor(row: pd.DataFrame) -> float | None:
    """The factor that most distinct numbers of a row share, if it is above 1."""
    ratios = row.dropna(subset="ratio").drop_duplicates("published", keep="last")["ratio"]
    if len(ratios) < 2:
        return None
    middle = float(ratios.median())
    agree = int(((ratios / middle - 1).abs() < _AGREE).sum())
    return middle if agree >= 2 and agree > len(ratios) / 2 and middle > 1 + _AGREE else None
