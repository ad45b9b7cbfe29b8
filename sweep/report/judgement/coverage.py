"""What a dataset has of a grid beyond whole labels: missing cells, and how many seeds."""

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sweep.experiment.canonical import Scalar
from sweep.grid.family import REPLICATE
from sweep.grid.grids import Grid
from sweep.report.numbers.pivots import labels_of, places_text
from sweep.store.records import Status


def without(grid: Grid, data: xr.Dataset) -> list[str]:
    """Which mechanisms the grid has at sizes where the dataset has none of their cells.

    Mechanisms and sizes that the dataset does not have at all are left out.
    """
    wanted = [family.first.coords for family in grid.cells.used]
    found = []
    for axis in _sizes(grid, data):
        asked = {(coords["mechanism"], coords[axis]) for coords in wanted}
        known = _present(data, "mechanism", axis)
        for mechanism, there in zip(labels_of(data, "mechanism"), known, strict=True):
            labels = labels_of(data, axis)
            gone = [one for one, has in zip(labels, there.tolist(), strict=True) if not has]
            gone = [one for one in gone if (mechanism, one) in asked]
            found += [f"{mechanism} at {places_text(axis, gone)}"] if gone else []
    return found


def fewer_seeds(grid: Grid, data: xr.Dataset) -> list[str]:
    """How many seeds there are at sizes that have fewer than others."""
    found = []
    for axis in _sizes(grid, data) if REPLICATE in data.dims else []:
        counts = _present(data, axis, REPLICATE).sum(axis=1).tolist()
        places: dict[int, list[Scalar]] = {}
        for label, count in zip(labels_of(data, axis), counts, strict=True):
            places.setdefault(count, []).append(label)
        most = max(counts)
        found += [
            f"{n} at {places_text(axis, labels)}" for n, labels in places.items() if 0 < n < most
        ]
    return found


def _sizes(grid: Grid, data: xr.Dataset) -> list[str]:
    names = (axis.name for axis in grid.axes)
    return [name for name in names if name in data.dims and name not in ("mechanism", REPLICATE)]


def _present(data: xr.Dataset, first: str, second: str) -> NDArray[np.bool_]:
    """Whether there are cells at two labels, shape (labels of the first, of the second)."""
    there = data["status"] != Status.ABSENT
    for name in {"mechanism"}.difference(there.dims):
        there = there.expand_dims(name)
    others = [name for name in there.dims if name not in (first, second)]
    return np.asarray(there.any(others).transpose(first, second).to_numpy())
