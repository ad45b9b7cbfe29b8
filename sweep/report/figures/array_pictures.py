"""Figures of the arrays that an experiment keeps: variances, profiles, covariances, traces."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

import workloads
from sweep.errors import SweepError
from sweep.plan.stored import of_store
from sweep.report.figures.pictures import Axis, Field, Line, Lines, Picture, check_size
from sweep.report.numbers import frames
from sweep.report.numbers.pivots import label_text
from sweep.store import arrays
from sweep.store.location import Location

_LARGEST = 512
"""Most rows of a heat map that are drawn one by one; of larger ones every n-th."""


def picture(data: xr.Dataset, store: Location, name: str, where: str | None, stem: str) -> Picture:
    """A figure of kept arrays, of the first replicate of every cell that has them.

    Raises
    ------
    SweepError
        If no chosen cell has such an array, or they are too many for one picture.
    """
    array, kept_as, title, panels_of = FIGURES[name]
    cells = _chosen(data, where)
    arrays = [
        (label, cell, values)
        for label, cell, solve in cells
        for values in [_array(store, solve, array)]
        if values is not None
    ]
    if not arrays:
        raise SweepError(
            f"figure {name!r}: the store keeps no array {kept_as!r} of these cells; write 'keep: "
            f"[{kept_as}]' in the experiment, and 'sweep rerun {store} --where \"status == 'ok'\"' "
            "keeps those of cells that are solved already"
        )
    panels = panels_of(arrays, store)
    check_size(stem, panels)
    return Picture(stem, title, panels)


def _chosen(data: xr.Dataset, where: str | None) -> Iterator[tuple[str, str, str]]:
    """Label, cell and solve of the first replicate of every chosen cell that is ok."""
    value = next(str(name) for name, array in data.data_vars.items() if array.dtype.kind == "f")
    dims = data["status"].dims
    cells = frames.where(frames.long(data[[value, *frames.cellwise(data)]], value), where)
    ok = cells[cells["status"] == "ok"]
    if "replicate" in ok:
        ok = ok[ok["replicate"] == ok["replicate"].min()]
    vary = [str(dim) for dim in dims if dim != "replicate" and ok[str(dim)].nunique() > 1]
    for row in ok.to_dict("records"):
        named = [label_text(row["mechanism"])]
        named += [f"{axis} = {label_text(row[axis])}" for axis in vary if axis != "mechanism"]
        yield ", ".join(named), str(row["cell"]), str(row["solve"])


def _array(store: Location, solve: str, name: str) -> NDArray[np.float64] | None:
    if not arrays.folder(store, solve).exists():
        return None
    kept = arrays.arrays(store, solve)
    return np.asarray(kept[name].to_numpy(), dtype=np.float64) if name in kept else None


def _variances(arrays: list[Any], store: Location) -> tuple[Lines, ...]:
    """Variance over target of every query: points below the diagonal have room to spare."""
    cells = of_store(store).cells
    x = Axis("target", log=True)
    y = Axis("variance when the targets are just met", log=True)
    lines = []
    for style, (label, cell, values) in enumerate(arrays):
        targets = _targets(cells.of_id(cell))
        pairs = pd.DataFrame({"x": targets, "y": values}).drop_duplicates()
        points = tuple(pairs["y"].tolist())
        lines.append(Line(label, tuple(pairs["x"].tolist()), points, points, points, style, True))
    return (Lines("", tuple(lines), x, y, diagonal=True),)


def _targets(cell: Any) -> NDArray[np.float64]:
    """The targets of a cell's queries, rebuilt."""
    if workloads.families()[cell.workload.name].runs_code:
        raise SweepError(
            "figure 'variances' rebuilds the workload, but this one calls a function of the user's"
        )
    workload = workloads.make(cell.workload.name, **cell.workload.params)
    targets = workloads.targets.make(cell.targets.name, workload, **cell.targets.params)
    return np.asarray(targets, dtype=np.float64)


def _profile(arrays: list[Any], store: Location) -> tuple[Field, ...]:
    """One row for every cell of the grid; those over domains of one size share a panel."""
    by_size: dict[int, list[tuple[str, NDArray[np.float64]]]] = {}
    for label, _, values in arrays:
        by_size.setdefault(values.size, []).append((label, values / values.max()))
    return tuple(
        Field(
            "" if len(by_size) == 1 else f"{size} cells",
            np.array([values for _, values in rows]),
            Axis("domain cell"),
            Axis("", ticks=tuple(label for label, _ in rows)),
            "share of the largest",
        )
        for size, rows in by_size.items()
    )


def _covariance(arrays: list[Any], store: Location) -> tuple[Field, ...]:
    return tuple(
        Field(
            label,
            values[:: 1 + len(values) // _LARGEST, :: 1 + len(values) // _LARGEST],
            Axis("basis query"),
            Axis("basis query"),
            "covariance",
            signed=True,
        )
        for label, _, values in arrays
    )


def _trace(arrays: list[Any], store: Location) -> tuple[Lines, ...]:
    """Each mechanism's own objective over its iterations."""
    lines = []
    for style, (label, _, values) in enumerate(arrays):
        y = tuple(values.tolist())
        lines.append(Line(label, tuple(map(float, range(len(y)))), y, y, y, style))
    positive = all(value > 0 for line in lines for value in line.y)
    return (Lines("", tuple(lines), Axis("iteration"), Axis("objective", log=positive)),)


_Panels = Callable[[list[Any], Location], tuple[Lines, ...] | tuple[Field, ...]]

FIGURES: Mapping[str, tuple[str, str, str, _Panels]] = {
    "variances": (
        "query_variances",
        "query_variances",
        "Query variances against their targets",
        _variances,
    ),
    "profile": (
        "privacy_profile",
        "privacy_profile",
        "Personal privacy cost of every domain cell",
        _profile,
    ),
    "covariance": ("covariance", "covariance", "Covariance of the noise", _covariance),
    "convergence": ("trace_objective", "trace", "Convergence of the solves", _trace),
}
"""The figures of kept arrays by name: the array, what ``keep`` calls it, title and panels."""
