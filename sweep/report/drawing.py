"""Draws panels of lines and heat maps with matplotlib, and writes pictures into files and pages."""

import base64
import io
import math
import textwrap
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweep.dataset.pivots import label_text
from sweep.errors import SweepError, first_line
from sweep.report import output

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Numbers = Sequence[float] | NDArray[np.float64]

FORMS = ("png", "svg", "pdf")
_COLOURS = (
    "#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C00",
)  # fmt: skip
"""Okabe and Ito's colours for the colour-blind; olive replaces yellow, which is too pale."""
_MARKERS = "os^DvP*X<>"
_DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1, 1.4)),
    (0, (6, 2, 1, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
)
_MECHANISMS = (
    *("optimal", "IP", "CA", "GM", "HM", "SM-II", "wCA-I", "wCA-II"),
    *("WM", "LRM", "AM", "ESM", "COA", "GD", "interior-point", "geometric"),
    *("tight-constraints", "lp-optimal", "fisher", "laplace", "ResidualPlanner+", "DAWA"),
)
"""Mechanisms with a fixed style: a mechanism's position is the index of its style.

The order gives different colours to mechanisms that are often drawn together.
"""
_OTHER_STYLES = 18
"""Number of further styles, for mechanisms that are not in `_MECHANISMS`."""
_MOST = {"panels": 12, "lines": 20}
"""Largest numbers of panels and of lines in a picture."""
_MANY_POINTS = 30
"""Lines with more points than this are drawn without markers."""
_LONG_TICKS = 24
"""Labels of a horizontal axis are rotated if together they have more characters than this."""
_FEW_VALUES = 16
"""A logarithmic axis with at most this many values has its ticks at the values."""
_ROOM = 0.08
"""Least distance between two ticks, as a share of the axis's length."""
_SAME = 1e-12
"""Replicates whose relative difference is at most this are drawn without a range."""
_ONE_DECADE = 30
"""A logarithmic axis has ticks only at powers of ten if the ratio of its ends is at least this."""


@dataclass(frozen=True, eq=False)
class Line:
    """A line of a panel, or a set of points.

    Attributes
    ----------
    label : str
        The name in the legend, which determines the style; see `styles_of`.
    x, y : sequence of float
        Coordinates of the points; ``y`` is the mean over the replicates.
    ends : pair of sequences of float
        Every point's minimum and maximum over the replicates; if empty, no range is drawn.
    dots : bool
        Whether only the points are drawn, without lines between them.
    like : str
        The label of another line: this line gets that line's colour, but a different marker. If
        empty, this line's own label determines its style.
    """

    label: str
    x: Numbers
    y: Numbers
    ends: Sequence[Numbers] = ()
    dots: bool = False
    like: str = ""


@dataclass(frozen=True, eq=False)
class Panel:
    """The content of a panel: lines, or a matrix as a heat map.

    Attributes
    ----------
    options : Mapping[str, object]
        Options of matplotlib's `Axes.set`.
    ticks : sequence of str
        The labels of the positions 0, 1, ... along the horizontal axis or, for a heat map, along
        the vertical axis; if empty, the axis has numbers.
    image : numpy.ndarray, optional
        The matrix of the heat map; colours are centred at 0 if it contains negative numbers.
    """

    title: str
    lines: list[Line]
    options: Mapping[str, Any]
    ticks: Sequence[str] = ()
    image: NDArray[np.float64] | None = None


@dataclass(frozen=True, eq=False)
class Picture:
    """A drawn figure, which a notebook displays; its matplotlib ``figure`` may be modified.

    Attributes
    ----------
    name : str
        The figure's name, which is also the stem of its file.
    facts : Mapping[str, str]
        Facts about the origin of the numbers, for the metadata of files.
    """

    name: str
    title: str
    facts: Mapping[str, str]
    figure: "Figure"

    def save(self, path: str | Path) -> None:
        """Write the figure to a PNG, SVG or PDF file; the suffix of ``path`` determines the format.

        Raises
        ------
        SweepError
            If the path has another suffix, or the file cannot be written.
        """
        form = Path(path).suffix.removeprefix(".").lower()
        if form not in FORMS:
            raise SweepError(f"cannot draw {str(path)!r}: expected a file *.{', *.'.join(FORMS)}")
        output.write(Path(path), self.written(form))

    def written(self, form: str) -> bytes:
        """Return the content of a file of the figure; equal figures give equal bytes.

        ``form`` is the file's format: ``png``, ``svg`` or ``pdf``.
        """
        text = "; ".join(f"{name}: {text}" for name, text in self.facts.items() if text)
        metadata: dict[str, dict[str, Any]] = {
            "png": {"Description": text, "Software": "fitness-sweep"},
            "pdf": {"Subject": text, "CreationDate": None},
            "svg": {"Description": text, "Date": None},
        }
        stream = io.BytesIO()
        with _look():
            self.figure.savefig(
                stream, format=form, dpi=200, metadata={"Title": self.title, **metadata[form]}
            )
        return stream.getvalue()

    def address(self) -> str:
        """Return a data URI that contains the figure as SVG, so that a page needs no image file."""
        return f"data:image/svg+xml;base64,{base64.b64encode(self.written('svg')).decode()}"

    def _repr_png_(self) -> bytes:
        return self.written("png")


def check_installed() -> None:
    """Raise SweepError unless matplotlib can be imported."""
    try:
        import_module("matplotlib")
    except (ImportError, ValueError) as error:
        raise SweepError(
            f"figures need matplotlib, which does not start: {first_line(error)}; install it with "
            "python -m pip install 'fitness-sweep[plot]' or, if it is installed, correct or unset "
            "MPLBACKEND"
        ) from None


def files(pictures: Sequence[Picture], place: Path) -> list[tuple[Picture, Path]]:
    """Return every picture with the path of its file.

    The path is ``place`` or, if ``place`` is a folder, that of a PDF file in this folder.

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


def _look() -> AbstractContextManager[None]:
    check_installed()
    from matplotlib import style

    return style.context(["default", "sweep.report.look"])


def picture(
    name: str,
    panels: Sequence[Panel],
    *,
    title: str = "",
    notes: Sequence[str] = (),
    facts: Mapping[str, str] = MappingProxyType({}),
    size: tuple[float, float] | None = None,
    digits: int = 6,
    share_y: bool = False,
) -> Picture:
    """Draw a picture without pyplot and its global state.

    Parameters
    ----------
    size : tuple of float, optional
        Width and height in inches; by default, they depend on the number of panels.
    digits : int
        Significant digits of the numbers on the axes.
    share_y : bool
        Whether all panels have the same vertical axis.

    Raises
    ------
    SweepError
        If matplotlib is not installed, or there are too many panels or lines.
    """
    lines = [line for panel in panels for line in panel.lines]
    styles = styles_of(line.label for line in lines if not line.like)
    for what, number in {"panels": len(panels), "lines": len(styles)}.items():
        if number > _MOST[what]:
            raise SweepError(
                f"it would have {number} {what}; expected at most {_MOST[what]}: choose cells with "
                "--where"
            )
    with _look():
        from matplotlib.figure import Figure

        count = len(panels)
        columns = min(count, 2 if count in (2, 4) else 3)
        rows = math.ceil(count / columns)
        width, height = (6.4, 3.6) if columns == 1 else (3.6 * columns, 3.0)
        size = size or (width, 0.5 + height * rows)
        figure = Figure(figsize=size, layout="constrained")
        places = list(figure.subplots(rows, columns, squeeze=False, sharey=share_y).flat)
        styles |= {line.label: styles[line.like] + len(_COLOURS) for line in lines if line.like}
        for axes, panel in zip(places, panels, strict=False):
            _draw(axes, panel, styles)
            _finish(axes, digits)
        for axes in places[count:]:
            axes.set_axis_off()
        at_left: dict[str, Any] = {"x": 0.01, "ha": "left"}
        figure.suptitle(_wrapped(title, size[0]), fontsize=10, **at_left)
        handles: dict[str, Any] = {}
        for axes in figure.axes:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        if len(handles) > 1:  # one legend for all panels
            figure.legend(
                handles.values(), handles.keys(), loc="outside right center", frameon=False
            )
        if notes:
            figure.supxlabel(_wrapped(" ".join(notes), size[0]), fontsize=7, **at_left)
        return Picture(name, title, facts, figure)


def styles_of(labels: Iterable[str]) -> dict[str, int]:
    """Map the label of each line to the index of its style.

    In figures with one line for each mechanism, a mechanism of `_MECHANISMS` has a fixed style.
    Further lines of a mechanism, and lines labelled with another axis (``d = 4``), take the next
    unused styles.
    """
    styles: dict[str, int] = {}
    for label in dict.fromkeys(labels):
        name = label.partition(",")[0]
        style = 0
        if name in _MECHANISMS:
            style = _MECHANISMS.index(name)
        elif " = " not in name:
            style = len(_MECHANISMS) + zlib.crc32(name.encode()) % _OTHER_STYLES
        styles[label] = next(number for number in count(style) if number not in styles.values())
    return styles


def _draw(axes: "Axes", panel: Panel, styles: Mapping[str, int]) -> None:
    """Draw a panel: its lines in the given styles, with ranges, or its heat map."""
    for line in panel.lines:
        style = styles[line.label]
        colour = _COLOURS[style % len(_COLOURS)]
        many = len(line.x) > _MANY_POINTS and not line.dots
        axes.plot(
            line.x,
            line.y,
            color=colour,
            marker="" if many else _MARKERS[style % len(_MARKERS)],
            linestyle="none" if line.dots else _DASHES[style % len(_DASHES)],
            label=line.label,
            markerfacecolor="none" if style % 2 else colour,
        )
        least, most = np.asarray(line.ends or ((), ()))
        if np.any(most - least > _SAME * np.abs(most)):
            axes.vlines(line.x, least, most, color=colour, linewidth=0.9, alpha=0.7)
    if panel.image is not None:
        low, top = float(np.nanmin(panel.image)), float(np.nanmax(np.abs(panel.image)))
        colours, low = ("PuOr", -top) if low < 0 else ("cividis", low)
        shown = axes.imshow(
            panel.image, colours, aspect="auto", interpolation="nearest", vmin=low, vmax=top
        )
        axes.grid(visible=False)
        axes.figure.colorbar(shown, ax=axes)
    axes.set_title(panel.title, loc="left")
    axes.set(**panel.options)
    if panel.ticks:
        axis = axes.xaxis if panel.image is None else axes.yaxis
        long = panel.image is None and sum(map(len, panel.ticks)) > _LONG_TICKS
        turned: dict[str, Any] = {"rotation": 30, "ha": "right"} if long else {}
        axis.set_ticks(range(len(panel.ticks)), list(panel.ticks), parse_math=False, **turned)


def _finish(axes: "Axes", digits: int) -> None:
    """Wrap the labels of both axes, and place ticks where a panel has not set its own."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_label_text(_wrapped(axis.get_label_text(), 4.2))
        low, high = axis.get_view_interval()
        if axis.get_scale() == "log" and high / low < _ONE_DECADE:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.{digits}g}"))
            axis.set_minor_formatter("")
    if not isinstance(axes.xaxis.get_major_locator(), FixedLocator):
        values = sorted({float(x) for line in axes.lines for x in np.asarray(line.get_xdata())})
        if ticks := _ticks(values, log=axes.get_xscale() == "log"):
            exact = {x: label_text(x) for x in ticks if x.is_integer()}
            axes.set_xticks(ticks, [exact.get(x, f"{x:.{digits}g}") for x in ticks])
            axes.set_xticks([], minor=True)


def _ticks(values: Sequence[float], *, log: bool) -> list[float]:
    """Return the values at which ticks are drawn; if there are many values, an empty list.

    Values that are too close to another tick are left out.
    """
    if len(values) > (_FEW_VALUES if log else 2):
        return []
    place = math.log if log else float
    shown = [value for value in values if value > 0.0 or not log]
    kept = shown[-1:]
    for value in shown[-2::-1]:
        if place(kept[-1]) - place(value) >= _ROOM * (place(shown[-1]) - place(shown[0])):
            kept.append(value)
    return kept


def _wrapped(text: str, inches: float) -> str:
    """Wrap a text of font size 10 to a width in inches, and escape its dollar signs."""
    return "\n".join(textwrap.wrap(text.replace("$", r"\$"), max(int(inches * 14), 20)))
