"""Draws panels of lines and heat maps with matplotlib, and writes pictures into files and pages."""

import base64
import io
import math
import textwrap
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain, count
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sweep.dataset.pivots import label_text
from sweep.errors import SweepError, first_line
from sweep.report import output

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox
    from matplotlib.typing import LineStyleType

Numbers = Sequence[float] | NDArray[np.float64]

FORMS = ("png", "svg", "pdf")
COLOURS = (
    *("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C00"),
    *("#5A0F00", "#000078", "#7800FF", "#A50F69", "#E100FF", "#3C5A00", "#5A0096", "#00E187"),
    *("#001ED2", "#0F3C4B", "#2D003C", "#875A3C", "#FF3C69", "#1E1E00", "#694B87", "#FF87F0"),
    *("#E100A5", "#7869E1", "#96B496", "#D2001E", "#69B400", "#E1A5C3", "#A54BA5", "#782D3C"),
)
"""Okabe and Ito's colours for the colour-blind, with olive in place of yellow, which is too pale.

Each further colour is the one farthest from all before it, for readers with normal vision and for
those without green cones (Oklab distances); 32 are as many as stay 0.11 apart."""
_MARKERS = "os^DvP*<>"
"""Nine, so that styles with one colour, which are 32 apart, have different markers."""
_DASHES: Sequence["LineStyleType"] = (
    "-",
    (0, (5, 2)),
    (0, (1, 1.4)),
    (0, (6, 2, 1, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
)
PRINTED = "printed"
"""The variant of points that a paper or a closed form states."""
_PRINTED_MARKER = "x"
_MECHANISMS = (
    *("optimal", "IP", "CA", "GM", "HM", "SM-II", "wCA-I", "wCA-II"),
    *("WM", "LRM", "AM", "ESM", "COA", "GD", "interior-point", "geometric"),
    *("tight-constraints", "lp-optimal", "fisher", "laplace", "ResidualPlanner+", "DAWA"),
)
"""Mechanisms with a style of their own: a mechanism's position is the index of its style.

The first eight, which are often drawn together, have the colours that differ most."""
_MOST = {"panels": 12, "lines": 20}
"""Largest numbers of panels and of lines in a picture. Four rows of three panels fill a page, and
among more lines a reader does not find the one that an entry of the legend means."""
_MANY_POINTS = 30
"""Lines with more points than this have no markers, which would cover the line: 30 markers of 4.5
points take half of a panel's width of 3.6 inches."""
_FEW_VALUES = 16
"""A logarithmic axis with at most this many values has its ticks at the values; with more, labels
would touch, and most would be left out."""
_APART = 5.0
"""Least distance between the labels of two ticks, in pixels of 1/100 inch."""
_SAME = 1e-12
"""Replicates whose relative difference is at most this are drawn without a range: they differ by
rounding, and a range would be thinner than the line."""
_ONE_DECADE = 30
"""A logarithmic axis has ticks only at powers of ten if the ratio of its ends is at least this; a
shorter one might contain a single power of ten, from which no scale can be read."""
_LEGEND_CHARACTERS = 26
"""Entries of a legend wrap after this many characters: two columns then fit into 3.4 inches."""
_LEAST_HEIGHT = 0.7
"""Least height that panels, with title and labels, need, in inches; with less, none would show."""
_MOST_COLUMNS = 6
"""Largest number of columns of a legend; more would be read like lines of a text."""


@dataclass(frozen=True, eq=False)
class Line:
    """A line of a panel, or a set of points.

    Attributes
    ----------
    series : str
        What the line shows, such as a mechanism; lines of one series have one colour and marker.
    x, y : sequence of float
        Coordinates of the points; ``y`` is the mean over the replicates.
    ends : pair of sequences of float
        Every point's minimum and maximum over the replicates; if empty, no range is drawn.
    dots : bool
        Whether only the points are drawn, without lines between them.
    variant : str
        What tells the line from others of its series, such as ``targets = uniform``; lines of one
        variant have one line style.
    """

    series: str
    x: Numbers
    y: Numbers
    ends: Sequence[Numbers] = ()
    dots: bool = False
    variant: str = ""

    @property
    def label(self) -> str:
        """The line's name: its series and variant."""
        return line_label(self.series, self.variant)


def line_label(series: str, variant: str) -> str:
    """Return the name of a line in words, such as ``CA, targets = uniform``."""
    return ", ".join(filter(None, (series, variant)))


@dataclass(frozen=True, eq=False)
class Panel:
    """The content of a panel: lines, or a matrix as a heat map.

    Attributes
    ----------
    options : Mapping[str, object]
        Options of matplotlib's `Axes.set`: labels and scales of the axes.
    ticks : sequence of str
        The labels of the positions 0, 1, ... along the horizontal axis or, for a heat map, along
        the vertical axis; if empty, the axis has numbers.
    image : numpy.ndarray, optional
        The matrix of the heat map; colours are centred at 0 if it contains negative numbers.
    """

    title: str
    lines: list[Line]
    options: Mapping[str, str]
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
        metadata: dict[str, dict[str, str | None]] = {
            "png": {"Description": text, "Software": "fitness-sweep"},
            "pdf": {"Subject": text, "CreationDate": None},
            "svg": {"Description": text, "Date": None},
        }
        stream = io.BytesIO()
        with _use_look():
            told = {"Title": self.title, **metadata[form]}
            self.figure.savefig(stream, format=form, dpi=200, metadata=told)
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


def choose_files(pictures: Sequence[Picture], place: Path) -> list[tuple[Picture, Path]]:
    """Return every picture with the path of its file.

    The path is ``place`` or, if ``place`` is a folder, that of a PDF file in this folder. Several
    pictures for one file get a file each, whose name ends with that of the picture.
    """
    if not place.suffix or place.is_dir():
        return [(picture, place / f"{picture.name}.pdf") for picture in pictures]
    if len(pictures) == 1:
        return [(pictures[0], place)]
    return [(picture, place.with_stem(f"{place.stem}-{picture.name}")) for picture in pictures]


def _use_look() -> AbstractContextManager[None]:
    check_installed()
    from matplotlib import style

    return style.context(["default", "sweep.report.look"])


def draw(
    name: str,
    panels: Sequence[Panel],
    *,
    title: str = "",
    notes: Sequence[str] = (),
    facts: Mapping[str, str] = MappingProxyType({}),
    size: tuple[float, float] | None = None,
    digits: int = 6,
    series: Iterable[str] = (),
) -> Picture:
    """Draw a picture without pyplot and its global state.

    Parameters
    ----------
    size : tuple of float, optional
        Width and height in inches; by default, they depend on the panels, notes and legend.
    digits : int
        Significant digits of the numbers on the axes.
    series : iterable of str
        Further series, which are not drawn; figures of one dataset that name all its series give
        each the same style.

    Raises
    ------
    SweepError
        If matplotlib is not installed, or there are too many panels or lines.
    """
    variants = {line.variant for panel in panels for line in panel.lines}
    if len(variants) > len(_DASHES):  # line styles do not tell them apart, so colours have to
        panels = [
            replace(panel, lines=[replace(n, series=n.label, variant="") for n in panel.lines])
            for panel in panels
        ]
    lines = [line for panel in panels for line in panel.lines]
    labels = {line.label for line in lines if line.variant != PRINTED}
    for what, number in {"panels": len(panels), "lines": len(labels)}.items():
        if number > _MOST[what]:
            raise SweepError(
                f"it would have {number} {what}; expected at most {_MOST[what]}: choose cells with "
                "--where"
            )
    with _use_look():
        from matplotlib.figure import Figure

        columns = min(len(panels), 2 if len(panels) in (2, 4) else 3)
        rows = math.ceil(len(panels) / columns)
        # one panel is as wide as a page's text; several get the height that a third of it needs
        width, height = (6.4, 3.6) if columns == 1 else (3.6 * columns, 3.0)
        figure = Figure(figsize=size or (width, 0.5 + height * rows), layout="constrained")
        # panels of one quantity have one vertical axis; that of a heat map has rows of its own
        drawn = {panel.options.get("ylabel") for panel in panels if panel.image is None}
        places = list(figure.subplots(rows, columns, squeeze=False, sharey=len(drawn) == 1).flat)
        looks, entries = _choose_looks(lines, series)
        for axes, panel in zip(places, panels, strict=False):
            _draw(axes, panel, looks)
            _set_ticks(axes, digits)
        for axes in places[len(panels) :]:
            axes.set_axis_off()
        figure.suptitle(_wrap(title, figure.get_figwidth()), fontsize=10, x=0.01, ha="left")
        _place_legend(figure, entries, " ".join(notes), size)
        for axis in ("xaxis", "yaxis"):  # turned names leave less room for the vertical axis
            figure.draw_without_rendering()  # gives the labels of ticks their places
            for axes, panel in zip(places, panels, strict=False):
                upright = axis == "xaxis" and panel.image is None
                _separate(getattr(axes, axis), panel.ticks if upright else ())
        return Picture(name, title, facts, figure)


@dataclass(frozen=True)
class _Look:
    """Matplotlib's properties of a line."""

    color: str
    marker: str
    markerfacecolor: str
    linestyle: "LineStyleType"


def _choose_looks(
    lines: Sequence[Line], series: Iterable[str]
) -> tuple[dict[Line, _Look], dict[str, _Look]]:
    """Return the look of every line, and a legend: the series, then the variants.

    The legend is empty if it would have a single entry.
    """
    styles = choose_styles([*series, *(line.series for line in lines)])
    variants = list(dict.fromkeys(line.variant for line in lines if line.variant != PRINTED))
    dashes = dict(zip(variants, _DASHES, strict=False))
    looks, legend = dict[Line, _Look](), dict[str, _Look]()
    for line in lines:
        colour = COLOURS[styles[line.series] % len(COLOURS)]
        marker = _MARKERS[styles[line.series] % len(_MARKERS)]
        face = "none" if styles[line.series] % 2 else colour
        look = _Look(colour, marker, face, "none" if line.dots else "-")
        legend.setdefault(line.series, look)
        if line.variant == PRINTED:
            look = replace(look, marker=_PRINTED_MARKER)
        elif not line.dots:
            shown = "" if len(line.x) > _MANY_POINTS else marker
            look = replace(look, marker=shown, linestyle=dashes[line.variant])
        looks[line] = look
    if len(variants) > 1:
        legend |= {v: _Look("0.2", "", "none", dashes[v]) for v in variants if v}
    if any(line.variant == PRINTED for line in lines):
        legend[PRINTED] = _Look("0.2", _PRINTED_MARKER, "none", "none")
    return looks, legend if len(legend) > 1 else {}


def choose_styles(series: Iterable[str]) -> dict[str, int]:
    """Map each series to the index of its style.

    A mechanism of `_MECHANISMS` has a fixed style. Every other mechanism takes the first unused of
    the styles that follow these, from one on that its name determines; series that are labelled
    with another axis (``d = 4``) take the first unused of all styles.
    """
    names = list(dict.fromkeys(series))
    styles = {name: _MECHANISMS.index(name) for name in names if name in _MECHANISMS}
    spare = len(COLOURS) - len(_MECHANISMS)
    for name in names:
        if name not in styles:
            start = 0
            if name and " = " not in name:
                start = len(_MECHANISMS) + zlib.crc32(name.encode()) % spare
            # round all colours once, then on to styles whose colours are taken
            order = chain(range(start, len(COLOURS)), range(start), count(len(COLOURS)))
            styles[name] = next(number for number in order if number not in styles.values())
    return styles


def _draw(axes: "Axes", panel: Panel, looks: Mapping[Line, _Look]) -> None:
    """Draw a panel: its lines with their looks and ranges, or its heat map."""
    for line in panel.lines:
        look = looks[line]
        axes.plot(line.x, line.y, label=line.label, **vars(look))
        least, most = np.asarray(line.ends or ((), ()))
        if np.any(most - least > _SAME * np.abs(most)):
            axes.vlines(line.x, least, most, color=look.color, linewidth=0.9, alpha=0.7)
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
        axis.set_ticks(range(len(panel.ticks)), list(panel.ticks), parse_math=False)


def _place_legend(
    figure: "Figure", entries: Mapping[str, _Look], notes: str, size: tuple[float, float] | None
) -> None:
    """Place a legend, with the notes as its title, below the panels.

    If no ``size`` is given, the figure becomes higher by the legend; otherwise, the panels get the
    rest of the figure.

    Raises
    ------
    SweepError
        If the legend leaves no room for panels.
    """
    from matplotlib.lines import Line2D

    if not entries and not notes:
        return
    width, height = figure.get_size_inches()
    labels = [textwrap.fill(label, _LEGEND_CHARACTERS) for label in entries]
    lines = [Line2D([], [], **vars(look)) for look in entries.values()]
    title = _wrap(notes, width)
    for columns in range(min(max(len(entries), 1), _MOST_COLUMNS), 0, -1):
        legend = figure.legend(
            lines, labels, loc="outside lower left", ncols=columns, title=title, alignment="left"
        )
        box = legend.get_window_extent()
        # letters are some per cent wider in a file, which has another resolution
        if box.width / figure.dpi <= 0.94 * width or columns == 1:
            break
        legend.remove()
    below = box.height / figure.dpi
    if size is None:
        figure.set_figheight(height + below)
    elif height - below < _LEAST_HEIGHT:
        raise SweepError(
            f"a figure {height:g} inches high has no room for panels above its legend and notes, "
            f"which take {below:.2g}; give a --size of at least {width:g}x{below + 1.5:.2g}"
        )


def _set_ticks(axes: "Axes", digits: int) -> None:
    """Wrap the labels of both axes, and place ticks where a panel has not set its own."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_label_text(_wrap(axis.get_label_text(), 4.2))
        low, high = axis.get_view_interval()
        if axis.get_scale() == "log" and high / low < _ONE_DECADE:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.{digits}g}"))
            axis.set_minor_formatter("")
    if not isinstance(axes.xaxis.get_major_locator(), FixedLocator):
        values = sorted({float(x) for line in axes.lines for x in np.asarray(line.get_xdata())})
        log = axes.get_xscale() == "log"
        ticks = [x for x in values if x > 0.0 or not log]
        if ticks and len(values) <= (_FEW_VALUES if log else 2):
            labels = [label_text(x) if x.is_integer() else f"{x:.{digits}g}" for x in ticks]
            axes.set_xticks(ticks, labels)
            axes.set_xticks([], minor=True)


def _separate(axis: "Axis", names: Sequence[str]) -> None:
    """Turn the names along a horizontal axis, or leave out numbers, whose labels would touch.

    The largest numbers stay. A shared axis that shows its labels elsewhere has none.
    """
    low, high = sorted(axis.get_view_interval())
    ticks = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=False)
    shown = [(value, label) for value, label in ticks if low <= value <= high and label.get_text()]
    kept, boxes = dict[float, str](), list["Bbox"]()
    for value, label in reversed(shown):
        box = label.get_window_extent().padded(_APART / 2)
        if not any(box.overlaps(other) for other in boxes):
            kept[value] = label.get_text()
            boxes.append(box)
    if names and len(kept) < len(shown):
        # lines of text that are turned by 30 degrees are half as far apart as their ticks
        slanted = axis.axes.bbox.width / len(names) / 2 > boxes[0].height
        angle, end = (30.0, "right") if slanted else (90.0, "center")
        axis.set_ticks(range(len(names)), names, parse_math=False, rotation=angle, ha=end)
    elif len(kept) < len(shown):
        axis.set_ticks(list(kept), list(kept.values()))


def _wrap(text: str, inches: float) -> str:
    """Wrap a text of font size 10 to a width in inches, and escape its dollar signs."""
    return "\n".join(textwrap.wrap(text.replace("$", r"\$"), max(int(inches * 14), 20)))
