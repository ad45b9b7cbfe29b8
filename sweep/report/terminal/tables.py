"""Tables for the screen: measured numbers beside the published ones."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import xarray as xr
from rich import box
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sweep.experiment.published import Claim
from sweep.experiment.schema import Experiment
from sweep.report.judgement.verdicts import Judgement, stated_range
from sweep.report.numbers import layout
from sweep.report.numbers.comparison import (
    Comparison,
    claims,
    comparisons,
    pair,
    without_published,
)
from sweep.report.numbers.frames import Results
from sweep.report.numbers.overview import Overview, overview
from sweep.report.numbers.pivots import Pivot, groups_of, percent


def tables(results: Results, experiment: Experiment) -> list[Table]:
    """The tables of an experiment: one for each published one, or one for each group.

    Parameters
    ----------
    results : xarray.Dataset or xarray.DataTree
        As `sweep.open` gives it, finished or not.
    experiment : Experiment
        The experiment of the results, with its published numbers.

    Returns
    -------
    list of rich.table.Table
        Readable at 100 columns. Means are over the replicates that are ok; where none is, the
        status is shown as a word.
    """
    groups = groups_of(results, experiment)
    made = [_related(_beside(one), groups[one.group]) for one in comparisons(groups, experiment)]
    for group, data in without_published(groups, experiment).items():
        made.append(_related(_overview(overview(group, data, experiment)), data))
    stated = list(claims(groups, experiment.claims))
    return [*made, _statements(stated)] if stated else made


def laid_out(table: layout.Table) -> Table:
    """A table of exports on the screen."""
    names = [str(name or "") for name in table.shown.index.names]
    made = _table(table.title, names, map(str, table.shown.columns))
    for labels, texts in zip(table.shown.index, table.shown.to_numpy().tolist(), strict=True):
        listed = labels if isinstance(labels, tuple) else (labels,)
        made.add_row(*(Text(text) for text in (*listed, *texts)))
    made.caption = escape(" ".join(table.notes))
    return made


def _related(table: Table, data: xr.Dataset) -> Table:
    """The table, with a line on which databases are neighbours."""
    for said in layout.relation(data):
        table.caption = escape(f"{table.caption or ''} {said}".strip())
    return table


def _beside(compared: Comparison) -> Table:
    """A published table: for each row the measured numbers, the paper's, and their ratios."""
    pivot = compared.pivot
    table = _table(compared.title, [*pivot.rows, ""], map(str, compared.columns))
    for index, names in pivot.each_row():
        pairs = [pair(compared.published, pivot, index, name) for name in compared.columns]
        texts = [pivot.shown((*index, pivot.columns.index(name))) for name in compared.columns]
        printed = any(one.paper is not None for one in pairs)
        table.add_row(*names, "measured", *texts, end_section=not printed)
        if printed:
            blank = [""] * len(names)
            paper = ("" if one.paper is None else layout.printed(one.paper) for one in pairs)
            ratios = ("" if np.isnan(one.ratio) else layout.ratio(one.ratio) for one in pairs)
            table.add_row(*blank, compared.kind, *paper, style="dim")
            table.add_row(*blank, "ratio", *ratios, style="dim", end_section=True)
    table.caption = compared.caption
    return table


def _overview(found: Overview) -> Table:
    """A group without published numbers: several variables, or just one if it has many rows."""
    if not found.columns:
        return _table(found.title, [], [])
    first = found.columns[0].pivot
    if len(found.columns) == 1:
        return _pivot(found.title, first)
    headings = [column.heading for column in found.columns]
    table = _table(found.title, [*first.rows, "mechanism"], headings)
    for index, names in first.each_row():
        for number, mechanism in enumerate(first.columns):
            at = (*index, number)
            table.add_row(
                *(names if number == 0 else ["" for _ in names]),
                str(mechanism),
                *(
                    Text(percent(column.pivot.number(at)))
                    if column.variable == "gap" and not np.isnan(column.pivot.number(at))
                    else column.pivot.shown(at)
                    for column in found.columns
                ),
                end_section=number == len(first.columns) - 1,
            )
    table.caption = escape(_caption_of(first) or "")
    return table


def _pivot(title: str, pivot: Pivot) -> Table:
    """A table of one variable, with a column for every mechanism."""
    table = _table(title, list(pivot.rows), map(str, pivot.columns))
    for index, names in pivot.each_row():
        table.add_row(*names, *(pivot.shown((*index, at)) for at in range(len(pivot.columns))))
    table.caption = escape(_caption_of(pivot) or "")
    return table


def _statements(stated: Sequence[tuple[Claim, Judgement]]) -> Table:
    table = Table(title="What the text says", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("paper", ratio=3)
    table.add_column("states", justify="right")
    table.add_column("measured", justify="right")
    table.add_column("verdict", ratio=2)
    for claim, found in stated:
        source = f" ({claim.source})" if claim.source else ""
        table.add_row(
            escape(f"{claim.text}{source}"),
            stated_range(claim.least, claim.most),
            stated_range(found.least, found.most),
            escape(found.said),
        )
    return table


def _table(title: str, labels: Sequence[str], columns: Iterable[Any]) -> Table:
    table = Table(
        title=escape(title),
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
        padding=(0, 1, 0, 0),
        show_edge=False,
        pad_edge=False,
    )
    for name in labels:
        table.add_column(name, no_wrap=True)
    for name in columns:
        table.add_column(name.replace(" (", "\n("), justify="right")
    return table


def _caption_of(pivot: Pivot) -> str | None:
    replicates = pivot.replicates
    return f"Means of {replicates} replicates." if replicates > 1 else None
