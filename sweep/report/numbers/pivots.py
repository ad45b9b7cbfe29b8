"""One variable of a dataset, arranged by rows, mechanisms and replicates for tables."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sweep.experiment.canonical import Scalar


@dataclass(frozen=True)
class Pivot:
    """One variable, with its dimensions arranged for a table.

    Attributes
    ----------
    rows : Mapping[str, list of Scalar]
        The dimensions of the rows and their labels.
    values, states : numpy.ndarray, shape (*rows, columns, replicates)
        The numbers, and the `Status` codes of their cells.
    """

    rows: Mapping[str, list[Any]]
    columns: list[Any]
    values: NDArray[np.float64]
    states: NDArray[np.int8]


def take(data: xr.Dataset, variable: str, at: Mapping[str, Scalar]) -> Pivot | None:
    """The variable at some coordinates; None if it or one of them does not exist.

    Parameters
    ----------
    at : Mapping[str, Scalar]
        Labels along some of its dimensions; a coordinate without a dimension must agree.
    """
    if variable not in data:
        return None
    chosen = located(data[[variable, "status"]], at)
    if chosen is None:
        return None
    for name in ("mechanism", "replicate"):
        if name not in chosen.dims:
            chosen = chosen.expand_dims(name)
    dims = [str(name) for name in chosen[variable].dims if name not in ("mechanism", "replicate")]
    states = chosen["status"].broadcast_like(chosen[variable])
    order = (*dims, "mechanism", "replicate")
    return Pivot(
        {name: labels_of(chosen, name) for name in dims},
        labels_of(chosen, "mechanism"),
        chosen[variable].transpose(*order).to_numpy(),
        states.transpose(*order).to_numpy(),
    )


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
    """A label as it is shown: sizes, which a dataset may hold as floats, with all their digits."""
    if not isinstance(label, float):
        return str(label)
    return f"{label:.0f}" if label.is_integer() and abs(label) < 1e9 else f"{label:g}"


def places_text(axis: str, labels: Iterable[Scalar]) -> str:
    """Some labels along an axis."""
    return f"{axis} = {', '.join(map(label_text, labels))}"


def significant(value: float) -> str:
    """The number with four significant digits."""
    return f"{value:.4g}" if abs(value) >= 1e4 or 0 < abs(value) < 1e-3 else f"{value:#.4g}"


def percent(value: float) -> str:
    """A fraction in percent with two digits; a tiny one as a bound."""
    shown = 100 * value
    if shown < 1e-3:
        return "<0.001 %"
    return f"{shown:.2g} %" if shown < 10 else f"{shown:.0f} %"
