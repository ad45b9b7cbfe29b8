"""The tables of a store: numbers beside the papers', overviews, and claims with their verdicts."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pandas as pd
import xarray as xr

from sweep.dataset import reading
from sweep.dataset.pivots import (
    label_text,
    labels_of,
    located,
    percent,
    row_labels,
    take,
    with_states,
)
from sweep.dataset.reading import Results
from sweep.errors import SweepError
from sweep.experiment.schema import ComparisonTable, Experiment
from sweep.report import frames, layout
from sweep.report.layout import Table, Wanted
from sweep.scorecard.claims import judge, measured_range, stated_range
from sweep.scorecard.numbers import largest_gap

_AGREE = 0.01
"""Ratios that differ by less, relatively, count as one factor."""


def comparisons(
    groups: Mapping[str, xr.Dataset], experiment: Experiment, wanted: Wanted
) -> Iterator[tuple[str, Table]]:
    """Every table to compare with for which a dataset has cells, with the group of the dataset.

    Below the measured numbers are those of the paper or the closed form, and the ratios to them.
    """
    kinds = {"paper": experiment.published, "closed form": experiment.closed_form}
    for kind, tables in kinds.items():
        for published, (group, data) in product(tables, groups.items()):
            if published.group not in (None, group) or "mechanism" not in published.axes:
                continue
            pivot = take(data, published.variable, published.at)
            here = located(data, published.at)
            if pivot is not None and here is not None:
                yield group, _beside(here, pivot, published, kind, experiment.reference, wanted)


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
    wanted: Wanted,
) -> Table:
    """The measured numbers, the paper's and their ratios; the paper's mechanisms come first.

    Rows, columns and cells are those wanted, by default all rows of the paper.
    """
    known, across = labels_of(pivot, "mechanism"), row_labels(pivot)
    first = [name for name in published.axes["mechanism"] if name in known]
    mechanisms = list(dict.fromkeys([*first, *known]))
    stated = {dim for name in published.axes if name in pivot.coords for dim in pivot[name].dims}
    unstated = [name for name, labels in across.items() if len(labels) > 1 and name not in stated]
    cells = frames.where(frames.long(here, published.variable), wanted.where)
    rows: tuple[str, ...] = tuple(across)
    if wanted.rows or wanted.columns != "mechanism":
        rows = layout.rows_of(here, cells, wanted.rows, wanted.columns)
    named = (name for name in published.axes if name in cells)
    by = list(dict.fromkeys([*rows, *named, wanted.columns, "mechanism"]))
    summary = layout.summarised(cells, published.variable, by)
    order = {name: labels_of(here, name) for name in (*rows, wanted.columns)}
    order |= {"mechanism": mechanisms}
    numbers = layout.ordered(summary, order)
    if not unstated:
        numbers = layout.with_published(numbers, published)
    labels = order[wanted.columns]
    shown = layout.beside(numbers, rows, wanted.columns, labels, wanted, kind)
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
    notes = (caption, *layout.explained(numbers, wanted.spread), *_gaps(numbers, rows, kind))
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
    return f"the {kind} has no numbers for these settings"


def _gaps(numbers: pd.DataFrame, rows: Sequence[str], kind: str) -> Iterator[str]:
    """Sentences that say which numbers the paper or the closed form lacks."""
    by_row = numbers.groupby(list(rows) or (lambda _: ""), sort=False)["published"]
    beside = numbers[by_row.transform("count") > 0].groupby("mechanism", sort=False)["published"]
    known, asked = beside.count(), beside.size()
    if ((known > 0) & (known < asked)).any():
        yield f"{layout.UNPRINTED}: the {kind} has no such number."
    if others := ", ".join(map(str, known.index[known == 0])):
        yield f"{layout.UNPRINTED} under {others}: not in the {kind}."


def _one_factor(
    numbers: pd.DataFrame, rows: Sequence[str], published: ComparisonTable, reference: str
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


_LONGEST = 64
"""A table with a row for every mechanism has at most this many."""
_LISTED = (
    "squared_privacy_cost",
    "variance_ratio",
    "total_variance_ratio",
    "gap",
    "utility",
    "utility_bound",
    "min_entropy_leakage",
    "leakage_bound",
    "expected_squared_error",
)
"""The variables of an overview, as far as they have numbers, unless ``show`` names others."""
_SHORT = {
    "squared_privacy_cost": "Δ²",
    "variance_ratio": "variance ratio",
    "total_variance_ratio": "total / CA's",
    "min_entropy_leakage": "leakage (bit)",
    "leakage_bound": "its bound",
    "utility_bound": "its bound",
}


@dataclass(frozen=True)
class _Column:
    """A variable with the short name above it, at one δ if there are several."""

    heading: str
    variable: str
    delta: float | None = None


def overview(group: str, data: xr.Dataset, experiment: Experiment, wanted: Wanted) -> Table:
    """The variables of a group that are worth showing, with a row for every mechanism.

    A single one, or the first if there are many rows, has a column for every mechanism. The table
    is empty if none that is to be shown exists.
    """
    names = experiment.show or _LISTED
    known = [name for name in names if name in data]
    shown = [name for name in known if np.isfinite(data[name].to_numpy()).any()] or known
    if not shown:
        title = f"{group}: nothing to show; no variable is {', '.join(names)}"
        return Table(title, pd.DataFrame(), pd.DataFrame())
    first = with_states(data, shown[0])
    rows = tuple(row_labels(first))
    count = math.prod(first.sizes[name] for name in (*rows, "mechanism"))
    if count > _LONGEST or len(shown) == 1:
        ratios = not experiment.show and "variance_ratio" in shown
        name = "variance_ratio" if ratios else shown[0]
        title = f"{group}: {meaning(data, name, experiment.reference)}"
        return layout.table(data, replace(wanted, value=name, rows=rows), title)
    columns = [_Column(_SHORT.get(name, name.replace("_", " ")), name) for name in shown]
    columns += [] if experiment.show else _budgets(data)
    title = f"{group}: {experiment.title}" if experiment.title else group
    return _side_by_side(data, title, (*rows, "mechanism"), columns, wanted)


def _side_by_side(
    data: xr.Dataset, title: str, by: Sequence[str], columns: Sequence[_Column], wanted: Wanted
) -> Table:
    parts = []
    for column in columns:
        at = {} if column.delta is None else {"delta": labels_of(data, "delta").index(column.delta)}
        cells = frames.long(data.isel(at), column.variable)
        part = layout.summarised(cells, column.variable, by)
        parts.append(part.assign(column=column.heading))
    order = {name: labels_of(data, name) for name in by}
    numbers = layout.ordered(pd.concat(parts, ignore_index=True), order)
    headings = [column.heading for column in columns]
    shown = layout.pivoted(numbers, by, "column", headings, wanted)
    return Table(title, numbers, shown, layout.explained(numbers, wanted.spread))


def _budgets(data: xr.Dataset) -> list[_Column]:
    """The least ε at which the targets are met, for each δ."""
    if "epsilon_at_targets" not in data or "delta" not in data.dims:
        return []
    numbers = data["epsilon_at_targets"].transpose("delta", ...).to_numpy()
    return [
        _Column(f"ε at δ={delta:g}", "epsilon_at_targets", delta)
        for delta, column in zip(labels_of(data, "delta"), numbers, strict=True)
        if np.isfinite(column).any()
    ]


CLAIMS = "What the text says"
"""The title of the table of claims."""


def all_tables(
    results: Results, experiment: Experiment, wanted: Wanted | None = None
) -> list[Table]:
    """The tables of numbers, and that of the claims if there are any."""
    stated = [claims(results, experiment)] if experiment.claims else []
    return [*number_tables(results, experiment, wanted), *stated]


def number_tables(
    results: Results, experiment: Experiment, wanted: Wanted | None = None
) -> list[Table]:
    """One table for each comparison, and one for each group without any."""
    groups, wanted = reading.groups(results), wanted or Wanted()
    compared = list(comparisons(groups, experiment, wanted))
    known = {group for group, _ in compared}
    others = [
        (group, overview(group, data, experiment, wanted))
        for group, data in groups.items()
        if group not in known
    ]
    return [_related(table, groups[group]) for group, table in (*compared, *others)]


def requested(results: Results, experiment: Experiment, wanted: Wanted) -> list[Table]:
    """One variable over any coordinates: a table for every group that has them.

    The paper's numbers stay beside the measured ones.

    Raises
    ------
    SweepError
        If no group has the variable, the coordinates and such cells.
    """
    groups = reading.groups(results)
    tables: list[Table] = []
    troubles: list[SweepError] = []
    asked = experiment.model_copy(
        update={
            kind: [one for one in getattr(experiment, kind) if one.variable == wanted.value]
            for kind in ("published", "closed_form")
        }
    )
    for group, data in groups.items():
        try:
            compared = [table for _, table in comparisons({group: data}, asked, wanted)]
            found = compared or [_titled(group, layout.table(data, wanted))]
        except SweepError as error:
            troubles.append(error)
        else:
            tables += [_related(table, data) for table in found]
    if not tables:
        raise troubles[0]
    return tables


def _titled(group: str, table: Table) -> Table:
    return replace(table, title=f"{group}: {table.title}")


def entries(listed: Sequence[Table]) -> pd.DataFrame:
    """The numbers of all tables as one, the table's title first; claims have no such entries."""
    numbers = [t.entries.assign(table=t.title) for t in listed if "mean" in t.entries.columns]
    if not numbers:
        return pd.DataFrame()
    whole = pd.concat(numbers, ignore_index=True)
    return whole[["table", *whole.columns.drop("table")]]


def _related(table: Table, data: xr.Dataset) -> Table:
    return replace(table, notes=(*table.notes, *layout.relation(data)))


def claims(results: Results, experiment: Experiment) -> Table:
    """The paper's claims, the ranges that were measured, and the verdicts."""
    groups = reading.groups(results)
    first = next(iter(groups), "")
    stated = [
        (claim, judge(groups.get(claim.group or first), claim)) for claim in experiment.claims
    ]
    numbers = pd.DataFrame(
        {
            "claim": claim.text,
            "source": claim.source,
            "variable": claim.variable,
            "least": claim.least,
            "most": claim.most,
            "measured_minimum": judgement.least,
            "measured_maximum": judgement.most,
            "verdict": str(judgement.verdict),
            "reason": judgement.reason,
        }
        for claim, judgement in stated
    )
    texts = [
        (
            f"{claim.text} ({claim.source})" if claim.source else claim.text,
            stated_range(claim.least, claim.most) or "no range",
            measured_range(judgement.least, judgement.most, (claim.least, claim.most))
            or layout.NONE,
            judgement.sentence,
        )
        for claim, judgement in stated
    ]
    index = pd.Index([text for text, *_ in texts], name="claim")
    shown = pd.DataFrame([rest for _, *rest in texts], index, ["states", "measured", "verdict"])
    return Table(CLAIMS, numbers, shown)
