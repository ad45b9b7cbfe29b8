"""The tables of a store for other documents: those of the screen, with every number behind them."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import xarray as xr

from sweep.errors import SweepError
from sweep.experiment.published import Claim
from sweep.experiment.schema import Experiment
from sweep.report.judgement.verdicts import Judgement, stated_range
from sweep.report.numbers import frames, layout
from sweep.report.numbers.frames import Results
from sweep.report.numbers.layout import Spread, Table, Wanted
from sweep.report.numbers.pivots import located
from sweep.report.tables.comparison import (
    Comparison,
    claims,
    comparisons,
    without_published,
)
from sweep.report.tables.overview import Column, Overview, overview

CLAIMS = "What the text says"
"""The title of the table of claims."""


def tables(results: Results, experiment: Experiment, spread: Spread = "error") -> list[Table]:
    """One table for each published one, one for each other group, and one of what the text says."""
    groups = frames.groups(results)
    made = [
        _related(_beside(groups[one.group], one, experiment.reference, spread), groups[one.group])
        for one in comparisons(groups, experiment)
    ]
    for group, data in without_published(groups, experiment).items():
        made.append(_related(_overview(data, overview(group, data, experiment), spread), data))
    stated = list(claims(groups, experiment.claims))
    return [*made, _statements(stated)] if stated else made


def asked(results: Results, wanted: Wanted) -> list[Table]:
    """One variable over any coordinates: a table for every group that has them.

    Raises
    ------
    SweepError
        If no group has the variable, the coordinates and such cells.
    """
    groups = frames.groups(results)
    made, troubles = [], []
    for group, data in groups.items():
        try:
            found = layout.table(data, wanted)
        except SweepError as error:
            troubles.append(error)
        else:
            made.append(_related(replace(found, title=f"{group}: {found.title}"), data))
    if not made:
        raise troubles[0]
    return made


def entries(listed: Sequence[Table]) -> pd.DataFrame:
    """The numbers of all tables as one, the table's title first; claims have no such entries."""
    numbers = [
        one.entries.assign(table=one.title) for one in listed if "mean" in one.entries.columns
    ]
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
    summary = layout.summarised(cells, published.variable, [*rows, "mechanism"])
    order = {**compared.rows, "mechanism": compared.columns}
    sorted_ = summary.sort_values(
        list(order), key=lambda one: one.map(list(order[str(one.name)]).index), kind="stable"
    )
    numbers = layout.with_published(sorted_, published)
    shown = layout.beside(numbers, rows, spread, compared.kind)
    notes = (compared.caption(numbers, reference), *layout.explained(numbers, spread))
    return Table(compared.title, numbers, shown, notes)


def _overview(data: xr.Dataset, found: Overview, spread: Spread) -> Table:
    """Several variables with a row for every mechanism, or one with a column for each."""
    if not found.columns:
        return Table(found.title, pd.DataFrame(), pd.DataFrame())
    rows = found.rows
    if len(found.columns) == 1:
        wanted = Wanted(found.columns[0].variable, rows, spread=spread)
        return layout.table(data, wanted, found.title)
    parts = [_of_column(data, column, (*rows, "mechanism")) for column in found.columns]
    numbers = pd.concat(parts, ignore_index=True)
    shown = layout.pivoted(numbers, (*rows, "mechanism"), "column", spread)
    return Table(found.title, numbers, shown, layout.explained(numbers, spread))


def _of_column(data: xr.Dataset, column: Column, by: Sequence[str]) -> pd.DataFrame:
    needed = dict.fromkeys(("status", "gap", column.variable))
    narrow = data[[name for name in needed if name in data]]
    unused = set(narrow.coords) - {*by, *narrow.dims}
    cells = frames.long(narrow.drop_vars(unused), column.variable)
    if column.delta is not None:
        cells = cells[cells["delta"] == column.delta]
    return layout.summarised(cells, column.variable, by).assign(column=column.heading)


def _statements(stated: Sequence[tuple[Claim, Judgement]]) -> Table:
    """What the paper's text says, the range that was measured, and the verdict."""
    numbers = pd.DataFrame(
        {
            "claim": claim.text,
            "source": claim.source,
            "variable": claim.variable,
            "least": claim.least,
            "most": claim.most,
            "measured_minimum": found.least,
            "measured_maximum": found.most,
            "verdict": str(found.verdict),
            "reason": found.reason,
        }
        for claim, found in stated
    )
    texts = [
        (
            f"{claim.text} ({claim.source})" if claim.source else claim.text,
            stated_range(claim.least, claim.most) or "no range",
            stated_range(found.least, found.most) or layout.NONE,
            found.said,
        )
        for claim, found in stated
    ]
    index = pd.Index([text for text, *_ in texts], name="claim")
    shown = pd.DataFrame([rest for _, *rest in texts], index, ["states", "measured", "verdict"])
    return Table(CLAIMS, numbers, shown)
