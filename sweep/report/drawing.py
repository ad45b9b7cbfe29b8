"""Draws pictures with matplotlib."""

import io
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep.dataset.pivots import label_text
from sweep.errors import SweepError, first_line
from sweep.report import output
from sweep.report.figures import Axis, Field, Lines, Picture, are_powers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMS = ("png", "svg", "pdf")
_COLOURS = (
    "#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C00",
)  # fmt: skip
"""Okabe and Ito's colours for the colour-blind; their yellow is too pale for lines."""
_MARKERS = "os^DvP*X<>"
_DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1, 1.4)),
    (0, (6, 2, 1, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
)
_MANY_POINTS = 30
_LONG_TICKS = 24
"""Tick labels with more characters in total are rotated, so that they do not overlap."""
_FEW_VALUES = 9
"""A logarithmic axis with at most this many values has its ticks at the values."""
_ROOM = 0.08
"""Least distance between two ticks, as a share of the axis."""
_SAME_UNIT = 1e-12
_ONE_DECADE = 30
"""A logarithmic axis with a smaller ratio of its ends has ticks between the powers of ten."""
_UNNEEDED = ("Creator", "Date", "Format", "Type")
"""Metadata that would make a page differ from one day or version to the next."""


def check_installed() -> None:
    """Raise SweepError unless matplotlib is installed and starts."""
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


def save(picture: Picture, path: Path, facts: Mapping[str, str]) -> None:
    """Draw a picture into a PNG, SVG or PDF file, as the suffix says; facts go into the metadata.

    Raises
    ------
    SweepError
        If the file has another suffix or cannot be written.
    """
    form = path.suffix.removeprefix(".").lower()
    if form not in FORMS:
        raise SweepError(f"cannot draw {str(path)!r}: expected a file *.{', *.'.join(FORMS)}")
    output.write(path, written(picture, form, facts))


def files(pictures: Sequence[Picture], place: Path) -> list[tuple[Picture, Path]]:
    """Every picture with its file: ``place`` if that is a file, or a PDF in that folder.

    Raises
    ------
    SweepError
        If one file is given for several pictures.
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
    """The content of a picture's file in a format; equal pictures give equal bytes."""
    text = "; ".join(f"{name}: {text}" for name, text in facts.items() if text)
    metadata: dict[str, dict[str, Any]] = {
        "png": {"Description": text, "Software": "fitness-sweep"},
        "pdf": {"Subject": text, "CreationDate": None},
        "svg": {"Description": text, "Date": None},
    }
    stream = io.BytesIO()
    with _settings():
        figure(picture).savefig(
            stream, format=form, dpi=200, metadata={"Title": picture.title, **metadata[form]}
        )
    return stream.getvalue()


def inline(picture: Picture, prefix: str) -> str:
    """The picture as SVG for the inside of a page, with its letters as text.

    All ids in the SVG begin with the prefix, because ids must be unique within a page.
    """
    stream = io.StringIO()
    with _settings(**{"svg.fonttype": "none"}):
        figure(picture).savefig(stream, format="svg", metadata=dict.fromkeys(_UNNEEDED))
    drawn = stream.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    return re.sub(r'(<[^<>]*?(?:\bid="|href="#|url\(#))', rf"\g<1>{prefix}-", drawn)


def _settings(**more: str) -> AbstractContextManager[None]:
    check_installed()
    from matplotlib import style

    return style.context(["default", "sweep.report.look", more])


def figure(picture: Picture) -> "Figure":
    """The picture as a matplotlib figure, without any state of pyplot.

    Raises
    ------
    SweepError
        If matplotlib is not installed.
    """
    with _settings():
        from matplotlib.figure import Figure

        count = len(picture.panels)
        columns = min(count, 2 if count in (2, 4) else 3)
        rows = math.ceil(count / columns)
        width, height = (6.4, 3.6) if columns == 1 else (3.6 * columns, 3.0)
        size = picture.size or (width, 0.5 + height * rows)
        figure = Figure(figsize=size, layout="constrained")
        same = len({panel.y for panel in picture.panels if isinstance(panel, Lines)}) == 1
        places = list(figure.subplots(rows, columns, squeeze=False, sharey=same).flat)
        panels: tuple[Lines | Field, ...] = picture.panels
        for panel, axes in zip(panels, places, strict=False):
            axes.set_title(panel.title, loc="left")
            if isinstance(panel, Lines):
                _draw_lines(panel, axes, picture.digits)
            else:
                _draw_field(panel, axes)
        for axes in places[count:]:
            axes.set_axis_off()
        at_left: dict[str, Any] = {"x": 0.01, "ha": "left"}
        figure.suptitle(_wrapped(picture.title, size[0]), fontsize=10, **at_left)
        _add_legend(figure)
        if picture.notes:
            figure.supxlabel(_wrapped(" ".join(picture.notes), size[0]), fontsize=7, **at_left)
        return figure


def _draw_lines(panel: Lines, axes: "Axes", digits: int) -> None:
    for line in panel.lines:
        colour = _COLOURS[line.style % len(_COLOURS)]
        many = len(line.x) > _MANY_POINTS and not line.dots
        axes.plot(
            line.x,
            line.y,
            color=colour,
            marker="" if many else _MARKERS[line.style % len(_MARKERS)],
            linestyle="none" if line.dots else _DASHES[line.style % len(_DASHES)],
            label=line.label,
            markerfacecolor="none" if line.style % 2 else colour,
        )
        low, high = np.asarray(line.low), np.asarray(line.high)
        if np.any(high - low > _SAME_UNIT * np.abs(high)):  # the range of the replicates
            if many:
                axes.fill_between(line.x, low, high, color=colour, alpha=0.15, linewidth=0)
            else:
                axes.vlines(line.x, low, high, color=colour, linewidth=0.9, alpha=0.7)
        if line.end:
            axes.annotate(
                f"{line.label}: {line.end}", (line.x[-1], line.y[-1]), xytext=(6, -2),
                textcoords="offset points", color=colour, fontsize=7,
                bbox={"facecolor": "white", "linewidth": 0, "alpha": 0.6, "pad": 0.5},
            )  # fmt: skip
    values = sorted({float(x) for line in panel.lines for x in line.x})
    _set_axis(axes, "x", panel.x, digits)
    if panel.diagonal:
        ends = [values[0], values[-1]]
        axes.plot(ends, ends, color="0.5", linewidth=0.8, zorder=0)
    elif not panel.x.ticks and (ticks := _ticks(values, log=panel.x.log)):
        axes.set_xticks(ticks, [_label(value, digits) for value in ticks])
        axes.set_xticks([], minor=True)
    _set_axis(axes, "y", panel.y, digits)


def _ticks(values: Sequence[float], *, log: bool) -> list[float]:
    """Ticks at the values themselves if they are few or powers; otherwise none."""
    few = 0 < len(values) <= (_FEW_VALUES if log else 2)
    if not few and not are_powers(values):
        return []
    shown = [value for value in values if value > 0.0 or not log]
    at = np.log(shown) if log else np.asarray(shown)
    kept = list(range(len(shown)))[-1:]
    for number in reversed(range(len(shown) - 1)):  # if there is room for their labels
        if at[kept[-1]] - at[number] >= _ROOM * (at[-1] - at[0]):
            kept.append(number)
    return [shown[number] for number in kept]


def _label(value: float, digits: int) -> str:
    return label_text(value) if float(value).is_integer() else f"{value:.{digits}g}"


def _draw_field(panel: Field, axes: "Axes") -> None:
    top = float(np.max(np.abs(panel.values))) or 1.0
    low = -top if panel.signed else float(np.min(panel.values))
    shown = axes.imshow(
        panel.values, cmap="PuOr" if panel.signed else "cividis", vmin=low, vmax=top,
        aspect="auto", interpolation="nearest",
    )  # fmt: skip
    axes.grid(visible=False)
    axes.figure.colorbar(shown, ax=axes, label=panel.label)
    _set_axis(axes, "x", panel.x)
    _set_axis(axes, "y", panel.y)


def _set_axis(axes: "Axes", which: str, axis: Axis, digits: int = 6) -> None:
    place = axes.xaxis if which == "x" else axes.yaxis
    place.set_label_text(_wrapped(axis.label, 4.2))
    if axis.ticks:
        place.set_ticks(list(range(len(axis.ticks))), list(axis.ticks), parse_math=False)
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


def _add_legend(figure: "Figure") -> None:
    """Add one legend for all panels, unless there is only one line."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if len(handles) > 1:
        figure.legend(handles.values(), handles.keys(), loc="outside right center", frameon=False)


def _wrapped(text: str, inches: float) -> str:
    """The text wrapped to fit at ten points, with dollar signs escaped."""
    return "\n".join(textwrap.wrap(text.replace("$", r"\$"), max(int(inches * 14), 20)))
