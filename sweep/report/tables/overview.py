"""The variables worth showing for a group without a published table."""

import math
from dataclasses import dataclass

import numpy as np
import xarray as xr

from sweep.experiment.schema import Experiment
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
class Column:
    """A variable that an overview shows.

    Attributes
    ----------
    heading : str
        The short name above it.
    delta : float, optional
        The δ that they are of, if there are several.
    """

    heading: str
    variable: str
    delta: float | None = None


@dataclass(frozen=True)
class Overview:
    """What to show for one group.

    Attributes
    ----------
    rows : tuple of str
        The coordinates of the rows, but for mechanisms.
    columns : tuple of Column
        The variables, each a column, with a row for every mechanism; a single one is shown with
        the mechanisms as columns. Empty if none that is to be shown exists.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[Column, ...]


def overview(group: str, data: xr.Dataset, experiment: Experiment) -> Overview:
    """The variables of a group that are worth showing: several, or one if there are many rows."""
    names = experiment.show or _LISTED
    known = [name for name in names if name in data]
    shown = [name for name in known if np.isfinite(data[name].to_numpy()).any()] or known
    if not shown:
        return Overview(f"{group}: nothing to show; no variable is {', '.join(names)}", (), ())
    first = with_states(data, shown[0])
    rows = tuple(row_labels(first))
    count = math.prod(first.sizes[name] for name in (*rows, "mechanism"))
    if count > _LONGEST or len(shown) == 1:
        wanted = "variance_ratio" if not experiment.show and "variance_ratio" in shown else ""
        name = wanted or shown[0]
        title = f"{group}: {meaning(data, name, experiment.reference)}"
        return Overview(title, rows, (_column(name),))
    columns = [_column(name) for name in shown]
    budgets = [] if experiment.show else _budgets(data)
    title = f"{group}: {experiment.title}" if experiment.title else group
    return Overview(title, rows, (*columns, *budgets))


def _column(name: str) -> Column:
    return Column(_SHORT.get(name, name.replace("_", " ")), name)


def _budgets(data: xr.Dataset) -> list[Column]:
    """The least ε at which the targets are met, for each δ."""
    if "epsilon_at_targets" not in data or "delta" not in data.dims:
        return []
    numbers = data["epsilon_at_targets"].transpose("delta", ...).to_numpy()
    return [
        Column(f"ε at δ={delta:g}", "epsilon_at_targets", delta)
        for delta, column in zip(labels_of(data, "delta"), numbers, strict=True)
        if np.isfinite(column).any()
    ]
