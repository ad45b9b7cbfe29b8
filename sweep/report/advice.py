"""Advice on a user's queries: computed, and shown on a terminal, as a page and as JSON."""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic_core import to_jsonable_python
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

import workloads
from solvers.advice import Advice, Candidate
from solvers.advice import advise as advise_on
from solvers.problem.neighbours import Written
from sweep.report import output
from sweep.report.messages import counted
from workloads.queries import Domain, domain_of, read_domain, usual_queries

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_FURTHER = 2000
"""A domain with more attribute values gets no advice on free queries."""


def advise(
    queries: Any,
    domain: Any,
    *,
    delta: float,
    epsilon: float | None = None,
    mechanisms: Sequence[str] | None = None,
    time_limit: float = 90.0,
    neighbours: Written = "add-remove",
    progress: Callable[[str], None] = lambda step: None,
) -> Advice:
    """What queries and targets cost, what each target costs, and what comes for free.

    Parameters
    ----------
    queries : str, pathlib.Path or pandas.DataFrame
        A CSV file, or a table, with a query in each row.
    domain : str, pathlib.Path or mapping
        A YAML file, or a mapping, with the values of each attribute.
    delta, epsilon, mechanisms, time_limit, neighbours, progress
        As for `solvers.advice.advise`.

    Raises
    ------
    WorkloadError
        If the queries or the domain are not valid; with file, line and column.
    SolverError
        As `solvers.advice.advise`.
    """
    in_file = isinstance(domain, str | Path)
    known: Domain = read_domain(str(domain)) if in_file else domain_of(domain)
    if isinstance(queries, str | Path):
        workload = workloads.read_queries(str(queries), known)
    else:
        workload = workloads.from_queries(queries, known)
    further = usual_queries(known) if sum(known.sizes) <= MOST_FURTHER else None
    return advise_on(
        workload,
        delta=delta,
        epsilon=epsilon,
        mechanisms=mechanisms,
        further=further,
        time_limit=time_limit,
        neighbours=neighbours,
        progress=progress,
    )


_DEAREST = 5
"""Number of targets whose prices are the page's first table."""
_MOST_TIMES = 1000
_UNPRICED = (
    "Unknown: no mechanism that was run brought dual weights that certify its answer; 'optimal' "
    "does."
)


_WORDS = ("mechanism", "ended", "target", "query", "how")
"""The columns of words; the others hold numbers, which are aligned right."""


@dataclass(frozen=True)
class Section:
    """A part of the advice: sentences, and a table below them.

    Attributes
    ----------
    first : int
        Number of rows that the page shows at once; the others can be unfolded.
    """

    title: str
    sentences: tuple[str, ...]
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    first: int = 12

    @property
    def justify(self) -> tuple[Literal["left", "right"], ...]:
        """The alignment of every column."""
        return tuple("left" if name in _WORDS else "right" for name in self.columns)


def sections(advice: Advice) -> tuple[Section, ...]:
    """The advice in words and tables, in reading order."""
    parts = (_short(advice), _prices(advice), _answers(advice), _mechanisms(advice), _free(advice))
    return tuple(part for part in parts if part is not None)


def page(advice: Advice, title: str) -> str:
    """The advice as one page of HTML; without matplotlib it says that it has no picture."""
    picture = _picture(advice)
    return output.rendered("advice.html", title=title, sections=sections(advice), picture=picture)


def content(advice: Advice) -> dict[str, Any]:
    """The advice as JSON-like content, with null for NaN."""
    answers = advice.answers
    columns = {
        "label": answers.labels,
        "target_variance": answers.targets,
        "variance": answers.variances,
        "standard_error": answers.standard_errors,
        "confidence": answers.confidences,
        "margin": answers.margins,
        "half_width": answers.half_widths,
    }
    known = {field.name: getattr(advice, field.name) for field in fields(advice)}
    content: dict[str, Any] = to_jsonable_python(
        {
            **{name: known[name] for name in ("queries", "cells", "delta", "neighbours")},
            "lower_bound": advice.lower_bound,
            "recommended": advice.recommended.mechanism,
            "mechanisms": [asdict(c) | {"privacy_cost": c.privacy_cost} for c in advice.candidates],
            **{name: known[name] for name in ("prices", "price_gap", "relaxation")},
            **{name: known[name] for name in ("free", "budget")},
            "answers": [
                dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
            ],
        },
        inf_nan_mode="null",
    )
    return content


def _short(advice: Advice) -> Section:
    best = advice.recommended
    over = f"over {counted(advice.cells, 'cell')}"
    met = f"All {advice.queries:,} targets {over} are met"
    if advice.queries == 1:
        met = f"The target {over} is met"
    adding = advice.neighbours.startswith("adding")
    protected = "whether any one record is present" if adding else "the value of any one record"
    sentences = [
        f"{met} at ε = {_number(best.epsilon)} with δ = {advice.delta:g} (privacy cost "
        f"Δ = {_number(best.privacy_cost)}), by the mechanism '{best.mechanism}'.",
        f"The guarantee protects {protected}: neighbours differ by {advice.neighbours}.",
        _certified(best),
    ]
    exact = int((advice.answers.variances == 0).sum())
    if exact:
        sentences.append(
            f"{counted(exact, 'answer')} without any noise: to these neighbours such counts are "
            "public."
        )
    if advice.pure is not None:
        sentences.append(
            f"'{advice.pure.mechanism}', whose noise is not Gaussian, needs only "
            f"ε = {_number(advice.pure.epsilon)} at that δ, and ε = "
            f"{_number(advice.pure.pure_epsilon)} without any."
        )
    if advice.budget is not None:
        sentences.append(_allowed(advice))
    return Section("In short", tuple(sentences))


def _certified(best: Candidate) -> str:
    if not np.isfinite(best.excess):
        return "How far that is from the best possible is not known: no mechanism proved a bound."
    return (
        "It is certified that no Gaussian mechanism needs a smaller Δ² for these targets, up to "
        f"{_percent(best.excess).replace('<', 'less than ')}."
    )


def _allowed(advice: Advice) -> str:
    assert advice.budget is not None
    ratio = advice.budget.variance_ratio
    start = f"At ε = {advice.budget.epsilon:g} "
    if ratio <= 1:
        return start + (
            f"all targets are met with room to spare: every variance is {_number(ratio)} of the "
            "one listed here."
        )
    return start + (
        f"the targets cannot all be met: every variance would be {_number(ratio)} times, every "
        f"margin of error {_number(ratio**0.5)} times the one listed here."
    )


def _mechanisms(advice: Advice) -> Section:
    rows = tuple(
        (
            candidate.mechanism,
            _number(candidate.epsilon),
            _number(candidate.pure_epsilon) if np.isfinite(candidate.pure_epsilon) else "",
            _number(candidate.privacy_cost),
            _percent(candidate.excess),
            candidate.reason or "with an answer",
        )
        for candidate in advice.candidates
    )
    return Section(
        "What each mechanism needs",
        (
            f"ε at δ = {advice.delta:g}, ε at δ = 0 where the noise is not Gaussian, and Δ at "
            "which all targets are met, and by how much Δ² exceeds the certified least that any "
            "Gaussian mechanism needs.",
        ),
        ("mechanism", "ε", "ε at δ = 0", "Δ", "Δ² above least", "ended"),
        rows,
        first=0,
    )


def _prices(advice: Advice) -> Section:
    title = "What each target costs"
    if not advice.prices:
        return Section(title, (_UNPRICED,))
    sentences = [
        "A target's share is its elasticity: relax its variance by 1 % and Δ² falls by that share "
        "of 1 %. All shares sum to 100 %. They are those of an answer within "
        f"{_percent(advice.price_gap)} of the least possible Δ²."
    ]
    free = [price for price in advice.prices if price.free]
    if free:
        sentences.append(
            f"{len(free)} of {counted(len(advice.prices), 'target')} cost nothing: the others "
            "already make their answers accurate enough."
        )
    relaxed = advice.relaxation
    if relaxed is not None:
        dearest = f"the {len(relaxed.labels)} dearest" if len(relaxed.labels) > 1 else "the dearest"
        sentences.append(
            f"Relaxing {dearest} ({', '.join(relaxed.labels)}) by "
            f"{_percent(relaxed.factor - 1)} in variance ({_percent(relaxed.factor**0.5 - 1)} in "
            f"margin) is predicted to save {_percent(1 - relaxed.predicted)} of Δ²; a new solve "
            f"saves {_percent(1 - relaxed.actual)}: ε falls from {_number(relaxed.epsilon_before)} "
            f"to {_number(relaxed.epsilon_actual)} (predicted: "
            f"{_number(relaxed.epsilon_predicted)})."
        )
    rows = tuple(
        (price.label, f"{price.queries:,}", _number(price.target), _percent(price.elasticity))
        for price in advice.prices
    )
    columns = ("target", "queries", "variance asked", "share of the cost")
    return Section(title, tuple(sentences), columns, rows, first=_DEAREST)


def _free(advice: Advice) -> Section | None:
    if not advice.free:
        return None
    return Section(
        "What else comes free",
        (
            "These were not asked for, and can be published too, at no privacy cost: computed from "
            "the answers, or with new noise where some data are better protected than they need.",
        ),
        ("query", "standard error", "how"),
        tuple(
            (
                answer.label,
                _number(answer.standard_error),
                "from the answers" if answer.derived else "with new noise",
            )
            for answer in advice.free
        ),
        first=0,
    )


def _answers(advice: Advice) -> Section:
    answers = advice.answers
    scale = advice.budget.variance_ratio**0.5 if advice.budget else 1.0
    at_budget = () if advice.budget is None else (f"± at ε = {advice.budget.epsilon:g}",)
    rows = tuple(
        (
            label,
            _number(error),
            f"{confidence:.4g}",
            f"± {_number(width)}",
            f"± {_number(margin)}",
            *(f"± {_number(scale * width)}" for _ in at_budget),
        )
        for label, error, confidence, width, margin in zip(
            answers.labels,
            answers.standard_errors,
            answers.confidences,
            answers.half_widths,
            answers.margins,
            strict=True,
        )
    )
    return Section(
        "How accurate every answer is",
        (
            f"By '{advice.recommended.mechanism}' at ε = {_number(advice.recommended.epsilon)}. "
            "The true answer lies within ± of the published one with that confidence, each by "
            "itself.",
        ),
        ("query", "standard error", "confidence", "interval", "asked for", *at_budget),
        rows,
    )


def _number(value: float) -> str:
    """Four significant digits, or all digits of a whole number."""
    if np.isnan(value):
        return ""
    if np.isinf(value):
        return "∞"
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def _percent(share: float) -> str:
    if np.isnan(share):
        return ""
    if share >= _MOST_TIMES:
        return f"> {_MOST_TIMES} times"
    if 0 < share < 1e-5:
        return "<0.001 %"
    return f"{100 * share:,.0f} %" if share >= 10 else f"{100 * share:.3g} %"


_MOST_BARS = 12
_WIDE = 4
"""The axis is logarithmic if the largest ε exceeds the smallest by this factor."""
_UNNEEDED = ("Creator", "Date", "Format", "Type")
_BLUE, _GREY, _ORANGE = "#0072b2", "#777777", "#d55e00"
"""Colours that the colour-blind can distinguish, and a printer without colours too."""


def _picture(advice: Advice) -> str | None:
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
        names = [f"{_shortened(price.label)} " for price in dearest]
        axes.barh(range(len(names)), [100 * price.elasticity for price in dearest], color=_ORANGE)
        axes.set_yticks(range(len(names)), names, parse_math=False)
        axes.invert_yaxis()
        axes.set(xlabel="share of the cost, per cent")
        axes.set_title("what each target costs")
        return
    axes.plot(advice.answers.margins, advice.answers.half_widths, "o", color=_ORANGE)
    axes.set(xlabel="margin asked for", ylabel="margin reached")


def _shortened(label: str) -> str:
    return label if len(label) <= 32 else f"{label[:29]}..."


def shown(parts: Iterable[Section]) -> Iterator[RenderableType]:
    """Advice in sentences and tables."""
    for part in parts:
        yield Text(part.title, style="bold")
        yield from (Text(sentence) for sentence in part.sentences)
        if part.columns:
            table = Table(box=None, padding=(0, 2, 0, 0))
            for column, justify in zip(part.columns, part.justify, strict=True):
                table.add_column(column, justify=justify)
            for row in part.rows:
                table.add_row(*map(escape, row))
            yield table
        yield ""
