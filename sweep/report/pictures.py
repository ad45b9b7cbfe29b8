"""The content of a figure: lines over an axis, fields of numbers; not how it is drawn."""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sweep.dataset.pivots import label_text, place_texts
from sweep.errors import SweepError
from sweep.experiment.schema import SIZES, Figure
from sweep.report import frames, layout
from sweep.report.tables import meaning

_MECHANISMS = (
    *("optimal", "IP", "CA", "GM", "HM", "SM-II", "wCA-I", "wCA-II"),
    *("WM", "LRM", "AM", "ESM", "COA", "GD", "interior-point", "geometric"),
    *("tight-constraints", "lp-optimal", "fisher", "laplace", "ResidualPlanner+", "DAWA"),
)
"""Mechanisms by the number of their style; those often seen together have different colours."""
_OTHER_STYLES = 18
"""The styles after these, for other mechanisms and their variants."""
MOST_LINES = 20
"""A panel has at most this many lines."""
MOST_PANELS = 12
"""The most panels of a picture."""


@dataclass(frozen=True)
class Axis:
    """An axis of a picture; where it has no numbers, ticks label the positions 0, 1, ..."""

    label: str
    log: bool = False
    ticks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    """One line: points in the order of x, and the range of their replicates.

    Attributes
    ----------
    x, y, low, high : tuple of float
        Mean, minimum and maximum over the replicates.
    style : int
        Number of its colour and marker; see `styles_of`.
    dots : bool
        Whether the points are not joined.
    end : str
        Why it ends before the axis does: the state of its next point; empty if it does not.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    style: int
    dots: bool = False
    end: str = ""


@dataclass(frozen=True)
class Lines:
    """A panel with lines, with the line y = x if asked; without title if there is no other."""

    title: str
    lines: tuple[Line, ...]
    x: Axis
    y: Axis
    diagonal: bool = False


@dataclass(frozen=True, eq=False)
class Field:
    """A panel with a matrix of numbers as a heat map; if signed, its colours centre at 0."""

    title: str
    values: NDArray[np.float64]
    x: Axis
    y: Axis
    label: str
    signed: bool = False


@dataclass(frozen=True, eq=False)
class Picture:
    """Everything that a figure shows; its name is also the stem of its file.

    Attributes
    ----------
    size : tuple of float, optional
        Width and height in inches; by default what its panels need.
    digits : int
        Significant digits of the numbers at its axes.
    """

    name: str
    title: str
    panels: tuple[Lines, ...] | tuple[Field, ...]
    notes: tuple[str, ...] = ()
    size: tuple[float, float] | None = None
    digits: int = 6


def of_figure(data: xr.Dataset, figure: Figure, name: str) -> Picture:
    """The picture of one variable over one coordinate, or over the size of the problems.

    The names of lines include any other coordinate that varies.

    Raises
    ------
    SweepError
        If there is no such variable or coordinate, no such cell, no number, or too much to show.
    """
    data = _with_coordinate(data, figure.x) if figure.x in SIZES else data
    cells = frames.where(frames.long(data, figure.variable), figure.where)
    axes = tuple(axis for axis in (figure.panels, figure.hue) if axis)
    rows = layout.rows_of(data, cells, axes, figure.x)
    along = [str(dim) for dim in data[figure.x].dims if dim in cells and dim not in axes]
    by = [axis for axis in rows if axis not in along]
    points = dict.fromkeys([*by, figure.x, *along])
    entries = layout.summarised(cells, figure.variable, list(points))
    known = entries[entries["mean"].notna()]
    if known.empty:
        raise SweepError(f"figure {name!r}: no cell has a number for {figure.variable!r} yet")
    ticks = _ticks(known[figure.x])
    x = Axis(_named(data, figure.x), "x" in figure.log and not ticks, ticks)
    y = Axis(_named(data, figure.variable), "y" in figure.log)
    rest = [axis for axis in by if axis != figure.panels]
    styles = styles_of(labels_of(known, rest), by_mechanism=rest[:1] == ["mechanism"])
    parts = [("", entries)]
    if figure.panels is not None:
        by_panel = entries.groupby(figure.panels, sort=False)
        parts = [(f"{figure.panels} = {label_text(label)}", part) for label, part in by_panel]
    panels = tuple(
        Lines(title, _lines(part, rest, figure.x, ticks, styles), x, y)
        for title, part in parts
        if part["mean"].notna().any()
    )
    check_size(name, panels)
    notes = _missing(entries, rest, figure.x)
    notes += _hidden(known, x, figure.x, y)
    if len(fewer := known[known["numbers"] < known["cells"]]):
        notes.append(
            f"{len(fewer)} of {len(known)} points are means of those replicates that have a number."
        )
    if (known["cells"] > 1).any():
        notes.append("Means over the replicates; the bars reach from the smallest to the largest.")
    reference = str(data.attrs.get("reference", "the reference mechanism"))
    meant = meaning(data, figure.variable, reference)
    title = figure.title or f"{meant[:1].upper()}{meant[1:]}"
    return Picture(name, title, panels, tuple(notes))


def are_powers(values: Sequence[float]) -> bool:
    """Whether sorted values are successive powers of one number, times a constant."""
    if len(values) < 3 or values[0] <= 0:
        return False
    steps = np.divide(values[1:], values[:-1])
    return bool(np.allclose(steps, steps[0]))


def check_size(name: str, panels: Sequence[Lines | Field]) -> None:
    """Refuse a picture that is too large to read, with SweepError."""
    lines = max((len(panel.lines) for panel in panels if isinstance(panel, Lines)), default=0)
    for shown, most, what in (
        (lines, MOST_LINES, "lines in a panel"),
        (len(panels), MOST_PANELS, "panels"),
    ):
        if shown > most:
            raise SweepError(
                f"figure {name!r} would have {shown} {what}; expected at most {most}: choose "
                "cells with --where"
            )


def labels_of(entries: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """The name of the line of every row: the hue, then what else varies."""
    several = [name for name in by[1:] if entries[name].nunique() > 1]
    return place_texts(entries, [*by[:1], *several])


def styles_of(labels: Iterable[str], *, by_mechanism: bool = True) -> dict[str, int]:
    """The style of every line; a mechanism has the same one in every figure, by its name.

    Further lines of a mechanism, and other lines, take the styles that are left, in order.
    """
    styles: dict[str, int] = {}
    for label in dict.fromkeys(labels):
        name = label.partition(",")[0]
        style = 0
        if by_mechanism:
            unknown = len(_MECHANISMS) + zlib.crc32(name.encode()) % _OTHER_STYLES
            style = _MECHANISMS.index(name) if name in _MECHANISMS else unknown
        taken = styles.values()
        styles[label] = next(number for number in count(style) if number not in taken)
    return styles


def _lines(
    part: pd.DataFrame,
    by: Sequence[str],
    x: str,
    ticks: Sequence[str],
    styles: Mapping[str, int],
) -> tuple[Line, ...]:
    names = pd.Series(labels_of(part, by), index=part.index)
    lines = []
    for label, whole in part.groupby(names, sort=False):
        known = whole[whole["mean"].notna()]
        if known.empty:
            continue
        at = known[x].map(lambda value: ticks.index(label_text(value))) if ticks else known[x]
        order = np.argsort(at.to_numpy(dtype=np.float64), kind="stable")
        x_, y, low, high = (
            tuple(column.to_numpy(dtype=np.float64)[order].tolist())
            for column in (at, known["mean"], known["minimum"], known["maximum"])
        )
        open_ = whole["mean"].isna()
        later = whole[open_ & (whole[x] > known[x].max())] if not ticks else known[:0]
        end = str(later.sort_values(x)["state"].iloc[0]).replace("_", " ") if len(later) else ""
        lines.append(Line(str(label), x_, y, low, high, styles[str(label)], bool(ticks), end))
    return tuple(lines)


def _missing(entries: pd.DataFrame, by: Sequence[str], x: str) -> list[str]:
    """A sentence on the points without a number, with the reasons; empty if there are none."""
    missing = entries[entries["mean"].isna()]
    if missing.empty:
        return []
    names = pd.Series(labels_of(entries, by), index=entries.index)[missing.index]
    whys = names + " " + missing["state"].str.replace("_", " ")
    reasons = [
        f"{why} at {', '.join(map(label_text, rows[x]))}".strip()
        for why, rows in missing.groupby(whys, sort=False)
    ]
    have = "has" if len(missing) == 1 else "have"
    return [f"{len(missing)} of {len(entries)} points {have} no number: {'; '.join(reasons)}."]


def _hidden(known: pd.DataFrame, x: Axis, over: str, y: Axis) -> list[str]:
    """A sentence on the points at or below 0, which a logarithmic axis cannot show."""
    logarithmic = [name for name, axis in ((over, x), ("mean", y)) if axis.log]
    hidden = int((known[logarithmic] <= 0).any(axis=1).sum())
    if not hidden:
        return []
    shown = "is" if hidden == 1 else "are"
    return [
        f"{hidden} of {len(known)} points {shown} at 0 or below, where a logarithmic axis does not "
        "reach."
    ]


def _with_coordinate(data: xr.Dataset, name: str) -> xr.Dataset:
    """The dataset with a variable as a coordinate of the one axis that it follows.

    Raises
    ------
    SweepError
        If there is no such variable, or it follows several axes.
    """
    frames.check_variable(data, name)
    dims = [*(str(dim) for dim in data[name].dims if dim != "mechanism"), "mechanism"]
    for dim in dims:
        others = [other for other in data[name].dims if other != dim]
        low = data[name].min(others, keep_attrs=True)
        if bool((low == data[name].max(others)).where(low.notnull(), True).all()):
            return data.drop_vars(name).assign_coords({name: low})
    raise SweepError(
        f"{name!r} differs along several axes; choose cells with --where, so that one is left"
    )


def _ticks(column: pd.Series) -> tuple[str, ...]:
    """The labels of an axis that is not numeric, in order; empty for numbers."""
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        return ()
    return tuple(dict.fromkeys(map(label_text, column)))


def _named(data: xr.Dataset, name: str) -> str:
    attributes = data[name].attrs
    shown, units = name.removesuffix("_s").replace("_", " "), attributes.get("units", "1")
    return shown if units in ("1", "") else f"{shown} ({units})"
