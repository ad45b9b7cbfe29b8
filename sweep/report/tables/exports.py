"""The tables of a store for other documents: the same as on the screen, with all numbers."""

from collections.abc import Hashable, Sequence
from dataclasses import replace

import pandas as pd
import xarray as xr

from sweep.errors import SweepError
from sweep.experiment.published import Claim
from sweep.experiment.schema import Experiment
from sweep.report.judgement.verdicts import Judgement, measured_range, stated_range
from sweep.report.numbers import frames, layout
from sweep.report.numbers.frames import Results
from sweep.report.numbers.layout import Spread, Table, Wanted
from sweep.report.numbers.pivots import labels_of, located
from sweep.report.tables.comparison import (
    Comparison,
    claims,
    comparisons,
)
from sweep.report.tables.overview import Column, Overview, overview

CLAIMS = "What the text says"
"""The title of the table of claims."""


def tables(results: Results, experiment: Experiment, spread: Spread = "error") -> list[Table]:
    """One table for each comparison, one for each group without any, and one of the claims."""
    groups = frames.groups(results)
    compared = comparisons(groups, experiment)
    tables = [
        _related(
            _beside(groups[item.group], item, experiment.reference, spread), groups[item.group]
        )
        for item in compared
    ]
    known = {item.group for item in compared}
    for group, data in groups.items():
        if group not in known:
            tables.append(
                _related(_overview(data, overview(group, data, experiment), spread), data)
            )
    stated = list(claims(groups, experiment.claims))
    return [*tables, _statements(stated)] if stated else tables


def requested(results: Results, wanted: Wanted) -> list[Table]:
    """One variable over any coordinates: a table for every group that has them.

    Raises
    ------
    SweepError
        If no group has the variable, the coordinates and such cells.
    """
    groups = frames.groups(results)
    tables, troubles = [], []
    for group, data in groups.items():
        try:
            found = layout.table(data, wanted)
        except SweepError as error:
            troubles.append(error)
        else:
            tables.append(_related(replace(found, title=f"{group}: {found.title}"), data))
    if not tables:
        raise troubles[0]
    return tables


def entries(listed: Sequence[Table]) -> pd.DataFrame:
    """The numbers of all tables as one, the table's title first; claims have no such entries."""
    numbers = [t.entries.assign(table=t.title) for t in listed if "mean" in t.entries.columns]
    if not numbers:
        return pd.DataFrame()
    whole = pd.concat(numbers, ignore_index=True)
    return whole[["table", *whole.columns.drop("table")]]


def _related(table: Table, data: xr.Dataset) -> Table:
    return replace(table, notes=(*table.notes, *layout.relation(data)))


def _beside(data: xr.Dataset, compared: Comparison, reference: str, spread: Spread) -> Table:
    """The measured numbers, the paper's and their ratios."""
    published = compared.published
    here = located(data, published.at)
    if here is None:
        raise SweepError(f"{compared.title}: the dataset has no {dict(published.at)}")
    cells = frames.long(here, published.variable)
    rows = tuple(compared.rows)
    named = (name for name in published.axes if name in cells)
    summary = layout.summarised(
        cells, published.variable, list(dict.fromkeys([*rows, *named, "mechanism"]))
    )
    order = {**compared.rows, "mechanism": compared.columns}
    numbers = layout.ordered(summary, order)
    if not compared.is_open:
        numbers = layout.with_published(numbers, published)
    shown = layout.beside(numbers, rows, compared.columns, spread, compared.kind)
    notes = (compared.caption(numbers, reference), *layout.explained(numbers, spread))
    return Table(compared.title, numbers, shown, notes)


def _overview(data: xr.Dataset, listing: Overview, spread: Spread) -> Table:
    """Several variables with a row for every mechanism, or one with a column for each."""
    if not listing.columns:
        return Table(listing.title, pd.DataFrame(), pd.DataFrame())
    rows = listing.rows
    if len(listing.columns) == 1:
        wanted = Wanted(listing.columns[0].variable, rows, spread=spread)
        return layout.table(data, wanted, listing.title)
    by = (*rows, "mechanism")
    cells = _cells(data, listing.columns, by)
    parts = [
        layout.summarised(cells[column.heading], column.heading, by).assign(
            variable=column.variable, column=column.heading
        )
        for column in listing.columns
    ]
    order = {name: labels_of(data, name) for name in by}
    numbers = layout.ordered(pd.concat(parts, ignore_index=True), order)
    headings = [column.heading for column in listing.columns]
    shown = layout.pivoted(numbers, by, "column", headings, spread)
    return Table(listing.title, numbers, shown, layout.explained(numbers, spread))


def _cells(
    data: xr.Dataset, columns: Sequence[Column], by: Sequence[str]
) -> dict[str, pd.DataFrame]:
    """For every column one row for each number, which is under the heading; shared if possible."""
    known = data[[name for name in ("status", "gap") if name in data]]
    selected = known.drop_vars(set(known.coords) - {*by, *known.dims})
    alike: dict[Hashable, list[str]] = {}
    for column in columns:
        frames.check_variable(data, column.variable)
        at = {} if column.delta is None else {"delta": labels_of(data, "delta").index(column.delta)}
        selected[column.heading] = data[column.variable].variable.isel(at)
        alike.setdefault(selected[column.heading].dims, []).append(column.heading)
    return {
        name: cells
        for names in alike.values()
        for cells in [frames.long(selected, *names)]
        for name in names
    }


def _statements(stated: Sequence[tuple[Claim, Judgement]]) -> Table:
    """The paper's claims, the ranges that were measured, and the verdicts."""
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
