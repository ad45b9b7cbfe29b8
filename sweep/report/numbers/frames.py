"""Results as tidy pandas tables: a row for every cell, or for every cell and budget."""

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from sweep.dataset.reading import open_dataset
from sweep.errors import SweepError
from sweep.experiment.loading import parse_experiment
from sweep.experiment.schema import Experiment
from sweep.grid import conditions
from sweep.runner.selection import plain
from sweep.store.records import Status
from workloads.parameters import nearest

Results = xr.Dataset | xr.DataTree
STATES: Mapping[int, str] = {int(status): status.label for status in Status}
"""The words for the codes of the variable ``status``."""


def to_frame(results: Results | str | Path) -> pd.DataFrame:
    """All groups of a store as one tidy table: a row for every cell, a column for every variable.

    Parameters
    ----------
    results : str, Path, xarray.Dataset or xarray.DataTree
        A store's folder, or what `sweep.open` and `sweep.run` return.

    Returns
    -------
    pandas.DataFrame
        ``group`` first, then the coordinates, then the variables. ``status`` is a word. A
        variable with a value for every budget has a column for each:
        ``epsilon_at_targets[delta=1e-05]``. Coordinates that a group does not have are NaN there.

    Raises
    ------
    StoreError
        If the folder is not a store, or has no dataset yet.
    """
    opened = open_dataset(results) if isinstance(results, str | Path) else results
    frames = [_cells(data).assign(group=group) for group, data in groups(opened).items()]
    whole = pd.concat(frames, ignore_index=True)
    return whole[["group", *(name for name in whole.columns if name != "group")]]


def groups(results: Results) -> dict[str, xr.Dataset]:
    """The dataset of every group, by name; a single one by the name that its experiment gives."""
    if isinstance(results, xr.DataTree):
        if not results.children:
            return {results.name or "results": results.to_dataset()}
        return {str(name): node.to_dataset() for name, node in results.children.items()}
    if "experiment_text" not in results.attrs:
        return {"results": results}
    return {experiment_of(results).blocks[0].group: results}


def experiment_of(results: Results) -> Experiment:
    """The experiment of the results, as stored in their attributes.

    Raises
    ------
    SweepError
        If the attributes are missing.
    """
    try:
        text, name = results.attrs["experiment_text"], results.attrs["experiment"]
    except KeyError as error:
        raise SweepError(
            f"the dataset has no attribute {error}, so its experiment is not known; take a dataset "
            "that sweep.open or sweep.run returned, and keep its attributes (keep_attrs=True)"
        ) from error
    return parse_experiment(text, f"{name}.yaml")


def long(data: xr.Dataset, *variables: str) -> pd.DataFrame:
    """One row for every number of a variable, with its labels and all variables by cell.

    Several variables need the same dimensions. ``status`` is a word.

    Raises
    ------
    SweepError
        If there is no such variable, or it does not hold numbers.
    """
    for variable in variables:
        check_variable(data, variable)
    return _flat(data[list(dict.fromkeys([*variables, *cellwise(data)]))])


def check_variable(data: xr.Dataset, variable: str) -> None:
    """Refuse what is not a variable with numbers, with SweepError."""
    known = [
        str(name)
        for name, variable in data.data_vars.items()
        if variable.dtype.kind in "fiub" and name != "status"
    ]
    if variable not in known:
        raise SweepError(
            f"there is no variable {variable!r} of numbers; {nearest(variable, known)}"
        )


def where(frame: pd.DataFrame, condition: str | None) -> pd.DataFrame:
    """The rows for which a condition holds; not those that lack a value it needs.

    Raises
    ------
    SweepError
        If it cannot be read, uses a name that is no column, or holds for no row.
    """
    if condition is None:
        return frame
    parsed = conditions.parse(condition)
    for name in sorted(parsed.names - set(frame.columns)):
        raise SweepError(
            f"condition {condition!r} uses {name!r}, which is neither a coordinate nor a variable "
            f"of a cell; {nearest(name, sorted(map(str, frame.columns)))}"
        )
    columns = {name: list(map(plain, frame[name])) for name in parsed.names}
    kept = [
        conditions.holds(
            parsed, {name: col[at] for name, col in columns.items() if col[at] is not None}
        )
        for at in range(len(frame))
    ]
    if not any(kept):
        raise SweepError(f"condition {condition!r} holds for no cell")
    return frame[np.array(kept)]


def _cells(data: xr.Dataset) -> pd.DataFrame:
    """One row for every cell, budgets spread over columns."""
    dims = data["status"].dims
    spread: dict[str, Any] = {}
    for name, variable in data.data_vars.items():
        more = [dim for dim in variable.dims if dim not in dims]
        for labels in product(*(data[dim].to_numpy().tolist() for dim in more)):
            at = dict(zip(more, labels, strict=True))
            text = ",".join(f"{dim}={label:.15g}" for dim, label in at.items())
            spread[f"{name}[{text}]" if at else str(name)] = variable.sel(at, drop=True)
    coords = {name: axis for name, axis in data.coords.items() if set(axis.dims) <= set(dims)}
    return _flat(xr.Dataset(spread, coords))


def cellwise(data: xr.Dataset) -> list[str]:
    """The variables with one value for each cell."""
    dims = set(data["status"].dims)
    return [str(name) for name, variable in data.data_vars.items() if set(variable.dims) <= dims]


def _flat(data: xr.Dataset) -> pd.DataFrame:
    """The dataset as a table, coordinates first, without the points that are no cells."""
    whole = data if data.dims else data.expand_dims("mechanism")
    frame = whole.to_dataframe().reset_index()
    coords = [str(name) for name in (*whole.dims, *whole.coords) if name in frame]
    order = list(dict.fromkeys([*coords, *map(str, frame.columns)]))
    flat = frame.loc[frame["status"] != Status.ABSENT, order].reset_index(drop=True)
    flat["status"] = flat["status"].map(STATES)
    return flat
