"""How an experiment was run: which sizes, with how many seeds, by which code."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from sweep.experiment.canonical import Scalar
from sweep.experiment.schema import Experiment
from sweep.grid.cell import REPLICATE
from sweep.grid.comparisons import coordinates
from sweep.grid.grids import Grid
from sweep.report.frames import labels_of, places_text
from sweep.store.records import Status


class Row(BaseModel):
    """A row of a scorecard, immutable."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Run(Row):
    """How an experiment was run.

    Attributes
    ----------
    sizes, left_out : Mapping[str, list of Scalar]
        The labels that were run, and those of the experiment that were not, along every axis that
        has more than one.
    without, fewer_seeds : tuple of str
        Of the labels that were run, those where a mechanism was not, and those with fewer seeds
        than others; see `without` and `fewer_seeds`.
    not_compared : tuple of str
        What its store holds besides: other problems than those of its file.
    """

    experiment: str
    title: str
    source: str
    sizes: Mapping[str, list[Scalar]] = {}
    left_out: Mapping[str, list[Scalar]] = {}
    without: tuple[str, ...] = ()
    fewer_seeds: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()
    statuses: Mapping[str, int] = {}
    revision: str = ""
    machine: str = ""
    versions: str = ""


def run_of(
    experiment: Experiment,
    grids: Sequence[Grid],
    groups: Mapping[str, xr.Dataset],
    attributes: Mapping[Any, Any],
) -> Run:
    """How an experiment was run, by the datasets of its groups and the attributes of all."""
    sizes: dict[str, list[Scalar]] = {}
    left_out: dict[str, list[Scalar]] = {}
    statuses: Counter[str] = Counter()
    missing: list[str] = []
    fewer: list[str] = []
    for grid in grids:
        data = groups.get(grid.group)
        if data is not None:
            missing += without(grid, data)
            fewer += fewer_seeds(grid, data)
            states, counts = np.unique(data["status"].to_numpy(), return_counts=True)
            statuses.update(
                {Status(s).label: int(n) for s, n in zip(states.tolist(), counts, strict=True)}
            )
        for axis, labels in coordinates(experiment, grid).items():
            if len(labels) < 2 or (data is not None and axis not in data.coords):
                continue
            have = [] if data is None else labels_of(data, axis)
            sizes[axis] = _joined(sizes.get(axis, []), have)
            gone = [label for label in labels if label not in have]
            if data is not None and gone:
                left_out[axis] = _joined(left_out.get(axis, []), gone)
    statuses.pop(Status.ABSENT.label, None)
    return Run(
        experiment=experiment.name,
        title=experiment.title,
        source=experiment.source,
        sizes=sizes if groups else {},
        left_out=left_out,
        without=tuple(dict.fromkeys(missing)),
        fewer_seeds=tuple(dict.fromkeys(fewer)),
        statuses=dict(statuses),
        revision=str(attributes.get("git_revision", "")),
        machine=str(attributes.get("cpu_model", "")),
        versions=str(attributes.get("package_versions", "")),
    )


def _joined(known: Sequence[Scalar], more: Iterable[Scalar]) -> list[Scalar]:
    return list(dict.fromkeys([*known, *more]))


def without(grid: Grid, data: xr.Dataset) -> list[str]:
    """Which mechanisms the grid has at sizes where the dataset has none of their cells.

    Mechanisms and sizes that the dataset does not have at all are left out.
    """
    wanted = [family.first.coords for family in grid.cells.used]
    missing = []
    for axis in _sizes(grid, data):
        in_grid = {(coords["mechanism"], coords[axis]) for coords in wanted}
        known = _present(data, "mechanism", axis)
        for mechanism, there in zip(labels_of(data, "mechanism"), known, strict=True):
            labels = labels_of(data, axis)
            gone = [label for label, has in zip(labels, there.tolist(), strict=True) if not has]
            gone = [label for label in gone if (mechanism, label) in in_grid]
            missing += [f"{mechanism} at {places_text(axis, gone)}"] if gone else []
    return missing


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
