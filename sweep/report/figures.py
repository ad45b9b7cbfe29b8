"""Draws the figures of a store: those that its experiment declares, and the standard ones."""

import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations, count
from typing import TYPE_CHECKING, Any

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
from sweep.report import drawing, tables
from sweep.report.drawing import Numbers, Panel, Picture
from sweep.store import arrays
from sweep.store.places import Location
from workloads.parameters import nearest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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


_Drawn = tuple[str, Sequence[Panel], list[str]]
"""Title, panels and notes."""
_Printed = Mapping[str, Mapping[Any, float]]
"""The papers' numbers by the name of their line and their position on the horizontal axis."""


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
    """Draw a figure of a store: one picture for each group that can show it.

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
    variable = given.get("variable", written["variable"])
    draw: Callable[..., _Drawn] = _of_variable
    uses: Collection[str] = ("variable", "x", "hue", "panels", "log")
    if own is None and name in _SPECIAL:
        draw, uses = _SPECIAL[name]
    elif variable in _OF_ARRAYS:
        draw, uses = partial(_of_arrays, store=store), ()
    if unused := given.keys() - {"where", "group", *uses}:
        raise SweepError(f"figure {name!r} takes no {', '.join(sorted(unused))}; leave it out")
    options = {**written, **given}
    groups = reading.groups(results)
    group = options.get("group")
    if group is not None and group not in groups:
        raise SweepError(f"there is no group {group!r}; {nearest(group, list(groups))}")
    chosen = groups if group is None else {group: groups[group]}
    facts, drawn = frames.facts(results), list[Picture]()
    troubles: list[SweepError] = []
    for label, data in chosen.items():
        stem, prefix = (name, "") if len(chosen) == 1 else (f"{name}-{label}", f"{label}: ")
        try:
            guessed = draw is _of_variable and "x" not in written
            axes = _chosen_axes(data, options) if guessed else {}
            figure = Figure.model_construct(**{**written, **axes, **given})
            beside = (_printed(experiment, figure, label),) if draw is _of_variable else ()
            title, panels, notes = draw(data, figure, stem, *beside)
            if len(panels) > MOST_PANELS:
                raise SweepError(
                    f"figure {stem!r} would have {len(panels)} panels; expected at most "
                    f"{MOST_PANELS}: choose cells with --where"
                )
            same = {"notes": notes, "facts": facts, "share_y": figure.panels is not None}
            about: dict[str, Any] = {"title": f"{prefix}{title}", **same} | look
            drawn.append(drawing.picture(stem, panels, **about))
        except SweepError as error:
            troubles.append(error)
    if not drawn:
        raise troubles[0]
    return drawn


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


def _of_variable(data: xr.Dataset, figure: Figure, name: str, printed: _Printed) -> _Drawn:
    """Draw a variable over a coordinate, or over the size of the problems.

    The names of lines include all further coordinates that vary. If there is one panel, the
    papers' numbers are points in the colours of the lines.
    """
    data = _with_coordinate(data, figure.x) if figure.x in SIZES else data
    cells = frames.where(frames.long(data, figure.variable), figure.where)
    axes = tuple(axis for axis in (figure.panels, figure.hue) if axis)
    rows = tables.rows_of(data, cells, axes, figure.x)
    along = [str(dim) for dim in data[figure.x].dims if dim in cells and dim not in axes]
    by = [axis for axis in rows if axis not in along]
    points = dict.fromkeys([*by, figure.x, *along])
    entries = tables.summarised(cells, figure.variable, list(points))
    has = entries["mean"].notna()
    if not has.any():
        raise SweepError(f"figure {name!r}: no cell has a number for {figure.variable!r} yet")
    over, ticks = entries[figure.x], list[str]()
    if over.dtype.kind not in "iuf":
        over = over.map(label_text)
        ticks = list(dict.fromkeys(over[has]))
        over = over.map({text: at for at, text in enumerate(ticks)})
    rest = [axis for axis in by if axis != figure.panels]
    entries = entries.assign(over=over, line=line_names(entries, rest))
    styles = styles_of(entries["line"][has], by_mechanism=rest[:1] == ["mechanism"])
    log = {axis for axis in figure.log if axis == "y" or not ticks}

    def draw(part: pd.DataFrame, axes: "Axes") -> None:
        for line, whole in part.groupby("line", sort=False):
            label = str(line)
            known = whole[whole["mean"].notna()].sort_values("over", kind="stable")
            if known.empty or ("y" in log and known["mean"].max() <= 0):
                continue
            later = whole[whole["mean"].isna() & (whole["over"] > known["over"].max())]
            states = [] if ticks else later.sort_values("over")["state"].to_list()
            end = "".join(states[:1]).replace("_", " ")
            x, *ys = (known[n].to_numpy() for n in ("over", "mean", "minimum", "maximum"))
            drawing.line(axes, styles[label], label, x, *ys, dots=bool(ticks), end=end)
        for label, style in styles.items() if len(panels) == 1 and not ticks else ():
            if numbers := printed.get(label):
                at = list(numbers), list(numbers.values())
                same = style + drawing.SAME_COLOUR
                drawing.line(axes, same, f"{label}, printed", *at, dots=True)
        axes.set(xlabel=_named(data, figure.x), ylabel=_named(data, figure.variable))
        axes.set(**{f"{axis}scale": "log" for axis in log})
        if ticks:
            drawing.label_ticks(axes, "x", ticks)

    parts = [("", entries)]
    if figure.panels is not None:
        by_panel = entries.groupby(figure.panels, sort=False)
        parts = [(f"{figure.panels} = {label_text(label)}", part) for label, part in by_panel]
    panels = [(title, partial(draw, part)) for title, part in parts if part["mean"].notna().any()]
    reference = str(data.attrs.get("reference", "the reference mechanism"))
    meant = tables.meaning(data, figure.variable, reference)
    title = figure.title or f"{meant[:1].upper()}{meant[1:]}"
    return title, panels, _notes(entries, figure.x, log)


def _printed(experiment: Experiment, figure: Figure, group: str) -> _Printed:
    """The papers' and the closed forms' numbers that belong in a figure."""
    printed: dict[str, dict[Any, float]] = {}
    for table in (*experiment.published, *experiment.closed_form):
        here = table.variable == figure.variable and table.group in (None, group)
        if here and not table.reading and figure.x in table.axes:
            for at, number in table.points():
                printed.setdefault(label_text(at.get(figure.hue, "")), {})[at[figure.x]] = number
    return printed


def _notes(entries: pd.DataFrame, x: str, log: Collection[str]) -> list[str]:
    """Sentences on missing and hidden points, and on the replicates behind the points."""
    known, missing = (entries[entries["mean"].notna() == has] for has in (True, False))
    notes = []
    if len(missing):
        by_reason = missing["line"] + " " + missing["state"].str.replace("_", " ")
        reasons = "; ".join(
            f"{why} at {', '.join(map(label_text, rows[x]))}".strip()
            for why, rows in missing.groupby(by_reason, sort=False)
        )
        have = "has" if len(missing) == 1 else "have"
        notes.append(f"{len(missing)} of {len(entries)} points {have} no number: {reasons}.")
    logarithmic = [{"x": "over", "y": "mean"}[axis] for axis in log]
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
    return notes


def _curves(
    curves: Mapping[str, Sequence[Numbers]],
    options: Mapping[str, str],
    *,
    by_mechanism: bool = True,
    dots: bool = False,
) -> Panel:
    """A panel with a line for each label: its x and y, then the ends of its range, if it has one.

    The options are those of matplotlib's `Axes.set`.
    """

    def draw(axes: "Axes") -> None:
        for label, style in styles_of(curves, by_mechanism=by_mechanism).items():
            x, y, *ends = curves[label]
            drawing.line(axes, style, label, x, y, *ends, dots=dots)
        axes.set(**options)

    return "", draw


def _privacy(data: xr.Dataset, figure: Figure, name: str) -> _Drawn:
    """Draw the (ε, δ) curves on which Gaussian mechanisms meet their targets."""
    cells = frames.where(frames.long(data, figure.variable), figure.where)
    by = tables.rows_of(data, cells, (figure.hue,))
    entries = tables.summarised(cells, figure.variable, by)
    known, without = (entries[entries["mean"].notna() == has] for has in (True, False))
    if known.empty:
        raise SweepError(f"figure {name!r}: no such cell has a privacy cost yet")
    costs = known[["mean", "minimum", "maximum"]].to_numpy().tolist()
    curves = {
        label: [_DELTAS, *(privacy.epsilon(cost, _DELTAS) for cost in ends)]
        for label, ends in zip(line_names(known, by), costs, strict=True)
    }
    notes = []
    if len(without):
        why = without["state"].str.replace("_", " ").where(without["ok"] == 0, "not Gaussian")
        named = ", ".join(map(": ".join, zip(line_names(without, by), why, strict=True)))
        notes = [f"{len(without)} of {len(entries)} mechanisms have no privacy curve ({named})."]
    if (known["cells"] > 1).any():
        notes.append("Of the mean privacy cost over the replicates, from the least to the largest.")
    axes = {"xlabel": "δ", "xscale": "log", "ylabel": "ε"}
    return figure.title, [_curves(curves, axes, by_mechanism=by[0] == "mechanism")], notes


def _scaling(data: xr.Dataset, figure: Figure, name: str) -> _Drawn:
    """Draw run time and gap over the size, on logarithmic axes, with fitted slopes of run times."""
    x = dict(figure).get("x") or ("d" if "d" in data.dims else _longest(data, "runtime_s"))
    if x not in data.dims or data[x].dtype.kind not in "iuf":
        numeric = [axis for axis in _axes(data, "runtime_s") if data[axis].dtype.kind in "iuf"]
        raise SweepError(f"figure {name!r} needs an axis of numbers; {nearest(x, numeric)}")
    slopes: dict[str, str] = {}

    def draw(one: Callable[["Axes"], None], axes: "Axes") -> None:
        one(axes)
        for line in axes.lines:
            label = str(line.get_label())
            slopes.setdefault(label, _with_slope(label, *map(np.asarray, line.get_data())))
            line.set_label(slopes[label])

    shown = {"run time": "runtime_s"}
    if "gap" in data and np.nanmax(data["gap"].to_numpy(), initial=0.0) > 0:
        shown["gap"] = "gap"
    panels: list[Panel] = []
    notes: list[str] = []
    for title, variable in shown.items():
        changed = figure.model_copy(update={"variable": variable, "x": x, "log": ("x", "y")})
        _, ((_, one),), more = _of_variable(data, changed, name, {})
        panels.append((title, partial(draw, one)))
        notes += [f"Gap: {note}" if panels[1:] else note for note in more if note not in notes]
    return f"Run time and gap over {x}", panels, notes


def _with_slope(label: str, x: NDArray[np.float64], y: NDArray[np.float64]) -> str:
    """The label of a line, with its slope on logarithmic axes if it has one."""
    if x.size < 2 or np.any(x <= 0) or np.any(y <= 0):
        return label
    return f"{label}: slope {np.polyfit(np.log(x), np.log(y), 1)[0]:.1f}"


_SPECIAL: Mapping[str, tuple[Callable[[xr.Dataset, Figure, str], _Drawn], Collection[str]]] = {
    "privacy": (_privacy, ("hue",)),
    "scaling": (_scaling, ("x", "hue")),
}
"""Standard figures that show more than one variable: the functions that draw them, and options."""


def _axes(data: xr.Dataset, variable: str) -> list[str]:
    """The axes along which a variable varies, longest first, except mechanisms and replicates."""
    dims = [str(dim) for dim in data[variable].dims if data.sizes[dim] > 1]
    others = (name for name in dims if name not in ("mechanism", "replicate"))
    return sorted(others, key=lambda name: -data.sizes[name])


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
    return bool(values[0] > 0 and values[-1] / values[0] >= _LARGEST_SPAN) or drawing.are_powers(
        values
    )


def line_names(entries: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """The name of every row's line: the hue, then everything else that varies."""
    several = [name for name in by[1:] if entries[name].nunique() > 1]
    return place_texts(entries, [*by[:1], *several])


def styles_of(labels: Iterable[str], *, by_mechanism: bool = True) -> dict[str, int]:
    """The style of every line; a mechanism has the same style in every figure, by its name.

    Further lines of a mechanism, and other lines, take the remaining styles in order.

    Raises
    ------
    SweepError
        If there are more than `MOST_LINES`.
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
    if len(styles) > MOST_LINES:
        raise SweepError(
            f"the figure would have {len(styles)} lines; expected at most {MOST_LINES}: choose "
            "cells with --where"
        )
    return styles


def _with_coordinate(data: xr.Dataset, name: str) -> xr.Dataset:
    """The dataset, with a variable made a coordinate of the one axis along which it varies."""
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


def _named(data: xr.Dataset, name: str) -> str:
    """The label of an axis: a variable with its units."""
    units = data[name].attrs.get("units", "1")
    shown = name.removesuffix("_s").replace("_", " ")
    return shown if units in ("1", "") else f"{shown} ({units})"


_Arrays = dict[str, tuple[str, NDArray[np.float64]]]
"""The id and the kept array of every cell in a figure, by the cell's label."""


def _of_arrays(data: xr.Dataset, figure: Figure, name: str, store: Location | None) -> _Drawn:
    """Draw an array that the store keeps, for those cells of the first replicate that have it."""
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
    found: _Arrays = {}
    for label, cell, solve in zip(labels, ok["cell"], ok["solve"], strict=True):
        if arrays.file(store, solve).is_file():
            kept = arrays.arrays(store, solve)
            if array in kept:
                found[label] = cell, kept[array].to_numpy().astype(np.float64)
    if not found:
        keep = array.partition("_")[0] if array.startswith("trace") else array
        rerun = command("rerun", store, "--where \"status == 'ok'\"")
        raise SweepError(
            f"figure {name!r}: the store keeps no array {keep!r} of these cells; write 'keep: "
            f"[{keep}]' in the experiment, and {rerun} keeps those of cells that are solved already"
        )
    titles = (one["title"] for one in STANDARD.values() if one["variable"] == array)
    title = figure.title or next(titles, array)
    return title, _OF_ARRAYS[array](found, store), []


def _variances(found: _Arrays, store: Location) -> list[Panel]:
    """The variance of every query against its target; those below the diagonal have slack."""
    cells = of_store(store).cells
    points = {
        label: list(np.unique(np.array([_targets(cells.of_id(cell)), variances]), axis=1))
        for label, (cell, variances) in found.items()
    }
    labels = {"xlabel": "target", "ylabel": "variance when the targets are just met"}
    _, lines = _curves(points, {**labels, "xscale": "log", "yscale": "log"}, dots=True)

    def draw(axes: "Axes") -> None:
        lines(axes)
        ends = axes.dataLim.intervalx
        axes.plot(ends, ends, color="0.5", linewidth=0.8, zorder=0)

    return [("", draw)]


def _targets(cell: Any) -> NDArray[np.float64]:
    """The targets of a cell's queries, rebuilt."""
    if workloads.families()[cell.workload.name].runs_code:
        raise SweepError(
            "figure 'variances' rebuilds the workload, but this one calls a function of the user's"
        )
    workload = workloads.make(cell.workload.name, **cell.workload.params)
    targets = workloads.targets.make(cell.targets.name, workload, **cell.targets.params)
    return np.asarray(targets, dtype=np.float64)


def _profile(found: _Arrays, store: Location, along: str = "domain cell") -> list[Panel]:
    """Heat maps with a row for every cell of the grid; arrays of one size share a panel."""
    by_size: dict[int, dict[str, NDArray[np.float64]]] = {}
    for label, (_, values) in found.items():
        by_size.setdefault(values.size, {})[label] = values / values.max()

    def draw(rows: Mapping[str, NDArray[np.float64]], axes: "Axes") -> None:
        drawing.field(axes, np.array(list(rows.values())), "share of the largest")
        axes.set(xlabel=along)
        drawing.label_ticks(axes, "y", list(rows))

    return [
        ("" if len(by_size) == 1 else f"{size} cells", partial(draw, rows))
        for size, rows in by_size.items()
    ]


def _covariance(found: _Arrays, store: Location) -> list[Panel]:
    def draw(values: NDArray[np.float64], axes: "Axes") -> None:
        shown = values[:: 1 + len(values) // _LARGEST, :: 1 + len(values) // _LARGEST]
        drawing.field(axes, shown, "covariance", signed=True)
        axes.set(xlabel="basis query", ylabel="basis query")

    return [(label, partial(draw, values)) for label, (_, values) in found.items()]


def _over_iterations(found: _Arrays, store: Location, what: str) -> list[Panel]:
    curves = {label: (np.arange(float(y.size)), y) for label, (_, y) in found.items()}
    scale = "log" if all((y > 0).all() for _, y in curves.values()) else "linear"
    return [_curves(curves, {"xlabel": "iteration", "ylabel": what, "yscale": scale})]


def _regions(found: _Arrays, store: Location) -> list[Panel]:
    """The polytope spanned by priors of one kind: its edges, in the first two coordinates."""
    corners: dict[str, list[NDArray[np.float64]]] = {}
    for label, (_, values) in found.items():
        kind = ", ".join(part for part in label.split(", ") if not part.startswith("prior = "))
        corners.setdefault(kind, []).append(values[:2])
    # there and back along each edge, so that one line has all of them
    edges = {
        label: list(np.transpose([p for a, b in combinations(priors, 2) for p in (a, b, a)]))
        for label, priors in corners.items()
    }
    labels = {"xlabel": "first probability", "ylabel": "second probability"}
    return [_curves(edges, labels, by_mechanism=False)]


_OF_ARRAYS: Mapping[str, Callable[[_Arrays, Location], list[Panel]]] = {
    "query_variances": _variances,
    "privacy_profile": _profile,
    "density": partial(_profile, along="noise: % of the box, from its lower end"),
    "covariance": _covariance,
    "trace_objective": partial(_over_iterations, what="objective"),
    "trace_gradient_norm": partial(_over_iterations, what="norm of the gradient"),
    "prior": _regions,
}
"""The functions that draw kept arrays, by the array's name."""
