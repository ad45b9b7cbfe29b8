"""Pictures drawn by matplotlib."""

import io
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep.dataset.pivots import label_text
from sweep.errors import SweepError, first_line
from sweep.report import output
from sweep.report.pictures import Axis, Field, Lines, Picture, are_powers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMS = ("png", "svg", "pdf")
_COLOURS = (
    "#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C00",
)  # fmt: skip
"""Okabe and Ito's, which the colour-blind can tell apart; their yellow is too pale for lines."""
_MARKERS = "os^DvP*X<>"
_DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1, 1.4)),
    (0, (6, 2, 1, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
)
_SETTINGS = {
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.labelsize": 9.0,
    "legend.fontsize": 8.0,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "svg.hashsalt": "sweep",
    "pdf.fonttype": 42,
}
_MANY_POINTS = 30
_LONG_TICKS = 24
"""Tick labels with more characters in total are rotated, so that they do not overlap."""
_FEW_VALUES = 9
"""A logarithmic axis of at most this many values has ticks at these, as has an axis of powers and
a linear axis of two values.
"""
_ROOM = 0.06
"""The part of a linear axis that a tick's label takes."""
_SAME_UNIT = 1e-12
_ONE_DECADE = 30
"""A logarithmic axis over a smaller factor also has ticks between the powers of ten."""


def check_installed() -> None:
    """Refuse to draw without a matplotlib that starts, with SweepError."""
    try:
        import_module("matplotlib")
    except ImportError:
        raise SweepError(
            "figures need matplotlib, which is not installed; install it with: "
            "python -m pip install 'fitness-sweep[plot]'"
        ) from None
    except ValueError as error:
        raise SweepError(
            f"figures need matplotlib, which does not start: {first_line(error)}; "
            "correct or unset MPLBACKEND"
        ) from None


def figure(picture: Picture) -> "Figure":
    """The picture as a figure of matplotlib, without any state of pyplot.

    Raises
    ------
    SweepError
        If matplotlib is not installed.
    """
    check_installed()
    with _settings():
        return _figure(picture)


def save(picture: Picture, path: Path, facts: Mapping[str, str]) -> None:
    """Draw a picture into a PNG, SVG or PDF file, by the suffix; facts go into its metadata.

    Raises
    ------
    SweepError
        If the ending is another, or the file cannot be written.
    """
    form = path.suffix.removeprefix(".").lower()
    if form not in FORMS:
        raise SweepError(f"cannot draw {str(path)!r}: expected a file *.{', *.'.join(FORMS)}")
    output.write(path, written(picture, form, facts))


def files(pictures: Sequence[Picture], place: Path) -> list[tuple[Picture, Path]]:
    """The file of every picture: the one named, or a PDF in the folder named.

    Raises
    ------
    SweepError
        If one file is named for several pictures.
    """
    if not place.suffix or place.is_dir():
        return [(picture, place / f"{picture.name}.pdf") for picture in pictures]
    if len(pictures) > 1:
        names = ", ".join(picture.name for picture in pictures)
        raise SweepError(
            f"one file, {str(place)!r}, for {len(pictures)} figures ({names}); give a folder, or "
            "choose one by its name or --group"
        )
    return [(pictures[0], place)]


def written(picture: Picture, form: str, facts: Mapping[str, str]) -> bytes:
    """The bytes of a file in that format, the same for the same picture."""
    check_installed()
    stream = io.BytesIO()
    with _settings():
        _figure(picture).savefig(
            stream, format=form, dpi=200, metadata=_metadata(picture, form, facts)
        )
    return stream.getvalue()


def inline(picture: Picture, prefix: str) -> str:
    """The picture as SVG within a page, with its letters as text.

    The prefix comes before all of its ids, which a page may have once only.
    """
    check_installed()
    stream = io.StringIO()
    with _settings(**{"svg.fonttype": "none"}):
        _figure(picture).savefig(stream, format="svg", metadata={"Date": None})
    drawn = stream.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    return re.sub(r'(<[^<>]*?(?:\bid="|href="#|url\(#))', rf"\g<1>{prefix}-", drawn)


def _metadata(picture: Picture, form: str, facts: Mapping[str, str]) -> dict[str, Any]:
    text = "; ".join(f"{name}: {text}" for name, text in facts.items() if text)
    of_form: dict[str, dict[str, Any]] = {
        "png": {"Description": text, "Software": "fitness-sweep"},
        "pdf": {"Subject": text, "CreationDate": None},
        "svg": {"Description": text, "Date": None},
    }
    return {"Title": picture.title, **of_form[form]}


def _settings(**more: str) -> AbstractContextManager[None]:
    from matplotlib import style

    return style.context(["default", {**_SETTINGS, **more}])


def _figure(picture: Picture) -> "Figure":
    from matplotlib.figure import Figure

    count = len(picture.panels)
    columns = min(count, 2 if count in (2, 4) else 3)
    rows = math.ceil(count / columns)
    width = 6.4 if columns == 1 else 3.6 * columns
    width, height = picture.size or (width, 0.5 + (3.6 if columns == 1 else 3.0) * rows)
    figure = Figure(figsize=(width, height), layout="constrained")
    panels: tuple[Lines | Field, ...] = picture.panels
    same = len({panel.y for panel in panels if isinstance(panel, Lines)}) == 1
    axes = figure.subplots(rows, columns, squeeze=False, sharey=same)
    for panel, place in zip(panels, axes.flat, strict=False):
        if isinstance(panel, Lines):
            _draw_lines(panel, place, picture.digits)
        else:
            _draw_field(panel, place, figure)
    for place in list(axes.flat)[count:]:
        place.set_axis_off()
    figure.suptitle(_wrapped(picture.title, width), fontsize=10, x=0.01, ha="left")
    _add_legend(picture, figure)
    if picture.notes:
        figure.supxlabel(_wrapped(" ".join(picture.notes), width), fontsize=7, x=0.01, ha="left")
    return figure


def _draw_lines(panel: Lines, axes: "Axes", digits: int) -> None:
    for line in panel.lines:
        colour = _COLOURS[line.style % len(_COLOURS)]
        many = len(line.x) > _MANY_POINTS and not line.dots
        marker = "" if many else _MARKERS[line.style % len(_MARKERS)]
        dashes = "none" if line.dots else _DASHES[line.style % len(_DASHES)]
        hollow = "none" if line.style % 2 else colour
        axes.plot(
            line.x, line.y, color=colour, marker=marker, linestyle=dashes, label=line.label,
            markerfacecolor=hollow,
        )  # fmt: skip
        _draw_range(line.x, line.low, line.high, colour, axes, many)
        if line.end:
            axes.annotate(
                f"{line.label}: {line.end}", (line.x[-1], line.y[-1]), xytext=(6, -2),
                textcoords="offset points", color=colour, fontsize=7,
                bbox={"facecolor": "white", "linewidth": 0, "alpha": 0.6, "pad": 0.5},
            )  # fmt: skip
    values = sorted({x for line in panel.lines for x in line.x})
    _set_axis(axes, "x", panel.x, digits)
    few = 0 < len(values) <= (_FEW_VALUES if panel.x.log else 2)
    if (few or are_powers(values)) and not panel.diagonal and not panel.x.ticks:
        ticks = values[:: math.ceil(len(values) / _FEW_VALUES)]
        if not panel.x.log:
            ticks = _apart(values)
        axes.set_xticks(ticks, [_label(value, digits) for value in ticks])
        axes.set_xticks([], minor=True)
    if panel.diagonal:
        ends = [min(min(line.x) for line in panel.lines), max(max(line.x) for line in panel.lines)]
        axes.plot(ends, ends, color="0.5", linewidth=0.8, zorder=0)
    _set_axis(axes, "y", panel.y, digits)
    axes.set_title(panel.title, loc="left")


def _apart(values: Sequence[float]) -> list[float]:
    """The values whose labels have room on a linear axis, the largest first."""
    kept = [values[-1]]
    for value in reversed(values[:-1]):
        if kept[-1] - value >= _ROOM * (values[-1] - values[0]):
            kept.append(value)
    return kept


def _label(value: float, digits: int) -> str:
    return label_text(value) if float(value).is_integer() else f"{value:.{digits}g}"


def _draw_range(x: Any, low: Any, high: Any, colour: str, axes: "Axes", many: bool) -> None:
    """Smallest to largest of the replicates: bars, or a band where there are many points."""
    spread = np.array(high) - np.array(low)
    if not np.any(spread > _SAME_UNIT * np.abs(np.array(high))):
        return
    if many:
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    else:
        axes.vlines(x, low, high, color=colour, linewidth=0.9, alpha=0.7)


def _draw_field(panel: Field, axes: "Axes", figure: "Figure") -> None:
    top = float(np.max(np.abs(panel.values))) or 1.0
    low = -top if panel.signed else float(np.min(panel.values))
    shown = axes.imshow(
        panel.values, cmap="PuOr" if panel.signed else "cividis", vmin=low, vmax=top,
        aspect="auto", interpolation="nearest",
    )  # fmt: skip
    axes.grid(visible=False)
    figure.colorbar(shown, ax=axes, label=panel.label)
    _set_axis(axes, "x", panel.x)
    _set_axis(axes, "y", panel.y)
    axes.set_title(panel.title, loc="left")


def _set_axis(axes: "Axes", which: str, axis: Axis, digits: int = 6) -> None:
    place = axes.xaxis if which == "x" else axes.yaxis
    place.set_label_text(_wrapped(axis.label, 4.2))
    if axis.ticks:
        place.set_ticks(list(range(len(axis.ticks))), list(axis.ticks))
        if which == "x" and sum(map(len, axis.ticks)) > _LONG_TICKS:
            axes.tick_params(axis="x", rotation=30)
            for label in axes.get_xticklabels():
                label.set_horizontalalignment("right")
    if axis.log:
        from matplotlib.ticker import FuncFormatter, LogLocator

        getattr(axes, f"set_{which}scale")("log")
        low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
        if high / low < _ONE_DECADE:
            place.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            place.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.{digits}g}"))
            place.set_minor_formatter("")


def _add_legend(picture: Picture, figure: "Figure") -> None:
    """Add one legend for all panels, unless there is only one line."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if len(handles) > 1:
        figure.legend(handles.values(), handles.keys(), loc="outside right center", frameon=False)


def _wrapped(text: str, inches: float) -> str:
    """The text wrapped to fit at ten points, with dollar signs escaped."""
    import textwrap

    return "\n".join(textwrap.wrap(text.replace("$", r"\$"), max(int(inches * 14), 20)))
