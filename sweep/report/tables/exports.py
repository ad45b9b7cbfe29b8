"""The tables of a store for other documents: the same as on the screen, with all numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd
import xarray as xr

from sweep.errors import SweepError
from sweep.experiment.published import Claim
from sweep.experiment.schema import Experiment
from sweep.report.judgement.verdicts import judge, measured_range, stated_range
from sweep.report.numbers import frames, layout
from sweep.report.numbers.frames import Results
from sweep.report.numbers.layout import Spread, Table, Wanted
from sweep.report.tables.comparison import comparisons
from sweep.report.tables.overview import overview

CLAIMS = "What the text says"
"""The title of the table of claims."""


def tables(results: Results, experiment: Experiment, spread: Spread = "error") -> list[Table]:
    """One table for each comparison, one for each group without any, and one of the claims."""
    groups = frames.groups(results)
    compared = list(comparisons(groups, experiment, spread))
    known = {group for group, _ in compared}
    others = [
        (group, overview(group, data, experiment, spread))
        for group, data in groups.items()
        if group not in known
    ]
    listed = [_related(table, groups[group]) for group, table in (*compared, *others)]
    return [*listed, _statements(groups, experiment.claims)] if experiment.claims else listed


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


def _statements(groups: Mapping[str, xr.Dataset], claims: Sequence[Claim]) -> Table:
    """The paper's claims, the ranges that were measured, and the verdicts."""
    first = next(iter(groups), "")
    stated = [(claim, judge(groups.get(claim.group or first), claim)) for claim in claims]
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
