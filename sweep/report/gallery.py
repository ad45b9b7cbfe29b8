"""The figures of a store by name: those that its experiment declares, and the standard ones."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

import workloads
from solvers import privacy
from sweep.dataset import reading
from sweep.dataset.pivots import label_text
from sweep.dataset.reading import Results
from sweep.errors import SweepError
from sweep.experiment.schema import Experiment, Figure
from sweep.plan.stored import of_store
from sweep.report import frames, layout
from sweep.report.pictures import (
    Axis,
    Field,
    Line,
    Lines,
    Picture,
    are_powers,
    check_size,
    labels_of,
    of_figure,
    styles_of,
)
from sweep.store import arrays
from sweep.store.places import Location
from workloads.parameters import nearest

_DELTAS = np.logspace(-15, -1, 57)
_LARGEST_SPAN = 8.0
"""An axis whose numbers span more than this factor is logarithmic unless one is asked for."""


@dataclass(frozen=True)
class Changes:
    """Options of a figure, which override its `Figure`."""

    variable: str | None = None
    x: str | None = None
    hue: str | None = None
    panels: str | None = None
    where: str | None = None
    group: str | None = None
    log: tuple[str, ...] | None = None
    title: str | None = None
    size: tuple[float, float] | None = None
    digits: int | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The changes of what is drawn, by name; `look` has the others."""
        look = self.look
        return {k: v for k, v in vars(self).items() if v is not None and k not in look}

    @property
    def look(self) -> dict[str, Any]:
        """The changes of how it is drawn, by name."""
        look = {"title": self.title, "size": self.size, "digits": self.digits}
        return {name: value for name, value in look.items() if value is not None}


def names(experiment: Experiment) -> list[str]:
    """The names of the experiment's own figures, then those that every store has."""
    return [*declared(experiment), *GENERAL, *FIGURES]


def declared(experiment: Experiment) -> dict[str, Figure]:
    """The experiment's own figures by name."""
    return {
        figure.name or f"figure-{at}": figure for at, figure in enumerate(experiment.figures, 1)
    }


def by_default(results: Results, experiment: Experiment) -> list[str]:
    """The figures to draw if none is named: the declared ones, or a fitting one."""
    own = list(declared(experiment))
    if own:
        return own
    has = any("variance_ratio" in data for data in reading.groups(results).values())
    return ["ratio"] if has else ["utility"]


def pictures(
    results: Results,
    experiment: Experiment,
    name: str,
    changes: Changes | None = None,
    store: Location | None = None,
) -> list[Picture]:
    """A figure of a store by its name, with changes: a picture for every group that has it.

    Raises
    ------
    SweepError
        If there is no such figure, or no group can show it.
    """
    wanted = changes or Changes()
    if name not in names(experiment):
        raise SweepError(f"there is no figure {name!r}; {nearest(name, names(experiment))}")
    groups = reading.groups(results)
    figure = declared(experiment).get(name)
    if figure is None and (name in _USES or name in FIGURES):
        unused = wanted.given.keys() - {"where", "group", *_USES.get(name, ())}
        if unused:
            raise SweepError(f"figure {name!r} takes no {', '.join(sorted(unused))}; leave it out")
    group = wanted.group or (figure.group if figure else None)
    if group is not None and group not in groups:
        raise SweepError(f"there is no group {group!r}; {nearest(group, list(groups))}")
    chosen = groups if group is None else {group: groups[group]}
    pictures: list[Picture] = []
    troubles: list[SweepError] = []
    for label, data in chosen.items():
        stem = name if len(chosen) == 1 else f"{name}-{label}"
        try:
            drawn = _drawn(data, figure, name, stem, wanted, store)
            if len(chosen) > 1:
                drawn = [replace(one, title=f"{label}: {one.title}") for one in drawn]
            pictures += [replace(one, **wanted.look) for one in drawn]
        except SweepError as error:
            troubles.append(error)
    if not pictures:
        raise troubles[0]
    return pictures


def _drawn(
    data: xr.Dataset,
    figure: Figure | None,
    name: str,
    stem: str,
    changes: Changes,
    store: Location | None,
) -> list[Picture]:
    if figure is not None:
        changed = figure.model_copy(update=changes.given)
        kept = {array: standard for standard, (array, *_) in FIGURES.items()}
        if changed.variable not in kept:
            return [of_figure(data, changed, stem)]
        if store is None:
            raise SweepError(f"figure {name!r} shows kept arrays: give the store's folder")
        drawn = picture(data, store, kept[changed.variable], changed.where, stem)
        return [replace(drawn, title=changed.title or drawn.title)]
    if name in GENERAL:
        return [GENERAL[name](data, changes, stem)]
    if store is None:
        raise SweepError(
            f"figure {name!r} shows kept arrays: give the store's folder, as in "
            f"ds.sweep.plot.{name}(store='results/mine')"
        )
    return [picture(data, store, name, changes.where, stem)]


def _over(variable: str, title: str, log: Sequence[str]) -> Callable[..., Picture]:
    """A figure of one variable over the requested axis, or its longest one."""

    def picture(data: xr.Dataset, changes: Changes, stem: str) -> Picture:
        shown = changes.variable or variable
        frames.check_variable(data, shown)
        x = changes.x or _longest(data, shown, {changes.panels, changes.hue})
        axes = [*(["x"] if _spans(data, x) else []), *log]
        given = {"variable": shown, "x": x, "title": title, "log": tuple(axes), **changes.given}
        if changes.hue is None and x == "mechanism":
            given["hue"] = next((n for n in _axes(data, shown) if n not in (x, changes.panels)), "")
        if changes.variable:
            given["title"] = ""
        return of_figure(data, Figure.model_construct(**given), stem)

    return picture


def _privacy(data: xr.Dataset, changes: Changes, stem: str) -> Picture:
    """The (ε, δ) curves on which every cell meets its targets; Gaussian mechanisms alone."""
    frames.check_variable(data, "privacy_cost")
    cells = frames.where(frames.long(data, "privacy_cost"), changes.where)
    by = layout.rows_of(data, cells, (changes.hue or "mechanism",))
    entries = layout.summarised(cells, "privacy_cost", by)
    known = entries[entries["mean"].notna()]
    if known.empty:
        raise SweepError(f"figure {stem!r}: no such cell has a privacy cost yet")
    costs = zip(known["mean"], known["minimum"], known["maximum"], strict=True)
    labels = labels_of(known, by)
    styles = styles_of(labels, by_mechanism=by[0] == "mechanism")
    lines = tuple(
        Line(label, tuple(_DELTAS), _curve(mean), _curve(low), _curve(high), styles[label])
        for label, (mean, low, high) in zip(labels, costs, strict=True)
    )
    panel = Lines("", lines, Axis("δ", log=True), Axis("ε"))
    check_size(stem, (panel,))
    left = entries[entries["mean"].isna()]
    why = left["state"].str.replace("_", " ").where(left["ok"] == 0, "not Gaussian")
    named = ", ".join(
        f"{label}: {text}" for label, text in zip(labels_of(left, by), why, strict=True)
    )
    note = f"{len(left)} of {len(entries)} mechanisms have no privacy curve ({named})."
    notes = [note] if len(left) else []
    if (known["cells"] > 1).any():
        notes.append("Of the mean privacy cost over the replicates, from the least to the largest.")
    return Picture(stem, "Privacy at which the targets are met", (panel,), tuple(notes))


def _curve(cost: float) -> tuple[float, ...]:
    epsilons: list[float] = privacy.epsilon(float(cost), _DELTAS).tolist()
    return tuple(epsilons)


def _scaling(data: xr.Dataset, changes: Changes, stem: str) -> Picture:
    """Run time and gap over the size, on logarithmic axes, with the fitted slopes of run times."""
    x = changes.x or ("d" if "d" in data.dims else _longest(data, "runtime_s"))
    if x not in data.dims or data[x].dtype.kind not in "iuf":
        numeric = [name for name in _axes(data, "runtime_s") if data[name].dtype.kind in "iuf"]
        raise SweepError(f"figure {stem!r} needs an axis of numbers; {nearest(x, numeric)}")
    times, notes = _log_panel(data, changes, "runtime_s", x, stem)
    slopes = {line.label: _with_slope(line) for line in times.lines}
    drawn = [replace(times, title="run time", lines=tuple(slopes.values()))]
    if "gap" in data and np.nanmax(data["gap"].to_numpy(), initial=0.0) > 0:
        gaps, more = _log_panel(data, changes, "gap", x, stem)
        notes = (*notes, *(f"Gap: {note}" for note in more if note not in notes))
        positive = [line for line in gaps.lines if max(line.y) > 0]
        named = (replace(line, label=slopes.get(line.label, line).label) for line in positive)
        drawn.append(replace(gaps, title="gap", lines=tuple(named)))
    return Picture(stem, f"Run time and gap over {x}", tuple(drawn), notes)


def _log_panel(
    data: xr.Dataset, changes: Changes, variable: str, x: str, stem: str
) -> tuple[Lines, tuple[str, ...]]:
    """One variable on logarithmic axes, and the notes on it."""
    given = {**changes.given, "variable": variable, "x": x, "log": ("x", "y"), "panels": None}
    picture = of_figure(data, Figure.model_construct(**given), stem)
    (panel,) = picture.panels
    assert isinstance(panel, Lines)
    return panel, picture.notes


def _with_slope(line: Line) -> Line:
    x, y = np.array(line.x), np.array(line.y)
    if x.size < 2 or np.any(x <= 0) or np.any(y <= 0):
        return line
    slope = np.polyfit(np.log(x), np.log(y), 1)[0]
    return replace(line, label=f"{line.label}: slope {slope:.1f}")


def _axes(data: xr.Dataset, variable: str) -> list[str]:
    """The axes along which a variable varies, longest first, except mechanisms and replicates."""
    sizes = {str(dim): data.sizes[dim] for dim in data[variable].dims if data.sizes[dim] > 1}
    return sorted(sizes.keys() - {"mechanism", "replicate"}, key=lambda name: -sizes[name])


def _longest(data: xr.Dataset, variable: str, taken: Collection[str | None] = ()) -> str:
    """The longest numeric axis, or the longest of any kind; mechanisms if there is no other."""
    axes = [name for name in _axes(data, variable) if name not in taken]
    numeric = [name for name in axes if data[name].dtype.kind in "iuf"]
    return next(iter([*numeric, *axes]), "mechanism")


def _spans(data: xr.Dataset, name: str) -> bool:
    if name not in data.coords or data[name].dtype.kind not in "iuf":
        return False
    values = np.unique(data[name].to_numpy())
    return bool(values[0] > 0 and values[-1] / values[0] >= _LARGEST_SPAN) or are_powers(
        values.tolist()
    )


GENERAL: Mapping[str, Callable[[xr.Dataset, Changes, str], Picture]] = {
    "ratio": _over("variance_ratio", "", ["y"]),
    "cost": _over("privacy_cost", "", []),
    "utility": _over("utility", "", []),
    "privacy": _privacy,
    "scaling": _scaling,
}
"""The functions that draw the figures of numbers, by name."""
_USES: Mapping[str, Sequence[str]] = {"privacy": ("hue",), "scaling": ("x", "hue")}
"""The options that these figures accept; the other figures of numbers accept all."""


_LARGEST = 512
"""Most rows of a heat map; of a larger matrix only every n-th row is drawn."""


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
    lines, styles = [], styles_of(label for label, _, _ in arrays)
    for label, cell, values in arrays:
        targets = _targets(cells.of_id(cell))
        pairs = pd.DataFrame({"x": targets, "y": values}).drop_duplicates()
        points = tuple(pairs["y"].tolist())
        lines.append(
            Line(label, tuple(pairs["x"].tolist()), points, points, points, styles[label], True)
        )
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
    return _over_iterations(arrays, "objective")


def _gradient(arrays: list[Any], store: Location) -> tuple[Lines, ...]:
    """The norm of each mechanism's gradient over its iterations."""
    return _over_iterations(arrays, "norm of the gradient")


def _over_iterations(arrays: list[Any], what: str) -> tuple[Lines, ...]:
    lines, styles = [], styles_of(label for label, _, _ in arrays)
    for label, _, values in arrays:
        y = tuple(values.tolist())
        lines.append(Line(label, tuple(map(float, range(len(y)))), y, y, y, styles[label]))
    positive = all(value > 0 for line in lines for value in line.y)
    return (Lines("", tuple(lines), Axis("iteration"), Axis(what, log=positive)),)


def _regions(arrays: list[Any], store: Location) -> tuple[Lines, ...]:
    """The polytope that the priors of a kind span, by its edges, in its first two coordinates."""
    corners: dict[str, list[NDArray[np.float64]]] = {}
    for label, _, values in arrays:
        kind = ", ".join(part for part in label.split(", ") if not part.startswith("prior = "))
        corners.setdefault(kind, []).append(values)
    lines = []
    for style, (label, priors) in enumerate(corners.items()):
        # there and back along each edge, so that one line has all of them
        path = [point for a, b in combinations(priors, 2) for point in (a, b, a)]
        x, y = (tuple(float(point[axis]) for point in path) for axis in (0, 1))
        lines.append(Line(label, x, y, y, y, style))
    return (Lines("", tuple(lines), Axis("first probability"), Axis("second probability")),)


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
    "gradient": ("trace_gradient_norm", "trace", "Norm of the gradient", _gradient),
    "regions": ("prior", "prior", "Regions that the priors span", _regions),
}
"""The figures of kept arrays by name: the array, what ``keep`` calls it, title and panels."""
