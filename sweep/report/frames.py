"""A dataset's numbers by label: tidy tables of its cells, its labels in words, its origin."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sweep.dataset.reading import open_dataset
from sweep.errors import SweepError
from sweep.experiment.canonical import Scalar
from sweep.experiment.loading import parse_experiment
from sweep.experiment.schema import Experiment
from sweep.grid import conditions
from sweep.grid.cell import REPLICATE
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


NUMBER = "the number"
STATE = "its cell's status"
"""Names that no axis has, so that an axis may be called ``value`` or ``state``."""


def with_states(data: xr.Dataset, variable: str) -> xr.Dataset:
    """`NUMBER` and `STATE` of every cell, over all dimensions, mechanisms and replicates too."""
    for name in ("mechanism", REPLICATE):
        if name not in data.dims:
            data = data.expand_dims(name)
    number, state = xr.broadcast(data[variable], data["status"])
    return xr.Dataset({NUMBER: number, STATE: state})


def take(data: xr.Dataset, variable: str, at: Mapping[str, Scalar]) -> xr.Dataset | None:
    """The variable `with_states` at some labels; None if it or one of them does not exist.

    A coordinate without a dimension must agree.
    """
    chosen = located(data[[variable, "status"]], at) if variable in data else None
    return None if chosen is None else with_states(chosen, variable)


def row_labels(data: xr.Dataset) -> dict[str, list[Any]]:
    """The dimensions of the rows of a table and their labels: all but mechanisms and replicates."""
    dims = (str(name) for name in data[NUMBER].dims if name not in ("mechanism", REPLICATE))
    return {name: labels_of(data, name) for name in dims}


def ok_numbers(data: xr.Dataset) -> NDArray[np.float64]:
    """The finite numbers of the cells that are ok."""
    numbers = data[NUMBER].to_numpy()
    return np.asarray(numbers[(data[STATE] == Status.OK).to_numpy() & np.isfinite(numbers)])


def located(data: xr.Dataset, at: Mapping[str, Scalar]) -> xr.Dataset | None:
    """The dataset at some labels, None if one of them does not exist."""
    chosen = data
    for name, value in at.items():
        if name not in chosen.coords or value not in (labels := labels_of(chosen, name)):
            return None
        if chosen[name].dims:
            along = str(chosen[name].dims[0])
            # a label of an index would have xarray import dask.array, which takes longer
            plain = chosen.drop_indexes(along, errors="ignore")
            chosen = plain.isel({along: labels.index(value)})
    return chosen


def labels_of(data: xr.Dataset, name: str) -> list[Any]:
    """The labels of a coordinate, one for a scalar."""
    return list(np.atleast_1d(data[name].to_numpy()).tolist())


def label_text(label: Any) -> str:
    """A label as a text: sizes, which a dataset may store as floats, with all their digits."""
    if not isinstance(label, float):
        return str(label)
    return f"{label:.0f}" if label.is_integer() and abs(label) < 1e9 else f"{label:g}"


def places_text(axis: str, labels: Iterable[Scalar]) -> str:
    """Some labels along an axis."""
    return f"{axis} = {', '.join(map(label_text, labels))}"


def place_texts(points: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """The labels of every row along some axes; a mechanism that comes first goes without name."""
    if not axes:
        return [""] * len(points)
    named = ["" if a == axes[0] == "mechanism" else f"{a} = " for a in axes]
    rows = points[list(axes)].map(label_text).itertuples(index=False, name=None)
    return [", ".join(map(add, named, texts)) for texts in rows]


def significant(value: float) -> str:
    """The number with four significant digits."""
    if abs(value) >= 1e4 or 0 < abs(value) < 1e-3:
        return f"{value:.4g}"
    return f"{value:#.4g}".removesuffix(".")


def percent(value: float) -> str:
    """A fraction in percent with two digits; a tiny one as a bound."""
    shown = 100 * value
    if shown < 1e-3:
        return "<0.001 %"
    return f"{shown:.2g} %" if shown < 10 else f"{shown:.0f} %"


NEIGHBOURS = "add-remove"
"""The neighbours of the privacy guarantee, unless the dataset names others."""


def statuses(results: Results) -> dict[str, int]:
    """Number of cells by status, in the order of `Status`; a cell of two groups counts once."""
    cells = to_frame(results)
    if "cell" in cells and cells["cell"].notna().all():
        cells = cells.drop_duplicates("cell")
    counted = Counter(cells["status"])
    return {status.label: counted[status.label] for status in Status if counted[status.label]}


def state(results: Results) -> str:
    """Whether the results are complete, or how many cells are in which state."""
    counts = statuses(results)
    total = sum(counts.values())
    if counts.keys() <= {"ok", "not_applicable"}:
        return f"complete ({total:,} cells)"
    summary = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items())
    return f"{summary} of {total:,} cells"


def facts(results: Results) -> dict[str, str]:
    """The facts that a file states about its origin: experiment, state, revision, neighbours."""
    known = results.attrs
    return {
        "experiment": str(known.get("experiment", "")),
        "source": str(known.get("source", "")),
        "state": state(results),
        "revision": str(known.get("git_revision", "")),
        "neighbours": str(known.get("neighbours", NEIGHBOURS)),
        "journal": str(known.get("journal_state", "")),
    }
