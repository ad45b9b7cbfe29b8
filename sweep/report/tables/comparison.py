"""Measured numbers beside those of published tables."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import pandas as pd
import xarray as xr

from sweep.experiment.published import ComparisonTable
from sweep.experiment.schema import Experiment
from sweep.report.judgement.agreement import largest_gap
from sweep.report.numbers import frames, layout
from sweep.report.numbers.layout import Spread, Table
from sweep.report.numbers.pivots import (
    label_text,
    labels_of,
    located,
    percent,
    row_labels,
    take,
)

_AGREE = 0.01
"""Ratios that differ by less, relatively, count as one factor."""


def comparisons(
    groups: Mapping[str, xr.Dataset], experiment: Experiment, spread: Spread
) -> Iterator[tuple[str, Table]]:
    """Every table to compare with for which a dataset has cells, with the group of the dataset.

    Below the measured numbers stand those of the paper or the closed form, and the ratios to them.
    """
    kinds = {"paper": experiment.published, "closed form": experiment.closed_form}
    for kind, tables in kinds.items():
        for published, (group, data) in product(tables, groups.items()):
            if published.group not in (None, group) or "mechanism" not in published.axes:
                continue
            pivot = take(data, published.variable, published.at)
            here = located(data, published.at)
            if pivot is not None and here is not None:
                yield group, _beside(here, pivot, published, kind, experiment.reference, spread)


def meaning(data: xr.Dataset, variable: str, reference: str) -> str:
    """The long name of a variable, the reference by its name."""
    long_name = str(data[variable].attrs.get("long_name", variable))
    return long_name.replace("the reference mechanism", reference)


def _beside(
    here: xr.Dataset,
    pivot: xr.Dataset,
    published: ComparisonTable,
    kind: str,
    reference: str,
    spread: Spread,
) -> Table:
    """The measured numbers, the paper's and their ratios; the paper's mechanisms come first."""
    known, rows = labels_of(pivot, "mechanism"), row_labels(pivot)
    first = [name for name in published.axes["mechanism"] if name in known]
    mechanisms = list(dict.fromkeys([*first, *known]))
    stated = {dim for name in published.axes if name in pivot.coords for dim in pivot[name].dims}
    unstated = [name for name, labels in rows.items() if len(labels) > 1 and name not in stated]
    cells = frames.long(here, published.variable)
    named = (name for name in published.axes if name in cells)
    by = list(dict.fromkeys([*rows, *named, "mechanism"]))
    summary = layout.summarised(cells, published.variable, by)
    numbers = layout.ordered(summary, {**rows, "mechanism": mechanisms})
    if not unstated:
        numbers = layout.with_published(numbers, published)
    shown = layout.beside(numbers, tuple(rows), mechanisms, spread, kind)
    gap = largest_gap(here, {"mechanism": reference})
    remarks = [
        published.source,
        _placed(pivot, published, kind, unstated),
        "" if gap is None else f"largest gap of {reference}: {percent(gap)}",
    ]
    caption = f"{'; '.join(filter(None, remarks))}."
    caption = (
        f"{caption[:1].upper()}{caption[1:]}{_one_factor(numbers, rows, published, reference)}"
    )
    title = (
        f"{published.title or published.variable}: {meaning(here, published.variable, reference)}"
    )
    notes = (caption, *layout.explained(numbers, spread), *_gaps(numbers, rows, kind))
    return Table(title, numbers, shown, notes)


def _placed(
    pivot: xr.Dataset, published: ComparisonTable, kind: str, unstated: Sequence[str]
) -> str:
    """What the ratios are, or why there are none."""
    if unstated:
        return f"the table does not say at which {' and '.join(unstated)} its numbers are"
    if all(
        axis in pivot.coords and not set(labels).isdisjoint(labels_of(pivot, axis))
        for axis, labels in published.axes.items()
    ):
        return f"ratio = measured / {kind}"
    return "none of its numbers is about what is shown"


def _gaps(numbers: pd.DataFrame, rows: Mapping[str, Any], kind: str) -> Iterator[str]:
    """Sentences on the numbers that the paper, or the closed form, does not have."""
    by_row = numbers.groupby(list(rows) or (lambda _: ""), sort=False)["published"]
    beside = numbers[by_row.transform("count") > 0].groupby("mechanism", sort=False)["published"]
    known, asked = beside.count(), beside.size()
    if ((known > 0) & (known < asked)).any():
        yield f"{layout.UNPRINTED}: the {kind} has no such number."
    if others := ", ".join(map(str, known.index[known == 0])):
        yield f"{layout.UNPRINTED} under {others}: not in the {kind}."


def _one_factor(
    numbers: pd.DataFrame, rows: Mapping[str, Any], published: ComparisonTable, reference: str
) -> str:
    """The one factor by which most columns of a row exceed the paper's; empty if there is none."""
    references = published.references or [reference]
    others = numbers[~numbers["mechanism"].isin([reference, *references])]
    if published.variable != "variance_ratio" or (others["cells"] > 1).any():
        return ""
    factors = []
    for labels, row in others.groupby(list(rows) or (lambda _: ""), sort=False):
        listed = labels if isinstance(labels, tuple) else (labels,)
        factor = _shared_factor(row)
        if factor is not None:
            at = ", ".join(f"{n} = {label_text(v)}" for n, v in zip(rows, listed, strict=False))
            factors.append(f"{factor:.3f}{at and f' at {at}'}")
    if not factors:
        return ""
    return (
        f" Most columns of a row exceed the paper's by one factor ({', '.join(factors)}): the "
        f"paper's {', '.join(map(str, references))} stopped that far above the optimum."
    )


def _shared_factor(row: pd.DataFrame) -> float | None:
    """The factor that most distinct numbers of a row share, if it is above 1."""
    ratios = row.dropna(subset="ratio").drop_duplicates("published", keep="last")["ratio"]
    if len(ratios) < 2:
        return None
    middle = float(ratios.median())
    agree = int(((ratios / middle - 1).abs() < _AGREE).sum())
    return middle if agree >= 2 and agree > len(ratios) / 2 and middle > 1 + _AGREE else None
