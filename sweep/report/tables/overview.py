"""The variables worth showing for a group without a published table."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from sweep.experiment.schema import Experiment
from sweep.report.numbers import frames, layout
from sweep.report.numbers.layout import Spread, Table, Wanted
from sweep.report.numbers.pivots import labels_of, row_labels, with_states
from sweep.report.tables.comparison import meaning

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


@dataclass(frozen=True)
class _Column:
    """A variable with the short name above it, at one δ if there are several."""

    heading: str
    variable: str
    delta: float | None = None


def overview(group: str, data: xr.Dataset, experiment: Experiment, spread: Spread) -> Table:
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
        return layout.table(data, Wanted(name, rows, spread=spread), title)
    columns = [_Column(_SHORT.get(name, name.replace("_", " ")), name) for name in shown]
    columns += [] if experiment.show else _budgets(data)
    title = f"{group}: {experiment.title}" if experiment.title else group
    return _side_by_side(data, title, (*rows, "mechanism"), columns, spread)


def _side_by_side(
    data: xr.Dataset, title: str, by: Sequence[str], columns: Sequence[_Column], spread: Spread
) -> Table:
    cells = _cells(data, columns, by)
    parts = [
        layout.summarised(cells[column.heading], column.heading, by).assign(
            variable=column.variable, column=column.heading
        )
        for column in columns
    ]
    order = {name: labels_of(data, name) for name in by}
    numbers = layout.ordered(pd.concat(parts, ignore_index=True), order)
    headings = [column.heading for column in columns]
    shown = layout.pivoted(numbers, by, "column", headings, spread)
    return Table(title, numbers, shown, layout.explained(numbers, spread))


def _cells(
    data: xr.Dataset, columns: Sequence[_Column], by: Sequence[str]
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
