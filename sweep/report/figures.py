"""Draws the figures of a store: those that its experiment declares, and the standard ones."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

import workloads
from solvers import privacy
from sweep.dataset import frames, reading
from sweep.dataset.pivots import label_text, labels_of, row_labels
from sweep.dataset.reading import Results
from sweep.errors import SweepError, command
from sweep.experiment.canonical import Scalar
from sweep.experiment.schema import SIZES, Experiment, Figure
from sweep.grid.cells import Cell
from sweep.report import drawing, tables
from sweep.report.drawing import PRINTED, Line, Numbers, Panel, Picture
from sweep.state.stored import load_stored
from sweep.store import arrays
from sweep.store.paths import Location
from workloads.parameters import nearest

_DELTAS = np.logspace(-15, -1, 57)
"""The δ of privacy curves: four in a decade, so that the curves look smooth."""
_LARGEST_SPAN = 4.0
"""By default, an axis is logarithmic if its largest label is at least this times its smallest: the
papers' sizes double from point to point, and three such sizes crowd on a linear axis."""


def _make_standard(variable: str, title: str = "", *log: Literal["x", "y"]) -> Figure:
    return Figure(variable=variable, x="", title=title, log=log)


STANDARD: Mapping[str, Figure] = {
    "ratio": _make_standard("variance_ratio", "", "y"),
    "cost": _make_standard("privacy_cost"),
    "utility": _make_standard("utility"),
    "privacy": _make_standard("privacy_cost", "Privacy at which the targets are met"),
    "scaling": _make_standard("runtime_s", "Run time", "x", "y"),
    "variances": _make_standard("query_variances", "Query variances against their targets"),
    "profile": _make_standard(
        "privacy_profile", "Personal privacy cost of every domain cell, as a share of the largest"
    ),
    "covariance": _make_standard("covariance", "Covariance of the noise"),
    "convergence": _make_standard("trace_objective", "Convergence of the solves"),
    "gradient": _make_standard("trace_gradient_norm", "Norm of the gradient"),
    "regions": _make_standard("prior", "Regions that the priors span"),
}
"""Figures that need no declaration in an experiment, by name; `_choose_axes` chooses their axes."""


_Drawn = tuple[str, list[Panel], list[str]]
"""The content of a figure: its title, panels and notes."""


@dataclass(frozen=True, eq=False)
class _Source:
    """The data for a group's figures; only figures of stored arrays need ``store``."""

    data: xr.Dataset
    group: str
    experiment: Experiment
    store: Location | None


class _Wanted(Figure):
    """A figure as it is drawn: with its size in inches and the significant digits of its axes."""

    size: tuple[float, float] | None = None
    digits: int = 6


def list_names(experiment: Experiment) -> list[str]:
    """Return the names of the figures that the experiment declares, then those of `STANDARD`."""
    return [*declared(experiment), *STANDARD]


def declared(experiment: Experiment) -> dict[str, Figure]:
    """Return the figures that the experiment declares, by name."""
    return {
        figure.name or f"figure-{number}": figure
        for number, figure in enumerate(experiment.figures, 1)
    }


def choose_default(results: Results, experiment: Experiment) -> list[str]:
    """Return the names of the figures to draw if the user does not name one.

    These are all figures that the experiment declares or, if it declares none, a standard figure.
    """
    has = any("variance_ratio" in data for data in reading.split_groups(results).values())
    return list(declared(experiment)) or ["ratio" if has else "utility"]


def draw(
    results: Results,
    experiment: Experiment,
    name: str,
    changes: Mapping[str, object] | None = None,
    store: Location | None = None,
) -> list[Picture]:
    """Draw a figure of a store: one picture for each group that can show it.

    Parameters
    ----------
    changes : Mapping[str, object], optional
        New values for keys of the `Figure`, and for ``size`` and ``digits``; None leaves a key
        unchanged.
    store : Path or ObjectPath, optional
        The store's folder, needed for figures of stored arrays.

    Raises
    ------
    SweepError
        If there is no such figure, or no group can show it.
    """
    all_figures = {**STANDARD, **declared(experiment)}
    if name not in all_figures:
        raise SweepError(f"there is no figure {name!r}; {nearest(name, list_names(experiment))}")
    written = all_figures[name]
    given = {key: value for key, value in (changes or {}).items() if value is not None}
    wanted = _Wanted.model_construct().model_copy(update={**dict(written), **given})
    make, uses = _draw_variable, ["variable", "x", "hue", "panels", "log"]
    if wanted.variable in _OF_ARRAYS:
        make, uses = _draw_arrays, []
    elif written is STANDARD["privacy"]:
        make, uses = _draw_privacy, ["hue"]
    elif written is STANDARD["scaling"]:
        make, uses = _draw_scaling, ["x", "hue"]
    if unused := given.keys() - {"where", "group", "title", "size", "digits", *uses}:
        raise SweepError(f"figure {name!r} has no option {', '.join(sorted(unused))}; leave it out")
    groups = reading.split_groups(results, wanted.group)
    drawn, troubles = list[Picture](), list[SweepError]()
    for label, data in groups.items():
        stem, prefix = (name, "") if len(groups) == 1 else (f"{name}-{label}", f"{label}: ")
        try:
            guessed = "x" in uses and not written.x
            figure = _choose_axes(data, wanted).model_copy(update=given) if guessed else wanted
            meant, panels, notes = make(_Source(data, label, experiment, store), figure)
            picture = drawing.draw(
                stem,
                panels,
                title=wanted.title if "title" in given else prefix + meant,
                notes=notes,
                facts=frames.list_facts(results),
                size=wanted.size,
                digits=wanted.digits,
                series=_list_series(data, figure.hue),
            )
            drawn.append(picture)
        except SweepError as error:
            troubles.append(error)
    if not drawn:
        raise SweepError(f"figure {name!r}: {troubles[0]}")
    return drawn


def _list_series(data: xr.Dataset, axis: str) -> list[str]:
    """Return the series that figures of a group have if their lines differ by the labels of axis.

    With all of them, a series has the same style in every figure, whatever cells are chosen.
    """
    labels = labels_of(data, axis) if axis in data.coords else []
    return row_labels(pd.DataFrame({axis: labels}), [axis])


def _choose_axes(data: xr.Dataset, figure: Figure) -> Figure:
    """Return a standard figure with default axes: the longest numeric axis is horizontal.

    That axis is logarithmic if its labels are positive and differ by a factor of at least
    `_LARGEST_SPAN`.
    """
    frames.check_variable(data, figure.variable)
    taken = {"mechanism", "replicate", figure.panels, figure.hue}
    dims = map(str, data[figure.variable].dims)
    longest = max(
        (dim for dim in dims if data.sizes[dim] > 1 and dim not in taken),
        key=lambda name: (data[name].dtype.kind in "iuf", data.sizes[name]),
        default="mechanism",
    )
    x, log = figure.x or longest, figure.log
    values = np.unique(data[x].to_numpy()) if x in data.coords else np.zeros(1)
    if values.dtype.kind in "iuf" and 0 < values[0] <= values[-1] / _LARGEST_SPAN:
        log = ("x", *log)
    hue = "" if x == "mechanism" else figure.hue
    return figure.model_copy(update={"x": x, "log": log, "hue": hue})


def _draw_variable(source: _Source, figure: Figure) -> _Drawn:
    """Draw a variable against a coordinate, or against the size of the problems.

    The names of lines include the labels of all further coordinates that vary. A single panel also
    shows the published numbers, as points in the colours of the lines.
    """
    data = source.data
    data = _add_coordinate(data, figure.x) if figure.x in SIZES else data
    cells = frames.where(frames.long(data, figure.variable), figure.where)
    axes = tuple(axis for axis in (figure.panels, figure.hue) if axis)
    rows = tables.choose_rows(data, cells, axes, figure.x)
    along = [str(dim) for dim in data[figure.x].dims if dim in cells and dim not in axes]
    by = [axis for axis in rows if axis not in along]
    points = dict.fromkeys([*by, figure.x, *along])
    entries = tables.summarise(cells, figure.variable, list(points))
    has = entries["mean"].notna()
    if not has.any():
        raise SweepError(f"no cell has a number for {figure.variable!r}")
    over, ticks = entries[figure.x], list[str]()
    if over.dtype.kind not in "iuf":
        over = over.map(label_text)
        ticks = list(dict.fromkeys(over[has]))
        over = over.map({text: place for place, text in enumerate(ticks)})
    rest = [axis for axis in by if axis != figure.panels]
    entries = entries.assign(over=over, **_name_lines(entries, rest))
    log = {axis for axis in figure.log if axis == "y" or not ticks}
    options = {"xlabel": _label_axis(data, figure.x), "ylabel": _label_axis(data, figure.variable)}
    options |= {f"{axis}scale": "log" for axis in log}
    panels = []
    for label, part in entries.groupby(figure.panels or (lambda _: ""), sort=False):
        lines = []
        for (series, variant), whole in part.groupby(["series", "variant"], sort=False):
            solved = whole[whole["mean"].notna()].sort_values("over", kind="stable")
            if solved.empty or ("y" in log and solved["mean"].max() <= 0):
                continue
            x, y, *ends = (solved[n].to_numpy() for n in ("over", "mean", "minimum", "maximum"))
            named = {"series": str(series), "variant": str(variant)}
            lines.append(Line(x=x, y=y, ends=ends, dots=bool(ticks), **named))
        title = f"{figure.panels} = {label_text(label)}" if figure.panels else ""
        if part["mean"].notna().any():
            panels.append(Panel(title, lines, options, ticks))
    if len(panels) == 1 and not ticks:
        panels[0].lines.extend(
            _find_published(source, figure, [line.label for line in panels[0].lines])
        )
    meant = tables.describe(data, figure.variable)
    title = figure.title or f"{meant[:1].upper()}{meant[1:]}"
    return title, panels, _write_notes(entries, figure.x, log)


def _find_published(source: _Source, figure: Figure, labels: Sequence[str]) -> Iterator[Line]:
    """Yield the numbers of papers and closed forms for the lines with these labels, as points."""
    printed: dict[str, dict[Scalar, float]] = {}
    for table in (*source.experiment.published, *source.experiment.closed_form):
        concerns = table.variable == figure.variable and table.group in (None, source.group)
        if concerns and not table.reading and figure.x in table.axes:
            for place, number in table.points():
                series = label_text(place.get(figure.hue, ""))
                printed.setdefault(series, {})[place[figure.x]] = number
    for label in labels:
        if numbers := printed.get(label):
            x, y = list(map(float, numbers)), list(numbers.values())
            yield Line(label, x, y, dots=True, variant=PRINTED)


def _write_notes(entries: pd.DataFrame, x: str, log: Collection[str]) -> list[str]:
    """Return sentences on missing points, on hidden points, and on means over replicates."""
    solved, missing = (entries[entries["mean"].notna() == has] for has in (True, False))
    notes = []
    if len(missing):
        states = missing["state"].replace("ok", tables.NONE).str.replace("_", " ")
        labels = map(drawing.line_label, missing["series"], missing["variant"])
        by_reason = pd.Series(labels, missing.index) + " " + states
        reasons = "; ".join(
            f"{why} at {', '.join(dict.fromkeys(map(label_text, rows[x])))}".strip()
            for why, rows in missing.groupby(by_reason, sort=False)
        )
        have = "has" if len(missing) == 1 else "have"
        notes.append(f"{len(missing)} of {len(entries)} points {have} no number: {reasons}.")
    logarithmic = [{"x": "over", "y": "mean"}[axis] for axis in log]
    if hidden := int((solved[logarithmic] <= 0).any(axis=1).sum()):
        shown = "is" if hidden == 1 else "are"
        notes.append(
            f"{hidden} of {len(solved)} points {shown} at 0 or below, where a logarithmic axis "
            "does not reach."
        )
    if fewer := int((solved["numbers"] < solved["cells"]).sum()):
        notes.append(
            f"{fewer} of {len(solved)} points are means of those replicates that have a number."
        )
    if (solved["cells"] > 1).any():
        notes.append("Means over the replicates; the bars reach from the smallest to the largest.")
    return notes


def _draw_privacy(source: _Source, figure: Figure) -> _Drawn:
    """Draw, against δ, the least ε at which each Gaussian mechanism meets the targets."""
    cells = frames.where(frames.long(source.data, figure.variable), figure.where)
    by = tables.choose_rows(source.data, cells, (figure.hue,))
    entries = tables.summarise(cells, figure.variable, by)
    entries = entries.assign(**_name_lines(entries, by), δ="any δ")
    solved = entries[entries["mean"].notna()]
    if solved.empty:
        raise SweepError(
            "none of these cells has a privacy cost yet; 'sweep run' solves those that are pending"
        )
    costs = solved[["mean", "minimum", "maximum"]].to_numpy().tolist()
    curves = [[privacy.epsilon(cost, _DELTAS) for cost in row] for row in costs]
    lines = [
        Line(series, _DELTAS, y, ends, variant=variant)
        for series, variant, (y, *ends) in zip(
            solved["series"], solved["variant"], curves, strict=True
        )
    ]
    options = {"xlabel": "δ", "xscale": "log", "ylabel": "ε"}
    return figure.title, [Panel("", lines, options)], _write_notes(entries, "δ", ())


def _draw_scaling(source: _Source, figure: Figure) -> _Drawn:
    """Draw run time and gap against an axis; a note has the fitted slopes of the run times."""
    title, panels, notes = _draw_variable(source, figure)
    slopes = [
        f"{line.label} {np.polyfit(np.log(line.x), np.log(line.y), 1)[0]:.1f}"
        for line in panels[0].lines
        if not panels[0].ticks and len(line.x) > 1 and min(*line.x, *line.y) > 0
    ]
    notes += [f"Slopes of run times: {'; '.join(slopes)}."] if slopes else []
    if "gap" in source.data and np.nanmax(source.data["gap"].to_numpy(), initial=0.0) > 0:
        _, gap, more = _draw_variable(source, figure.model_copy(update={"variable": "gap"}))
        panels, title = [*panels, *gap], f"{title} and gap against {figure.x}"
        notes += [f"Gap: {note}" for note in more if note not in notes]
    return title, panels, notes


def _name_lines(points: pd.DataFrame, by: Sequence[str]) -> dict[str, list[str]]:
    """Return, for every point, the ``series`` and the ``variant`` of the line that it lies on.

    The series is its label on the first axis in ``by``, the variant its labels on the other axes
    that vary.
    """
    several = [name for name in by[1:] if points[name].nunique() > 1]
    return {"series": row_labels(points, by[:1]), "variant": row_labels(points, several)}


def _add_coordinate(data: xr.Dataset, name: str) -> xr.Dataset:
    """Return the dataset, with a variable turned into a coordinate of the axis on which it varies.

    Raises SweepError if the variable varies along several axes.
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


def _label_axis(data: xr.Dataset, name: str) -> str:
    """Return the label of an axis: the variable's name and its units."""
    units = data[name].attrs.get("units", "1")
    shown = name.removesuffix("_s").replace("_", " ")
    return shown if units in ("1", "") else f"{shown} ({units})"


def _draw_arrays(source: _Source, figure: Figure) -> _Drawn:
    """Draw the stored arrays named ``figure.variable`` of the cells of the first replicate."""
    data, store, array = source.data, source.store, figure.variable
    if store is None:
        raise SweepError(
            "it shows arrays that only the store has; give the store's folder, as in "
            "ds.sweep.plot('profile', store='results/mine')"
        )
    cells = frames.where(frames.long(data[frames.list_cellwise(data)]), figure.where)
    ok = cells[cells["status"] == "ok"]
    if "replicate" in ok:
        ok = ok[ok["replicate"] == ok["replicate"].min()]
    axes = (str(dim) for dim in data["status"].dims if dim not in ("mechanism", "replicate"))
    named = _name_lines(ok, ["mechanism", *axes]).values()
    stored = dict[str, Line]()
    for series, variant, cell, solve in zip(*named, ok["cell"], ok["solve"], strict=True):
        if arrays.locate_file(store, solve).is_file():
            kept = arrays.arrays(store, solve)
            if array in kept:
                values = kept[array].to_numpy().astype(np.float64)
                stored[cell] = Line(series, np.arange(float(len(values))), values, variant=variant)
    if not stored:
        keep = array.partition("_")[0] if array.startswith("trace") else array
        rerun = command("rerun", store, "--where \"status == 'ok'\"")
        raise SweepError(
            f"the store keeps no array {keep!r} of these cells; write 'keep: [{keep}]' in the "
            f"experiment and, for cells that are solved already, run {rerun}"
        )
    return figure.title or array, _OF_ARRAYS[array](stored, store), []


def _draw_variances(stored: Mapping[str, Line], store: Location) -> list[Panel]:
    """Plot the variance of every query against its target; points below the diagonal have slack."""
    cells, lines = load_stored(store).cells, list[Line]()
    for cell, line in stored.items():
        x, y = np.unique(np.array([_make_targets(cells.of_id(cell)), line.y]), axis=1)
        lines.append(replace(line, x=x, y=y, dots=True))
    targets = np.concatenate([line.x for line in lines])
    ends = [targets.min(), targets.max()]
    lines.append(Line("variance = target", ends, ends))
    labels = {"xlabel": "target", "ylabel": "variance when the targets are just met"}
    return [Panel("", lines, {**labels, "xscale": "log", "yscale": "log"})]


def _make_targets(cell: Cell) -> NDArray[np.float64]:
    """Return the targets of a cell's queries, computed again from the cell's parameters."""
    if workloads.families()[cell.workload.name].runs_code:
        raise SweepError(
            "it shows targets, but a function of yours makes the workload, and figures do not call "
            "users' functions; choose cells of other workloads with --where"
        )
    workload = workloads.make(cell.workload.name, **cell.workload.params)
    targets = workloads.targets.make(cell.targets.name, workload, **cell.targets.params)
    return np.asarray(targets, dtype=np.float64)


def _draw_profile(stored: Mapping[str, Line], store: Location) -> list[Panel]:
    """Draw a heat map with a row for every cell of the grid; shorter rows end earlier."""
    rows = [pd.Series(np.divide(line.y, np.max(line.y))) for line in stored.values()]
    names = [line.label for line in stored.values()]
    return [Panel("", [], {"xlabel": "domain cell"}, names, pd.DataFrame(rows).to_numpy())]


def _draw_covariances(stored: Mapping[str, Line], store: Location) -> list[Panel]:
    labels = {"xlabel": "basis query", "ylabel": "basis query"}
    return [Panel(line.label, [], labels, image=np.asarray(line.y)) for line in stored.values()]


def _draw_in_order(stored: Mapping[str, Line], store: Location, x: str, y: str) -> list[Panel]:
    """Draw the numbers of each array in their order; ``x`` and ``y`` are the labels of the axes."""
    scale = "log" if all(np.min(line.y) > 0 for line in stored.values()) else "linear"
    return [Panel("", list(stored.values()), {"xlabel": x, "ylabel": y, "yscale": scale})]


def _draw_regions(stored: Mapping[str, Line], store: Location) -> list[Panel]:
    """Draw the edges of the polytopes that priors span, projected to the first two probabilities.

    Priors whose labels differ only in ``prior`` span one polytope.
    """
    corners: dict[tuple[str, str], list[Numbers]] = {}
    for line in stored.values():
        parts = (part for part in line.variant.split(", ") if not part.startswith("prior = "))
        corners.setdefault((line.series, ", ".join(parts)), []).append(line.y[:2])
    lines = []
    for (series, variant), priors in corners.items():
        # back and forth along each edge, so that a single line draws all edges
        x, y = np.transpose([p for a, b in combinations(priors, 2) for p in (a, b, a)])
        lines.append(Line(series, x, y, variant=variant))
    return [Panel("", lines, {"xlabel": "first probability", "ylabel": "second probability"})]


_OF_ARRAYS: Mapping[str, Callable[[Mapping[str, Line], Location], list[Panel]]] = {
    "query_variances": _draw_variances,
    "privacy_profile": _draw_profile,
    "covariance": _draw_covariances,
    "density": partial(_draw_in_order, x="noise: % of the box, from its lower end", y="density"),
    "trace_objective": partial(_draw_in_order, x="iteration", y="objective"),
    "trace_gradient_norm": partial(_draw_in_order, x="iteration", y="norm of the gradient"),
    "prior": _draw_regions,
}
"""The functions that draw arrays, by the array's name; they are given lines by the cell's id."""
