"""Converts datasets to tidy tables, and summarises their state and origin."""

from collections import Counter
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sweep.dataset.reading import LARGE_TEXTS, Results, open_dataset, split_groups
from sweep.errors import SweepError
from sweep.experiment.canonical import Scalar
from sweep.grid.cells import REPLICATE
from sweep.store.records import Status
from workloads import conditions
from workloads.conditions import Condition
from workloads.parameters import nearest

STATES: Mapping[int, str] = {int(status): status.label for status in Status}
"""The label of every value of the variable ``status``, such as ``ok``."""


def to_frame(results: Results | str | Path) -> pd.DataFrame:
    """Return all groups as one tidy table: a row for every cell, a column for every variable.

    Parameters
    ----------
    results : str, Path, xarray.Dataset or xarray.DataTree
        A store's folder, or the result of `sweep.open` or `sweep.run`.

    Returns
    -------
    pandas.DataFrame
        The columns are ``group``, the coordinates, the variables, and last the hashes, versions and
        other texts. The column ``status`` contains labels such as ``ok``. A variable that depends
        on the budget has a column for every budget, such as ``epsilon_at_targets[delta=1e-05]``.
        Coordinates that a group does not have are NaN.

    Raises
    ------
    StoreError
        If the folder is not a store, or has no dataset yet.
    """
    opened = open_dataset(results) if isinstance(results, str | Path) else results
    frames = [_cells(data).assign(group=group) for group, data in split_groups(opened).items()]
    whole = pd.concat(frames, ignore_index=True)
    last = [name for name in LARGE_TEXTS if name in whole]
    return whole[["group", *whole.columns.drop(["group", *last]), *last]]


def long(data: xr.Dataset, *variables: str) -> pd.DataFrame:
    """Return a table with one row for every number of a variable.

    A row also contains the number's coordinates and the cell's other variables; the column
    ``status`` contains labels such as ``ok``. Several variables must have the same dimensions.

    Raises
    ------
    SweepError
        If a variable does not exist, or is not numeric.
    """
    for variable in variables:
        check_variable(data, variable)
    return _flat(data[list(dict.fromkeys([*variables, *list_cellwise(data)]))])


def axes(data: xr.Dataset, variable: str) -> list[str]:
    """Return the names of the dimensions of the cells and of a variable.

    The result always contains ``mechanism``, and never ``replicate``.
    """
    dims = dict.fromkeys([*data["status"].dims, *data[variable].dims, "mechanism"])
    return [str(dim) for dim in dims if dim != REPLICATE]


def rows_at(cells: pd.DataFrame, at: Mapping[str, Scalar]) -> pd.DataFrame:
    """Return the rows of a table that have these labels; no rows if a column does not exist."""
    for name, label in at.items():
        cells = cells[cells[name] == label] if name in cells else cells[:0]
    return cells


def list_numeric(data: xr.Dataset) -> list[str]:
    """Return the names of the numeric variables, of which ``status`` is none."""
    return [
        str(name)
        for name, variable in data.data_vars.items()
        if variable.dtype.kind in "fiub" and name != "status"
    ]


def check_variable(data: xr.Dataset, variable: str) -> None:
    """Raise SweepError unless the variable exists and is numeric."""
    if variable not in (known := list_numeric(data)):
        raise SweepError(f"there is no numeric variable {variable!r}; {nearest(variable, known)}")


def where(frame: pd.DataFrame, condition: str | None) -> pd.DataFrame:
    """Return the rows for which a condition holds; all rows if ``condition`` is None.

    A condition does not hold for a row that lacks a value needed to evaluate the condition.

    Raises
    ------
    SweepError
        If the condition cannot be read, uses a name that is not a column, or holds for no row.
    """
    if condition is None:
        return frame
    parsed = conditions.parse(condition)
    for name in sorted(parsed.names - set(frame.columns)):
        raise SweepError(
            f"condition {condition!r} uses {name!r}, which is neither a coordinate nor a variable "
            f"of a cell; {nearest(name, sorted(map(str, frame.columns)))}"
        )
    kept = mask_rows(parsed, frame)
    if not kept.any():
        raise SweepError(f"condition {condition!r} holds for no cell")
    return frame[kept]


def mask_rows(condition: Condition, frame: pd.DataFrame) -> NDArray[np.bool_]:
    """Return a mask of the rows for which a condition holds; see `where` for missing values."""
    columns = {name: _plain(frame[name]) for name in condition.names if name in frame}
    rows = (
        {name: column[row] for name, column in columns.items() if column[row] is not None}
        for row in range(len(frame))
    )
    return np.fromiter(map(condition.holds_if_known, rows), bool, len(frame))


def _plain(column: pd.Series) -> list[object]:
    """Return a column's values as conditions compare them: times as texts, NaN and NaT as None."""
    texts = column.dt.strftime("%Y-%m-%dT%H:%M:%S.%f") if column.dtype.kind == "M" else column
    return [None if pd.isna(value) else value for value in texts.tolist()]


def _cells(data: xr.Dataset) -> pd.DataFrame:
    """Return a table with a row for every cell.

    A variable that depends on the budget has a column for every budget.
    """
    dims = data["status"].dims
    spread: dict[str, xr.DataArray] = {}
    for name, variable in data.data_vars.items():
        more = [dim for dim in variable.dims if dim not in dims]
        for labels in product(*(data[dim].to_numpy().tolist() for dim in more)):
            budget = dict(zip(more, labels, strict=True))
            text = ",".join(f"{dim}={label:.15g}" for dim, label in budget.items())
            spread[f"{name}[{text}]" if budget else str(name)] = variable.sel(budget, drop=True)
    coords = {name: axis for name, axis in data.coords.items() if set(axis.dims) <= set(dims)}
    return _flat(xr.Dataset(spread, coords))


def list_cellwise(data: xr.Dataset) -> list[str]:
    """Return the names of the variables with one value for each cell."""
    dims = set(data["status"].dims)
    return [str(name) for name, variable in data.data_vars.items() if set(variable.dims) <= dims]


def _flat(data: xr.Dataset) -> pd.DataFrame:
    """Return the dataset as a table, coordinates first, without points that have no cell."""
    whole = data if data.dims else data.expand_dims("mechanism")
    frame = whole.to_dataframe().reset_index()
    coords = [str(name) for name in (*whole.dims, *whole.coords) if name in frame]
    order = list(dict.fromkeys([*coords, *map(str, frame.columns)]))
    flat = frame.loc[frame["status"] != Status.ABSENT, order].reset_index(drop=True)
    flat["status"] = flat["status"].map(STATES)
    return flat


def count_statuses(results: Results) -> dict[str, int]:
    """Count the cells of every status, in the order of `Status`.

    A cell that is in several groups is counted once.
    """
    cells = to_frame(results)
    if "cell" in cells and cells["cell"].notna().all():
        cells = cells.drop_duplicates("cell")
    counted = Counter(cells["status"])
    return {status.label: counted[status.label] for status in Status if counted[status.label]}


def describe_state(results: Results) -> str:
    """Say that the results are complete, or how many cells have each status."""
    counts = count_statuses(results)
    total = sum(counts.values())
    if counts.keys() <= {"ok", "not_applicable"}:
        return f"complete ({total:,} cells)"
    summary = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items())
    return f"{summary} of {total:,} cells"


def list_facts(results: Results) -> dict[str, str]:
    """Return facts about the origin of the results, to be recorded in files made from them."""
    attributes = results.attrs
    return {
        "experiment": str(attributes.get("experiment", "")),
        "source": str(attributes.get("source", "")),
        "state": describe_state(results),
        "revision": str(attributes.get("git_revision", "")),
        "neighbours": str(attributes.get("neighbours", "")),
        "journal": str(attributes.get("journal_state", "")),
    }
