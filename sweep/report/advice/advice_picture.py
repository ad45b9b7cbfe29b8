"""The picture of an advice: the cost of mechanisms and targets, and the accuracy of answers."""

import io
from typing import TYPE_CHECKING

import numpy as np

from solvers.advice import Advice

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BARS = 12
_WIDE = 4
"""Beyond this ratio of ε the axis is logarithmic."""
_UNNEEDED = ("Creator", "Date", "Format", "Type")
_BLUE, _GREY, _ORANGE = "#0072b2", "#777777", "#d55e00"
"""Told apart by the colour-blind, and in grey."""


def svg(advice: Advice) -> str | None:
    """The picture as an SVG element; None without matplotlib."""
    try:
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter, LogLocator
    except ImportError:
        return None
    needed = [c for c in advice.candidates if np.isfinite(c.epsilon)][:_MOST_BARS]
    figure = Figure(figsize=(9, 3 + 0.25 * max(len(needed), 6)), layout="constrained")
    FigureCanvasSVG(figure)
    left, right = figure.subplots(1, 2)
    colours = [_BLUE if candidate == advice.recommended else _GREY for candidate in needed]
    epsilons = [candidate.epsilon for candidate in needed]
    left.scatter(epsilons, [candidate.mechanism for candidate in needed], c=colours)
    left.grid(axis="x", which="both", alpha=0.3)
    left.set(xlabel=f"ε at the targets (δ = {advice.delta:g})")
    if needed and max(epsilons) > _WIDE * min(epsilons):
        left.set_xscale("log")
        left.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        left.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        left.xaxis.set_minor_formatter("")
    left.set_title("what each mechanism needs")
    left.invert_yaxis()
    _prices_or_answers(advice, right)
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata=dict.fromkeys(_UNNEEDED))
    text = written.getvalue()
    return text[text.index("<svg") :]


def _prices_or_answers(advice: Advice, axes: "Axes") -> None:
    dearest = advice.prices[:_MOST_BARS]
    if dearest:
        names = [f"{_short(price.label)} " for price in dearest]
        axes.barh(range(len(names)), [100 * price.elasticity for price in dearest], color=_ORANGE)
        axes.set_yticks(range(len(names)), names, parse_math=False)
        axes.invert_yaxis()
        axes.set(xlabel="share of the cost, per cent")
        axes.set_title("what each target costs")
        return
    axes.plot(advice.answers.margins, advice.answers.half_widths, "o", color=_ORANGE)
    axes.set(xlabel="margin asked for", ylabel="margin reached")


def _short(label: str) -> str:
    return label if len(label) <= 32 else f"{label[:29]}..."
