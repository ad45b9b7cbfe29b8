"""The figures that every store has by name, and those that its experiment declares."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from solvers import privacy
from sweep.errors import SweepError
from sweep.experiment.figures import Figure
from sweep.experiment.schema import Experiment
from sweep.report.figures import kept
from sweep.report.figures.pictures import (
    Axis,
    Line,
    Lines,
    Picture,
    check_size,
    labels_of,
    of_figure,
)
from sweep.report.numbers import frames, layout
from sweep.report.numbers.frames import Results
from sweep.store.location import Location
from workloads.parameters import nearest

_DELTAS = np.logspace(-15, -1, 57)
_LARGEST_SPAN = 8.0
"""An axis whose numbers span more than this factor is logarithmic unless one is asked for."""


@dataclass(frozen=True)
class Changes:
    """What is asked of a figure beside its name.

    Attributes
    ----------
    variable, x, hue, panels, where, group : str, optional
        As in `Figure`, instead of the figure's own.
    log : tuple of {"x", "y"}, optional
        The logarithmic axes, likewise.
    """

    variable: str | None = None
    x: str | None = None
    hue: str | None = None
    panels: str | None = None
    where: str | None = None
    group: str | None = None
    log: tuple[str, ...] | None = None

    @property
    def given(self) -> dict[str, Any]:
        """Those that are asked for, by name."""
        return {name: one for name, one in vars(self).items() if one is not None}


def names(experiment: Experiment) -> list[str]:
    """The names of the experiment's own figures, then those that every store has."""
    return [*declared(experiment), *GENERAL, *kept.FIGURES]


def declared(experiment: Experiment) -> dict[str, Figure]:
    """The experiment's own figures by name."""
    return {
        figure.name or f"figure-{at}": figure for at, figure in enumerate(experiment.figures, 1)
    }


def by_default(results: Results, experiment: Experiment) -> list[str]:
    """The figures to draw where none is named: the declared ones, or the one that fits."""
    own = list(declared(experiment))
    if own:
        return own
    has = any("variance_ratio" in data for data in frames.groups(results).values())
    return ["ratio"] if has else ["utility"]


def pictures(
    results: Results,
    experiment: Experiment,
    name: str,
    changes: Changes | None = None,
    store: Location | None = None,
) -> list[Picture]:
    """A figure of a store, one picture for every group that has it.

    Parameters
    ----------
    name : str
        One of `names`.
    changes : Changes, optional
        What is to be otherwise.

    Raises
    ------
    SweepError
        If there is no such figure, or no group can show it.
    """
    asked = changes or Changes()
    if name not in names(experiment):
        raise SweepError(f"there is no figure {name!r}; {nearest(name, names(experiment))}")
    groups = frames.groups(results)
    figure = declared(experiment).get(name)
    group = asked.group or (figure.group if figure else None)
    if group is not None and group not in groups:
        raise SweepError(f"there is no group {group!r}; {nearest(group, list(groups))}")
    chosen = groups if group is None else {group: groups[group]}
    made: list[Picture] = []
    troubles: list[SweepError] = []
    for label, data in chosen.items():
        stem = name if len(chosen) == 1 else f"{name}-{label}"
        try:
            made += _drawn(data, figure, name, stem, asked, store)
        except SweepError as error:
            troubles.append(error)
    if not made:
        raise troubles[0]
    if len(chosen) == 1:
        return made
    return [replace(one, title=_titled(one, chosen)) for one in made]


def _titled(picture: Picture, groups: Mapping[str, xr.Dataset]) -> str:
    group = next((one for one in groups if picture.name.endswith(f"-{one}")), "")
    return f"{group}: {picture.title}" if group else picture.title


def _drawn(
    data: xr.Dataset,
    figure: Figure | None,
    name: str,
    stem: str,
    asked: Changes,
    store: Location | None,
) -> list[Picture]:
    if figure is not None:
        changed = figure.model_copy(update=asked.given)
        return [of_figure(data, changed, stem)]
    if name in GENERAL:
        return [GENERAL[name](data, asked, stem)]
    if store is None:
        raise SweepError(
            f"figure {name!r} shows kept arrays: give the store's folder, as in "
            f"ds.sweep.plot.{name}(store='results/mine')"
        )
    return [kept.picture(data, store, name, asked.where, stem)]


def _over(variable: str, title: str, log: Sequence[str]) -> Callable[..., Picture]:
    """A figure of one variable over the axis that is asked for, or else its longest one."""

    def picture(data: xr.Dataset, asked: Changes, stem: str) -> Picture:
        shown = asked.variable or variable
        frames.check_variable(data, shown)
        x = asked.x or _longest(data, shown, {asked.panels, asked.hue})
        axes = [*(["x"] if _spans(data, x) else []), *log]
        given = {"variable": shown, "x": x, "title": title, "log": tuple(axes), **asked.given}
        if asked.hue is None and x == "mechanism":
            given["hue"] = next((n for n in _axes(data, shown) if n not in (x, asked.panels)), "")
        if asked.variable:
            given["title"] = ""
        return of_figure(data, Figure.model_construct(**given), stem)

    return picture


def _privacy(data: xr.Dataset, asked: Changes, stem: str) -> Picture:
    """The (ε, δ) curves on which every cell meets its targets; Gaussian mechanisms alone."""
    frames.check_variable(data, "privacy_cost")
    cells = frames.where(frames.long(data, "privacy_cost"), asked.where)
    by = layout.rows_of(data, cells, (asked.hue or "mechanism",))
    entries = layout.summarised(cells, "privacy_cost", by)
    known = entries[entries["mean"].notna()]
    if known.empty:
        raise SweepError(f"figure {stem!r}: no such cell has a privacy cost yet")
    costs = zip(known["mean"], known["minimum"], known["maximum"], strict=True)
    lines = tuple(
        Line(label, tuple(_DELTAS), _curve(mean), _curve(low), _curve(high), style)
        for style, (label, (mean, low, high)) in enumerate(
            zip(labels_of(known, by), costs, strict=True)
        )
    )
    panel = Lines("", lines, Axis("δ", log=True), Axis("ε"))
    check_size(stem, (panel,))
    left = len(entries) - len(known)
    note = f"{left} of {len(entries)} mechanisms have no Gaussian privacy curve." if left else ""
    title = "Privacy at which the targets are met"
    return Picture(stem, title, (panel,), (note,) if note else ())


def _curve(cost: float) -> tuple[float, ...]:
    found: list[float] = privacy.epsilon(float(cost), _DELTAS).tolist()
    return tuple(found)


def _scaling(data: xr.Dataset, asked: Changes, stem: str) -> Picture:
    """Run time and gap over the size, on logarithmic axes, with the fitted slopes of run times."""
    x = asked.x or ("d" if "d" in data.dims else _longest(data, "runtime_s"))
    if x not in data.dims or data[x].dtype.kind not in "iuf":
        numeric = [name for name in _axes(data, "runtime_s") if data[name].dtype.kind in "iuf"]
        raise SweepError(f"figure {stem!r} needs an axis of numbers; {nearest(x, numeric)}")
    times = _log_panel(data, asked, "runtime_s", x, stem)
    slopes = {line.label: _with_slope(line) for line in times.lines}
    drawn = [replace(times, title="run time", lines=tuple(slopes.values()))]
    if "gap" in data and np.nanmax(data["gap"].to_numpy(), initial=0.0) > 0:
        gaps = _log_panel(data, asked, "gap", x, stem)
        positive = [line for line in gaps.lines if max(line.y) > 0]
        named = (replace(line, label=slopes.get(line.label, line).label) for line in positive)
        drawn.append(replace(gaps, title="gap", lines=tuple(named)))
    return Picture(stem, f"Run time and gap over {x}", tuple(drawn))


def _log_panel(data: xr.Dataset, asked: Changes, variable: str, x: str, stem: str) -> Lines:
    given = {**asked.given, "variable": variable, "x": x, "log": ("x", "y"), "panels": None}
    (panel,) = of_figure(data, Figure.model_construct(**given), stem).panels
    if not isinstance(panel, Lines):
        raise TypeError(f"{stem}: lines were expected")
    return panel


def _with_slope(line: Line) -> Line:
    x, y = np.array(line.x), np.array(line.y)
    if x.size < 2 or np.any(x <= 0) or np.any(y <= 0):
        return line
    slope = np.polyfit(np.log(x), np.log(y), 1)[0]
    return replace(line, label=f"{line.label}: slope {slope:.1f}")


def _axes(data: xr.Dataset, variable: str) -> list[str]:
    """The axes of a variable that vary, longest first, but for mechanisms and replicates."""
    sizes = {str(dim): data.sizes[dim] for dim in data[variable].dims if data.sizes[dim] > 1}
    return sorted(sizes.keys() - {"mechanism", "replicate"}, key=lambda name: -sizes[name])


def _longest(data: xr.Dataset, variable: str, taken: Collection[str | None] = ()) -> str:
    """The longest axis of numbers, or else the longest one; mechanisms if there is no other."""
    found = [name for name in _axes(data, variable) if name not in taken]
    numeric = [name for name in found if data[name].dtype.kind in "iuf"]
    return next(iter([*numeric, *found]), "mechanism")


def _spans(data: xr.Dataset, name: str) -> bool:
    if name not in data.coords or data[name].dtype.kind not in "iuf":
        return False
    values = data[name].to_numpy()
    return bool(values.min() > 0 and values.max() / values.min() >= _LARGEST_SPAN)


GENERAL: Mapping[str, Callable[[xr.Dataset, Changes, str], Picture]] = {
    "ratio": _over("variance_ratio", "", ["y"]),
    "cost": _over("privacy_cost", "", []),
    "utility": _over("utility", "", []),
    "privacy": _privacy,
    "scaling": _scaling,
}
"""The figures of numbers: what draws each of a dataset."""
