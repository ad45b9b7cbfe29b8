"""The content of a store's figures: those that its experiment declares, and the standard ones."""

import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, count
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

import workloads
from solvers import privacy
from sweep.dataset import frames, reading
from sweep.dataset.pivots import label_text, place_texts
from sweep.dataset.reading import Results
from sweep.errors import SweepError, command
from sweep.experiment.schema import SIZES, Experiment, Figure
from sweep.plan.stored import of_store
from sweep.report import tables
from sweep.store import arrays
from sweep.store.places import Location
from workloads.parameters import nearest

Numbers = Sequence[float] | NDArray[np.float64]

MOST_LINES = 20
"""Largest number of lines in a panel."""
MOST_PANELS = 12
"""Largest number of panels in a picture."""
_DELTAS = np.logspace(-15, -1, 57)
_LARGEST_SPAN = 8.0
"""An axis whose numbers span at least this factor is logarithmic, unless the caller decides."""
_LARGEST = 512
"""Size from which only every n-th row and column of a matrix is drawn in a heat map."""
_MECHANISMS = (
    *("optimal", "IP", "CA", "GM", "HM", "SM-II", "wCA-I", "wCA-II"),
    *("WM", "LRM", "AM", "ESM", "COA", "GD", "interior-point", "geometric"),
    *("tight-constraints", "lp-optimal", "fisher", "laplace", "ResidualPlanner+", "DAWA"),
)
"""Mechanisms in the order of their styles; those often seen together differ in colour."""
_OTHER_STYLES = 18
"""Number of further styles, for mechanisms that are not listed."""


@dataclass(frozen=True)
class Axis:
    """An axis of a picture; if it has ``ticks``, they label the positions 0, 1, ..."""

    label: str
    log: bool = False
    ticks: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Line:
    """One line: points in the order of x, and the range of their replicates.

    Attributes
    ----------
    x, y, low, high : sequence of float
        Positions of the points, and the mean, minimum and maximum over their replicates; if
        ``low`` and ``high`` are empty, no range is drawn.
    style : int
        Index of the line's colour and marker; see `styles_of`.
    dots : bool
        Whether only the points are drawn, without lines between them.
    end : str
        If the line ends before the axis does, the state of its next point; otherwise empty.
    """

    label: str
    x: Numbers
    y: Numbers
    style: int
    low: Numbers = ()
    high: Numbers = ()
    dots: bool = False
    end: str = ""


@dataclass(frozen=True, eq=False)
class Lines:
    """A panel with lines, and optionally the line y = x."""

    title: str
    lines: tuple[Line, ...]
    x: Axis
    y: Axis
    diagonal: bool = False


@dataclass(frozen=True, eq=False)
class Field:
    """A panel with a matrix of numbers as a heat map; if signed, its colours are centred at 0."""

    title: str
    values: NDArray[np.float64]
    x: Axis
    y: Axis
    label: str
    signed: bool = False


Panels = tuple[Lines, ...] | tuple[Field, ...]


@dataclass(frozen=True, eq=False)
class Picture:
    """The whole content of a figure; its name is also the stem of its file.

    Attributes
    ----------
    size : tuple of float, optional
        Width and height in inches; by default what the panels need.
    digits : int
        Significant digits of the numbers on the axes.
    """

    name: str
    title: str
    panels: Panels
    notes: tuple[str, ...] = ()
    size: tuple[float, float] | None = None
    digits: int = 6


STANDARD: Mapping[str, Mapping[str, Any]] = {
    "ratio": {"variable": "variance_ratio", "log": ("y",)},
    "cost": {"variable": "privacy_cost"},
    "utility": {"variable": "utility"},
    "privacy": {"variable": "privacy_cost", "title": "Privacy at which the targets are met"},
    "scaling": {"variable": "runtime_s"},
    "variances": {"variable": "query_variances", "title": "Query variances against their targets"},
    "profile": {
        "variable": "privacy_profile",
        "title": "Personal privacy cost of every domain cell",
    },
    "covariance": {"variable": "covariance", "title": "Covariance of the noise"},
    "convergence": {"variable": "trace_objective", "title": "Convergence of the solves"},
    "gradient": {"variable": "trace_gradient_norm", "title": "Norm of the gradient"},
    "regions": {"variable": "prior", "title": "Regions that the priors span"},
}
"""The figures that every store has, by name; each fixes some keys of a `Figure`."""


def names(experiment: Experiment) -> list[str]:
    """The names of the experiment's own figures, then of the figures that every store has."""
    return [*declared(experiment), *STANDARD]


def declared(experiment: Experiment) -> dict[str, Figure]:
    """The experiment's own figures by name."""
    return {
        figure.name or f"figure-{at}": figure for at, figure in enumerate(experiment.figures, 1)
    }


def by_default(results: Results, experiment: Experiment) -> list[str]:
    """The figures to draw if none is named: the declared ones, or a suitable one."""
    has = any("variance_ratio" in data for data in reading.groups(results).values())
    return list(declared(experiment)) or ["ratio" if has else "utility"]


def pictures(
    results: Results,
    experiment: Experiment,
    name: str,
    changes: Mapping[str, Any] | None = None,
    store: Location | None = None,
) -> list[Picture]:
    """A figure of a store, by its name: one picture for each group that has it.

    Parameters
    ----------
    changes : Mapping[str, object], optional
        New values for keys of the `Figure`, and for ``title``, ``size`` and ``digits``; None leaves
        a key unchanged.

    Raises
    ------
    SweepError
        If there is no such figure, or no group can show it.
    """
    if name not in names(experiment):
        raise SweepError(f"there is no figure {name!r}; {nearest(name, names(experiment))}")
    own = declared(experiment).get(name)
    given = {key: value for key, value in (changes or {}).items() if value is not None}
    look = {key: given.pop(key) for key in ("title", "size", "digits") if key in given}
    written = dict(own) if own else STANDARD[name]
    draw, uses = _drawing(None if own else name, given.get("variable", written["variable"]))
    if unused := given.keys() - {"where", "group", *uses}:
        raise SweepError(f"figure {name!r} takes no {', '.join(sorted(unused))}; leave it out")
    options = {**written, **given}
    groups = reading.groups(results)
    group = options.get("group")
    if group is not None and group not in groups:
        raise SweepError(f"there is no group {group!r}; {nearest(group, list(groups))}")
    chosen = groups if group is None else {group: groups[group]}
    drawn: list[Picture] = []
    troubles: list[SweepError] = []
    for label, data in chosen.items():
        stem, prefix = (name, "") if len(chosen) == 1 else (f"{name}-{label}", f"{label}: ")
        try:
            if "x" not in written and draw is _of_variable:
                options = {**written, **_chosen_axes(data, {**written, **given}), **given}
            figure = Figure.model_construct(**options)
            title, panels, notes = draw(data, figure, stem, store)
            lines = max(
                (len(panel.lines) for panel in panels if isinstance(panel, Lines)), default=0
            )
            if lines > MOST_LINES or len(panels) > MOST_PANELS:
                raise SweepError(
                    f"figure {stem!r} would have {len(panels)} panels with up to {lines} lines; "
                    f"expected at most {MOST_PANELS} and {MOST_LINES}: choose cells with --where"
                )
            if draw is _of_variable and len(panels) == 1 and isinstance(panels[0], Lines):
                panels = (_with_printed(panels[0], figure, experiment, label),)
        except SweepError as error:
            troubles.append(error)
        else:
            drawn.append(replace(Picture(stem, f"{prefix}{title}", panels, notes), **look))
    if not drawn:
        raise troubles[0]
    return drawn


_Drawn = tuple[str, Panels, tuple[str, ...]]
"""Title, panels and notes."""


def _drawing(
    standard: str | None, variable: str
) -> tuple[Callable[[xr.Dataset, Figure, str, Location | None], _Drawn], Collection[str]]:
    """The function that draws a figure, and the options that it accepts."""
    if standard == "privacy":
        return _privacy, ("hue",)
    if standard == "scaling":
        return _scaling, ("x", "hue")
    if variable in _OF_ARRAYS:
        return _of_arrays, ()
    return _of_variable, ("variable", "x", "hue", "panels", "log")


def _chosen_axes(data: xr.Dataset, options: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults for the axes of a standard figure."""
    variable, panels = options["variable"], options.get("panels")
    frames.check_variable(data, variable)
    x = options.get("x") or _longest(data, variable, {panels, options.get("hue")})
    axes = {"x": x, "log": (*(["x"] if _spans(data, x) else []), *options.get("log", ()))}
    if x == "mechanism":
        others = (name for name in _axes(data, variable) if name not in (x, panels))
        axes["hue"] = next(others, "")
    return axes


def _of_variable(data: xr.Dataset, figure: Figure, name: str, _: Any = None) -> _Drawn:
    """One variable over one coordinate, or over the size of the problems.

    The names of lines include all further coordinates that vary.
    """
    data = _with_coordinate(data, figure.x) if figure.x in SIZES else data
    cells = frames.where(frames.long(data, figure.variable), figure.where)
    axes = tuple(axis for axis in (figure.panels, figure.hue) if axis)
    rows = tables.rows_of(data, cells, axes, figure.x)
    along = [str(dim) for dim in data[figure.x].dims if dim in cells and dim not in axes]
    by = [axis for axis in rows if axis not in along]
    points = dict.fromkeys([*by, figure.x, *along])
    entries = tables.summarised(cells, figure.variable, list(points))
    known = entries[entries["mean"].notna()]
    if known.empty:
        raise SweepError(f"figure {name!r}: no cell has a number for {figure.variable!r} yet")
    ticks = _ticks(known[figure.x])
    x = Axis(_named(data, figure.x), "x" in figure.log and not ticks, ticks)
    y = Axis(_named(data, figure.variable), "y" in figure.log)
    rest = [axis for axis in by if axis != figure.panels]
    entries["line"] = line_names(entries, rest)
    styles = styles_of(entries["line"][known.index], by_mechanism=rest[:1] == ["mechanism"])
    parts = [("", entries)]
    if figure.panels is not None:
        by_panel = entries.groupby(figure.panels, sort=False)
        parts = [(f"{figure.panels} = {label_text(label)}", part) for label, part in by_panel]
    panels = tuple(
        Lines(title, _lines(part, figure.x, ticks, styles), x, y)
        for title, part in parts
        if part["mean"].notna().any()
    )
    reference = str(data.attrs.get("reference", "the reference mechanism"))
    meant = tables.meaning(data, figure.variable, reference)
    title = figure.title or f"{meant[:1].upper()}{meant[1:]}"
    return title, panels, _notes(entries, figure.x, x, y)


def _with_printed(panel: Lines, figure: Figure, experiment: Experiment, group: str) -> Lines:
    """The panel with points for the papers' numbers, in the colours of the lines.

    Styles that differ by 8 share a colour and have different markers.
    """
    printed: dict[str, dict[Any, float]] = {}
    for table in (*experiment.published, *experiment.closed_form):
        here = table.variable == figure.variable and table.group in (None, group)
        if here and not table.reading and figure.x in table.axes and not panel.x.ticks:
            for at, number in table.points():
                printed.setdefault(label_text(at.get(figure.hue, "")), {})[at[figure.x]] = number
    points = (
        Line(f"{line.label}, printed", [*over], [*over.values()], line.style + 8, dots=True)
        for line in panel.lines
        if (over := printed.get(line.label))
    )
    return replace(panel, lines=(*panel.lines, *points))


def _lines(
    part: pd.DataFrame, x: str, ticks: Sequence[str], styles: Mapping[str, int]
) -> tuple[Line, ...]:
    lines = []
    for label, whole in part.groupby("line", sort=False):
        known = whole[whole["mean"].notna()]
        if known.empty:
            continue
        at = known[x].map(lambda value: ticks.index(label_text(value))) if ticks else known[x]
        points = known.assign(at=at).sort_values("at", kind="stable")
        y, low, high = (points[name].to_numpy() for name in ("mean", "minimum", "maximum"))
        later = whole[:0] if ticks else whole[whole["mean"].isna() & (whole[x] > known[x].max())]
        end = str(later.sort_values(x)["state"].iloc[0]).replace("_", " ") if len(later) else ""
        x_, style = points["at"].to_numpy(np.float64), styles[str(label)]
        lines.append(Line(str(label), x_, y, style, low, high, bool(ticks), end))
    return tuple(lines)


def _notes(entries: pd.DataFrame, over: str, x: Axis, y: Axis) -> tuple[str, ...]:
    """Sentences on missing and hidden points, and on the replicates behind the points."""
    known, missing = (entries[entries["mean"].notna() == has] for has in (True, False))
    notes = []
    if len(missing):
        by_reason = missing["line"] + " " + missing["state"].str.replace("_", " ")
        reasons = "; ".join(
            f"{why} at {', '.join(map(label_text, rows[over]))}".strip()
            for why, rows in missing.groupby(by_reason, sort=False)
        )
        have = "has" if len(missing) == 1 else "have"
        notes.append(f"{len(missing)} of {len(entries)} points {have} no number: {reasons}.")
    logarithmic = [name for name, axis in ((over, x), ("mean", y)) if axis.log]
    if hidden := int((known[logarithmic] <= 0).any(axis=1).sum()):
        shown = "is" if hidden == 1 else "are"
        notes.append(
            f"{hidden} of {len(known)} points {shown} at 0 or below, where a logarithmic axis does "
            "not reach."
        )
    if fewer := int((known["numbers"] < known["cells"]).sum()):
        notes.append(
            f"{fewer} of {len(known)} points are means of those replicates that have a number."
        )
    if (known["cells"] > 1).any():
        notes.append("Means over the replicates; the bars reach from the smallest to the largest.")
    return tuple(notes)


def _privacy(data: xr.Dataset, figure: Figure, name: str, _: Any) -> _Drawn:
    """The (ε, δ) curves on which every cell meets its targets, for Gaussian mechanisms."""
    cells = frames.where(frames.long(data, figure.variable), figure.where)
    by = tables.rows_of(data, cells, (figure.hue,))
    entries = tables.summarised(cells, figure.variable, by)
    known, without = (entries[entries["mean"].notna() == has] for has in (True, False))
    if known.empty:
        raise SweepError(f"figure {name!r}: no such cell has a privacy cost yet")
    labels = line_names(known, by)
    styles = styles_of(labels, by_mechanism=by[0] == "mechanism")
    lines = []
    for label, (_, entry) in zip(labels, known.iterrows(), strict=True):
        costs = (float(entry[end]) for end in ("mean", "minimum", "maximum"))
        y, low, high = (privacy.epsilon(cost, _DELTAS) for cost in costs)
        lines.append(Line(label, _DELTAS, y, styles[label], low, high))
    notes = []
    if len(without):
        why = without["state"].str.replace("_", " ").where(without["ok"] == 0, "not Gaussian")
        named = ", ".join(map(": ".join, zip(line_names(without, by), why, strict=True)))
        notes = [f"{len(without)} of {len(entries)} mechanisms have no privacy curve ({named})."]
    if (known["cells"] > 1).any():
        notes.append("Of the mean privacy cost over the replicates, from the least to the largest.")
    return figure.title, (Lines("", tuple(lines), Axis("δ", log=True), Axis("ε")),), tuple(notes)


def _scaling(data: xr.Dataset, figure: Figure, name: str, _: Any) -> _Drawn:
    """Run time and gap over the size, on logarithmic axes, with fitted slopes of the run times."""
    x = dict(figure).get("x") or ("d" if "d" in data.dims else _longest(data, "runtime_s"))
    if x not in data.dims or data[x].dtype.kind not in "iuf":
        numeric = [axis for axis in _axes(data, "runtime_s") if data[axis].dtype.kind in "iuf"]
        raise SweepError(f"figure {name!r} needs an axis of numbers; {nearest(x, numeric)}")

    def panel(variable: str) -> tuple[Any, tuple[str, ...]]:
        changed = figure.model_copy(update={"variable": variable, "x": x, "log": ("x", "y")})
        _, (lines,), notes = _of_variable(data, changed, name)
        return lines, notes

    times, notes = panel("runtime_s")
    shown = {"run time": times}
    if "gap" in data and np.nanmax(data["gap"].to_numpy(), initial=0.0) > 0:
        shown["gap"], more = panel("gap")
        notes = (*notes, *(f"Gap: {note}" for note in more if note not in notes))
    slopes = {line.label: _with_slope(line) for line in times.lines}
    panels = []
    for title, one in shown.items():
        positive = (line for line in one.lines if max(line.y) > 0)
        lines = (replace(line, label=slopes.get(line.label, line.label)) for line in positive)
        panels.append(replace(one, title=title, lines=tuple(lines)))
    return f"Run time and gap over {x}", tuple(panels), notes


def _with_slope(line: Line) -> str:
    """The label of a line, with its slope on logarithmic axes if it has one."""
    x, y = np.asarray(line.x), np.asarray(line.y)
    if x.size < 2 or np.any(x <= 0) or np.any(y <= 0):
        return line.label
    return f"{line.label}: slope {np.polyfit(np.log(x), np.log(y), 1)[0]:.1f}"


def _axes(data: xr.Dataset, variable: str) -> list[str]:
    """The axes along which a variable varies, longest first, except mechanisms and replicates."""
    sizes = {str(dim): data.sizes[dim] for dim in data[variable].dims if data.sizes[dim] > 1}
    return sorted(sizes.keys() - {"mechanism", "replicate"}, key=lambda name: -sizes[name])


def _longest(data: xr.Dataset, variable: str, taken: Collection[str | None] = ()) -> str:
    """The longest numeric axis, otherwise the longest axis; ``mechanism`` if there is none."""
    axes = [name for name in _axes(data, variable) if name not in taken]
    numeric = [name for name in axes if data[name].dtype.kind in "iuf"]
    return next(iter([*numeric, *axes]), "mechanism")


def _spans(data: xr.Dataset, name: str) -> bool:
    """Whether the labels of an axis are numbers that span `_LARGEST_SPAN`, or are powers."""
    if name not in data.coords or data[name].dtype.kind not in "iuf":
        return False
    values = np.unique(data[name].to_numpy())
    return bool(values[0] > 0 and values[-1] / values[0] >= _LARGEST_SPAN) or are_powers(values)


def are_powers(values: Numbers) -> bool:
    """Whether sorted values are successive powers of one number, times a constant."""
    if len(values) < 3 or values[0] <= 0:
        return False
    steps = np.divide(values[1:], values[:-1])
    return bool(np.allclose(steps, steps[0]))


def line_names(entries: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """The name of every row's line: the hue, then everything else that varies."""
    several = [name for name in by[1:] if entries[name].nunique() > 1]
    return place_texts(entries, [*by[:1], *several])


def styles_of(labels: Iterable[str], *, by_mechanism: bool = True) -> dict[str, int]:
    """The style of every line; a mechanism has the same style in every figure, by its name.

    Further lines of a mechanism, and other lines, take the remaining styles in order.
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


def _with_coordinate(data: xr.Dataset, name: str) -> xr.Dataset:
    """The dataset with a variable as a coordinate of the only axis along which it varies."""
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
    """The label of an axis: a variable with its units."""
    units = data[name].attrs.get("units", "1")
    shown = name.removesuffix("_s").replace("_", " ")
    return shown if units in ("1", "") else f"{shown} ({units})"


_Arrays = list[tuple[str, str, NDArray[np.float64]]]
"""Label, cell and kept array of every cell that a figure shows."""


def _of_arrays(data: xr.Dataset, figure: Figure, name: str, store: Location | None) -> _Drawn:
    """An array that the store keeps, for the cells of the first replicate that have it."""
    array = figure.variable
    if store is None:
        raise SweepError(
            f"figure {name!r} shows kept arrays: give the store's folder, as in "
            f"ds.sweep.plot({name!r}, store='results/mine')"
        )
    cells = frames.where(frames.long(data[frames.cellwise(data)]), figure.where)
    ok = cells[cells["status"] == "ok"]
    if "replicate" in ok:
        ok = ok[ok["replicate"] == ok["replicate"].min()]
    axes = (str(dim) for dim in data["status"].dims if dim not in ("mechanism", "replicate"))
    labels = place_texts(ok, ["mechanism", *(axis for axis in axes if ok[axis].nunique() > 1)])
    found: _Arrays = []
    for label, cell, solve in zip(labels, ok["cell"], ok["solve"], strict=True):
        if arrays.file(store, solve).is_file():
            kept = arrays.arrays(store, solve)
            if array in kept:
                found.append((label, cell, kept[array].to_numpy().astype(np.float64)))
    if not found:
        keep = array.partition("_")[0] if array.startswith("trace") else array
        rerun = command("rerun", store, "--where \"status == 'ok'\"")
        raise SweepError(
            f"figure {name!r}: the store keeps no array {keep!r} of these cells; write 'keep: "
            f"[{keep}]' in the experiment, and {rerun} keeps those of cells that are solved already"
        )
    titles = (one["title"] for one in STANDARD.values() if one["variable"] == array)
    title = figure.title or next(titles, array)
    return title, _OF_ARRAYS[array](found, store), ()


def _variances(found: _Arrays, store: Location) -> tuple[Lines, ...]:
    """The variance of every query against its target; those below the diagonal have slack."""
    cells = of_store(store).cells
    x = Axis("target", log=True)
    y = Axis("variance when the targets are just met", log=True)
    lines, styles = [], styles_of(label for label, _, _ in found)
    for label, cell, variances in found:
        targets = _targets(cells.of_id(cell))
        x_, y_ = np.unique(np.column_stack([targets, variances]), axis=0).T
        lines.append(Line(label, x_, y_, styles[label], dots=True))
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


def _profile(found: _Arrays, store: Location, along: str = "domain cell") -> tuple[Field, ...]:
    """Heat maps with a row for every cell of the grid; arrays of one size share a panel."""
    by_size: dict[int, dict[str, NDArray[np.float64]]] = {}
    for label, _, values in found:
        by_size.setdefault(values.size, {})[label] = values / values.max()
    return tuple(
        Field(
            "" if len(by_size) == 1 else f"{size} cells",
            np.array(list(rows.values())),
            Axis(along),
            Axis("", ticks=tuple(rows)),
            "share of the largest",
        )
        for size, rows in by_size.items()
    )


def _covariance(found: _Arrays, store: Location) -> tuple[Field, ...]:
    query = Axis("basis query")
    return tuple(
        Field(label, values[::step, ::step], query, query, "covariance", signed=True)
        for label, _, values in found
        for step in [1 + len(values) // _LARGEST]
    )


def _over_iterations(found: _Arrays, store: Location, what: str) -> tuple[Lines, ...]:
    styles = styles_of(label for label, _, _ in found)
    lines = (Line(label, np.arange(float(y.size)), y, styles[label]) for label, _, y in found)
    positive = all((values > 0).all() for _, _, values in found)
    return (Lines("", tuple(lines), Axis("iteration"), Axis(what, log=positive)),)


def _regions(found: _Arrays, store: Location) -> tuple[Lines, ...]:
    """The polytope spanned by priors of one kind: its edges, in the first two coordinates."""
    corners: dict[str, list[NDArray[np.float64]]] = {}
    for label, _, values in found:
        kind = ", ".join(part for part in label.split(", ") if not part.startswith("prior = "))
        corners.setdefault(kind, []).append(values[:2])
    lines = []
    for style, (label, priors) in enumerate(corners.items()):
        # there and back along each edge, so that one line has all of them
        path = np.array([point for a, b in combinations(priors, 2) for point in (a, b, a)])
        lines.append(Line(label, path[:, 0], path[:, 1], style))
    return (Lines("", tuple(lines), Axis("first probability"), Axis("second probability")),)


_OF_ARRAYS: Mapping[str, Callable[[_Arrays, Location], Panels]] = {
    "query_variances": _variances,
    "privacy_profile": _profile,
    "density": partial(_profile, along="noise: % of the box, from its lower end"),
    "covariance": _covariance,
    "trace_objective": partial(_over_iterations, what="objective"),
    "trace_gradient_norm": partial(_over_iterations, what="norm of the gradient"),
    "prior": _regions,
}
"""The functions that draw kept arrays, by the array's name."""
