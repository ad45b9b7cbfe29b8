"""Tables for the screen: measured numbers beside the published ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from rich import box
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sweep.experiment.canonical import Scalar
from sweep.experiment.published import Claim, ComparisonTable
from sweep.experiment.schema import Experiment
from sweep.report.agreement import unit_mechanisms
from sweep.report.pivots import Pivot, groups_of, labels_of, take
from sweep.report.verdicts import judge, stated_range
from sweep.store.records import Status

_AGREE = 0.01
"""Ratios that differ by less, relatively, count as one factor."""
_LONGEST = 64
"""Most rows of a table with a row for every mechanism."""
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


def tables(results: xr.Dataset | xr.DataTree, experiment: Experiment) -> list[Table]:
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
    compared_tables = (
        *((published, "paper") for published in experiment.published),
        *((formula, "closed form") for formula in experiment.closed_form),
    )
    made = [
        _related(table, data)
        for published, kind in compared_tables
        for group, data in groups.items()
        if published.group in (None, group)
        for table in [_beside(data, published, kind, experiment.reference)]
        if table is not None
    ]
    compared = {published.group for published, _ in compared_tables}
    made += [
        _related(_overview(group, data, experiment), data)
        for group, data in groups.items()
        if group not in compared and None not in compared
    ]
    return [*made, _claims(groups, experiment.claims)] if experiment.claims else made


def _related(table: Table, data: xr.Dataset) -> Table:
    """The table, with a line on which databases are neighbours."""
    if "neighbours" in data.attrs:
        said = f"Neighbours: {data.attrs['neighbours']}."
        table.caption = Text(f"{table.caption or ''} {said}".strip())
        table.caption_justify = "left"
    return table


@dataclass(frozen=True)
class _Pair:
    """A measured number beside the published one."""

    shown: Text
    measured: float
    paper: float | None

    @property
    def ratio(self) -> float:
        """Measured / paper, NaN where either is missing."""
        return self.measured / self.paper if self.paper else np.nan


def _beside(
    data: xr.Dataset, published: ComparisonTable, kind: str, reference: str
) -> Table | None:
    """A table of a paper: for each row the measured numbers, those of its kind, and the ratios."""
    pivot = take(data, published.variable, published.at)
    if pivot is None or "mechanism" not in published.axes:
        return None
    first = [name for name in published.axes["mechanism"] if name in pivot.columns]
    columns = [*first, *(name for name in pivot.columns if name not in first)]
    table = _table(
        f"{published.title or published.variable}: {_meaning(data, published.variable, reference)}",
        [*pivot.rows, ""],
        [*map(str, columns)],
    )
    factors: dict[str, float] = {}
    own = unit_mechanisms(published)
    compared_with = {reference, *own}
    for index, names in pivot.each_row():
        pairs = {name: _pair(published, pivot, index, name) for name in columns}
        _add_pairs(table, names, kind, list(pairs.values()))
        factor = _shared_factor([pair for name, pair in pairs.items() if name not in compared_with])
        own_draw = pivot.replicates > 1 or published.variable != "variance_ratio"
        if factor is not None and not own_draw:
            labels = zip(pivot.rows, names, strict=True)
            factors[", ".join(f"{name} = {value}" for name, value in labels)] = factor
    of_gap = _largest_gap(data, {**published.at, "mechanism": reference})
    table.caption = _caption(
        [published.source, f"ratio = measured / {kind}", of_gap], pivot, factors, own or [reference]
    )
    return table


def _largest_gap(data: xr.Dataset, at: Mapping[str, Scalar]) -> str:
    """A clause with the largest gap of the reference, which bounds its distance to the optimum."""
    gaps = take(data, "gap", at)
    if gaps is None:
        return ""
    ok = gaps.values[gaps.states == Status.OK]
    known = ok[np.isfinite(ok)]
    return f"gap of {at['mechanism']} at most {_percent(known.max())}" if known.size else ""


def _add_pairs(table: Table, names: Sequence[str], kind: str, pairs: Sequence[_Pair]) -> None:
    """A row of measured numbers, followed by the paper's and the ratios if there are any."""
    compared = any(pair.paper is not None for pair in pairs)
    table.add_row(*names, "measured", *(pair.shown for pair in pairs), end_section=not compared)
    if not compared:
        return
    blank = [""] * len(names)
    ratios = ("" if np.isnan(pair.ratio) else f"{pair.ratio:.3f}" for pair in pairs)
    table.add_row(*blank, kind, *(_paper(pair.paper) for pair in pairs), style="dim")
    table.add_row(*blank, "ratio", *ratios, style="dim", end_section=True)


def _pair(
    published: ComparisonTable, pivot: Pivot, index: tuple[int, ...], mechanism: Scalar
) -> _Pair:
    at = (*index, pivot.columns.index(mechanism))
    return _Pair(pivot.shown(at), pivot.number(at), _printed(published, pivot, index, mechanism))


def _printed(
    published: ComparisonTable, pivot: Pivot, index: tuple[int, ...], mechanism: Scalar
) -> float | None:
    """The number that the paper prints for this point, None if it prints none."""
    here = {name: labels[at] for (name, labels), at in zip(pivot.rows.items(), index, strict=True)}
    found: Any = published.values
    for name, labels in published.axes.items():
        value = mechanism if name == "mechanism" else here.get(name)
        if value not in labels:
            return None
        found = found[labels.index(value)]
    return None if found is None else float(found)


def _shared_factor(pairs: Sequence[_Pair]) -> float | None:
    """The factor that most distinct numbers of a row share, if it is above 1."""
    ratios = list({pair.paper: pair.ratio for pair in pairs if not np.isnan(pair.ratio)}.values())
    if len(ratios) < 2:
        return None
    middle = float(np.median(ratios))
    agree = sum(abs(ratio / middle - 1) < _AGREE for ratio in ratios)
    return middle if agree >= 2 and agree > len(ratios) / 2 and middle > 1 + _AGREE else None


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


def _overview(group: str, data: xr.Dataset, experiment: Experiment) -> Table:
    """A group without published numbers: several variables, or just one if it has many rows."""
    found = {name: take(data, name, {}) for name in experiment.show or _LISTED}
    known = {name: pivot for name, pivot in found.items() if pivot is not None}
    filled = {name: pivot for name, pivot in known.items() if np.isfinite(pivot.values).any()}
    pivots = filled or known
    if not pivots:
        return _table(f"{group}: nothing to show; no variable is {', '.join(found)}", [], [])
    first = next(iter(pivots.values()))
    count = int(np.prod([len(labels) for labels in first.rows.values()])) * len(first.columns)
    if count > _LONGEST or len(pivots) == 1:
        wanted = "variance_ratio" if not experiment.show and "variance_ratio" in pivots else ""
        name = wanted or next(iter(pivots))
        title = f"{group}: {_meaning(data, name, experiment.reference)}"
        return _pivot(title, pivots[name])
    budgets = {} if experiment.show else _budgets(data)
    table = _table(
        f"{group}: {experiment.title}" if experiment.title else group,
        [*first.rows, "mechanism"],
        [*(_SHORT.get(name, name.replace("_", " ")) for name in pivots), *budgets],
    )
    for index, names in first.each_row():
        for column, mechanism in enumerate(first.columns):
            at = (*index, column)
            table.add_row(
                *(names if column == 0 else ["" for _ in names]),
                str(mechanism),
                *(
                    _percent(pivot.number(at)) if name == "gap" else pivot.shown(at)
                    for name, pivot in pivots.items()
                ),
                *(pivot.shown(at) for pivot in budgets.values()),
                end_section=0 < column == len(first.columns) - 1,
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


def _budgets(data: xr.Dataset) -> dict[str, Pivot]:
    """The least ε at which the targets are met, for each δ."""
    if "epsilon_at_targets" not in data or "delta" not in data.dims:
        return {}
    found = {}
    for delta in labels_of(data, "delta"):
        pivot = take(data, "epsilon_at_targets", {"delta": delta})
        if pivot is not None and np.isfinite(pivot.values).any():
            found[f"ε at δ={delta:g}"] = pivot
    return found


def _claims(groups: Mapping[str, xr.Dataset], claims: Sequence[Claim]) -> Table:
    """Every claim with what was measured and the verdict."""
    first = next(iter(groups), "")
    table = Table(title="What the text says", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("paper", ratio=3)
    table.add_column("states", justify="right")
    table.add_column("measured", justify="right")
    table.add_column("verdict", ratio=2)
    for claim in claims:
        data = groups.get(claim.group or first)
        found = judge(xr.Dataset() if data is None else data, claim)
        source = f" ({claim.source})" if claim.source else ""
        table.add_row(
            escape(f"{claim.text}{source}"),
            stated_range(claim.least, claim.most),
            stated_range(found.least, found.most),
            escape(": ".join(part for part in (found.verdict, found.reason) if part)),
        )
    return table


def _table(title: str, labels: Sequence[str], columns: Any) -> Table:
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


def _meaning(data: xr.Dataset, variable: str, reference: str) -> str:
    long_name = str(data[variable].attrs.get("long_name", variable))
    return long_name.replace("the reference mechanism", reference)


def _paper(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if round(value, 2) == value else f"{value:g}"


def _percent(value: float) -> Text:
    if np.isnan(value):
        return Text("")
    percent = 100 * value
    return Text(
        "<0.001 %" if percent < 1e-3 else f"{percent:.2g} %" if percent < 10 else f"{percent:.0f} %"
    )
