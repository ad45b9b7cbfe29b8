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
from sweep.report.figures import array_pictures
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
    """What is asked of a figure besides its name, instead of what its `Figure` says."""

    variable: str | None = None
    x: str | None = None
    hue: str | None = None
    panels: str | None = None
    where: str | None = None
    group: str | None = None
    log: tuple[str, ...] | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The changes asked for, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


def names(experiment: Experiment) -> list[str]:
    """The names of the experiment's own figures, then those that every store has."""
    return [*declared(experiment), *GENERAL, *array_pictures.FIGURES]


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
    has = any("variance_ratio" in data for data in frames.groups(results).values())
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
    groups = frames.groups(results)
    figure = declared(experiment).get(name)
    if figure is None and (name in _USES or name in array_pictures.FIGURES):
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
            pictures += drawn
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
        return [of_figure(data, changed, stem)]
    if name in GENERAL:
        return [GENERAL[name](data, changes, stem)]
    if store is None:
        raise SweepError(
            f"figure {name!r} shows kept arrays: give the store's folder, as in "
            f"ds.sweep.plot.{name}(store='results/mine')"
        )
    return [array_pictures.picture(data, store, name, changes.where, stem)]


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
    lines = tuple(
        Line(label, tuple(_DELTAS), _curve(mean), _curve(low), _curve(high), style)
        for style, (label, (mean, low, high)) in enumerate(
            zip(labels_of(known, by), costs, strict=True)
        )
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
    """One variable on logarithmic axes, and what has to be said of it."""
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
_USES: Mapping[str, Sequence[str]] = {"privacy": ("hue",), "scaling": ("x", "hue")}
"""The changes that standard figures can make, where they cannot make all."""
