"""Selects parts of a dataset by their labels, and formats labels and numbers as text."""

from collections.abc import Mapping, Sequence
from operator import add

import numpy as np
import pandas as pd
import xarray as xr

from sweep.experiment.canonical import Scalar


def cells_at(data: xr.Dataset, at: Mapping[str, Scalar]) -> xr.Dataset | None:
    """Return the part of a dataset at these labels; None if one of the labels does not exist."""
    chosen = data
    for name, value in at.items():
        if name not in chosen.coords or value not in (labels := labels_of(chosen, name)):
            return None
        if chosen[name].dims:
            along = str(chosen[name].dims[0])
            # selecting a label of an index makes xarray import dask.array, which takes longer
            plain = chosen.drop_indexes(along, errors="ignore")
            chosen = plain.isel({along: labels.index(value)})
    return chosen


def labels_of(data: xr.Dataset, name: str) -> list[Scalar]:
    """Return the labels of a coordinate; a scalar coordinate has one label."""
    return list(np.atleast_1d(data[name].to_numpy()).tolist())


def label_text(label: object) -> str:
    """Format a label; a whole number below 1e9 keeps all digits even if it is a float."""
    if not isinstance(label, float):
        return str(label)
    return f"{label:.0f}" if label.is_integer() and abs(label) < 1e9 else f"{label:g}"


def row_labels(points: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """Format every row's labels, such as ``CA, d = 16``.

    The name of an axis precedes its label, unless it is ``mechanism`` and the first axis.
    """
    if not axes:
        return [""] * len(points)
    named = ["" if a == axes[0] == "mechanism" else f"{a} = " for a in axes]
    rows = points[list(axes)].map(label_text).itertuples(index=False, name=None)
    return [", ".join(map(add, named, texts)) for texts in rows]


def significant(value: float, digits: int = 4) -> str:
    """Format a number with this many significant digits."""
    if abs(value) >= 10**digits or 0 < abs(value) < 1e-3:
        return f"{value:.{digits}g}"
    return f"{value:#.{digits}g}".removesuffix(".")


def percent(value: float) -> str:
    """Format a fraction as a percentage: ``<0.001 %``, ``1.2 %`` or, from 10 % on, ``12 %``."""
    shown = 100 * value
    if shown < 1e-3:
        return "<0.001 %"
    return f"{shown:.2g} %" if shown < 10 else f"{shown:.0f} %"
