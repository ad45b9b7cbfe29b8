"""Advice on a user's queries: computed, and shown on a terminal, as a page and as JSON."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import pandas as pd
from rich.console import RenderableType
from rich.text import Text

import workloads
from solvers.advice import Advice, Candidate
from solvers.advice import advise as advise_on
from solvers.problem.neighbours import Written
from sweep.errors import SweepError
from sweep.report import drawing, formats, output
from sweep.report.figures import Axis, Line, Lines, Picture
from sweep.report.messages import counted
from sweep.report.tables import Table
from workloads.queries import Domain, domain_of, read_domain, usual_queries

MOST_FURTHER = 2000
"""Most attribute values of a domain whose free queries are looked for."""


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
_MOST_DRAWN = 12
_LONGEST_TICK = 32
_WIDE = 4
"""The axis is logarithmic if the largest ε exceeds the smallest by this factor."""
_UNPRICED = (
    "Unknown: no mechanism that was run brought dual weights that certify its answer; 'optimal' "
    "does."
)


@dataclass(frozen=True, eq=False)
class Section:
    """A part of the advice: sentences, and a table below them.

    Attributes
    ----------
    first : int
        Number of rows that the page shows at once; the others can be unfolded.
    """

    title: str
    sentences: tuple[str, ...]
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    first: int = 12

    def rows(self, start: int | None = None, end: int | None = None) -> Table:
        """Some rows of the table."""
        return Table(self.title, pd.DataFrame(), self.table[start:end])


def sections(advice: Advice) -> tuple[Section, ...]:
    """The advice in words and tables, in reading order."""
    parts = (_short(advice), _prices(advice), _answers(advice), _mechanisms(advice))
    return (*parts, _free(advice)) if advice.free else parts


def shown(advice: Advice, width: int) -> Iterator[RenderableType]:
    """The advice in sentences and tables, for a terminal of that width."""
    for part in sections(advice):
        yield Text(part.title, style="bold")
        yield from map(Text, part.sentences)
        if len(part.table):
            yield from formats.grids(part.rows(), width)
        yield ""


def page(advice: Advice, title: str) -> str:
    """The advice as one page of HTML; without matplotlib it says that it has no picture."""
    content: dict[str, Any] = {"title": title, "sections": sections(advice)}
    try:
        content["picture"] = drawing.inline(_picture(advice), "a")
    except SweepError as error:
        content["undrawn"] = str(error)
    return output.rendered("advice.html", **content)


def _picture(advice: Advice) -> Picture:
    """The ε of every mechanism beside the prices of the dearest targets."""
    needed = [c for c in advice.candidates if np.isfinite(c.epsilon)][_MOST_DRAWN - 1 :: -1]
    epsilons = [candidate.epsilon for candidate in needed]
    places = {
        label: [at for at, one in enumerate(needed) if (one == advice.recommended) is best]
        for label, best in (("recommended", True), ("others", False))
    }
    lines = tuple(
        Line(label, [epsilons[at] for at in found], found, style, dots=True)
        for style, (label, found) in enumerate(places.items(), 1)
    )
    log = bool(needed) and max(epsilons) > _WIDE * min(epsilons)
    names = tuple(candidate.mechanism for candidate in needed)
    at_targets = Axis(f"ε at the targets (δ = {advice.delta:g})", log)
    left = Lines("what each mechanism needs", lines, at_targets, Axis("", ticks=names))
    prices = advice.prices[_MOST_DRAWN - 1 :: -1]
    shares, labels = [100 * price.elasticity for price in prices], [p.label for p in prices]
    costs = Line("", shares, range(len(prices)), 3, dots=True)
    ticks = tuple(shorten(label, _LONGEST_TICK, placeholder=" ...") for label in labels)
    x, y = Axis("share of the cost, per cent"), Axis("", ticks=ticks)
    right = Lines("what each target costs", (costs,), x, y)
    if not prices:
        margins = Line("", advice.answers.margins, advice.answers.half_widths, 3, dots=True)
        right = Lines("", (margins,), Axis("margin asked for"), Axis("margin reached"))
    size = (9.0, 3 + 0.25 * max(len(needed), 6))
    return Picture("advice", "", (left, right), size=size, digits=3)


def content(advice: Advice) -> dict[str, Any]:
    """The advice as content for JSON."""
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
    return {
        **{name: value for name, value in vars(advice).items() if name != "candidates"},
        "recommended": advice.recommended.mechanism,
        "mechanisms": [asdict(c) | {"privacy_cost": c.privacy_cost} for c in advice.candidates],
        "answers": pd.DataFrame(columns).to_dict("records"),
    }


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
        f"{_percent(best.excess, 'less than ')}."
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
    table = pd.DataFrame(
        {
            "mechanism": candidate.mechanism,
            "ε": _number(candidate.epsilon),
            "ε at δ = 0": _number(candidate.pure_epsilon).removesuffix("∞"),
            "Δ": _number(candidate.privacy_cost),
            "Δ² above least": _percent(candidate.excess),
            "ended": candidate.reason or "with an answer",
        }
        for candidate in advice.candidates
    )
    return Section(
        "What each mechanism needs",
        (
            f"ε at δ = {advice.delta:g}, ε at δ = 0 where the noise is not Gaussian, and Δ at "
            "which all targets are met, and by how much Δ² exceeds the certified least that any "
            "Gaussian mechanism needs.",
        ),
        table.set_index("mechanism"),
        first=0,
    )


def _prices(advice: Advice) -> Section:
    title = "What each target costs"
    if not advice.prices:
        return Section(title, (_UNPRICED,))
    sentences = [
        "A target's share is its elasticity: relax its variance by 1 % and Δ² falls by that share "
        "of 1 %. All shares sum to 100 %. They are those of an answer within "
        f"{_percent(advice.price_gap, 'less than ')} of the least possible Δ²."
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
    table = pd.DataFrame(
        {
            "target": price.label,
            "queries": f"{price.queries:,}",
            "variance asked": _number(price.target),
            "share of the cost": _percent(price.elasticity),
        }
        for price in advice.prices
    )
    return Section(title, tuple(sentences), table.set_index("target"), first=_DEAREST)


def _free(advice: Advice) -> Section:
    table = pd.DataFrame(
        {
            "query": answer.label,
            "standard error": _number(answer.standard_error),
            "how": "from the answers" if answer.derived else "with new noise",
        }
        for answer in advice.free
    )
    return Section(
        "What else comes free",
        (
            "These were not asked for, and can be published too, at no privacy cost: computed from "
            "the answers, or with new noise where some data are better protected than they need.",
        ),
        table.set_index("query"),
        first=0,
    )


def _answers(advice: Advice) -> Section:
    answers = advice.answers
    columns: dict[str, Any] = {
        "standard error": map(_number, answers.standard_errors),
        "confidence": (f"{confidence:.4g}" for confidence in answers.confidences),
        "interval": (f"± {_number(width)}" for width in answers.half_widths),
        "asked for": (f"± {_number(margin)}" for margin in answers.margins),
    }
    if advice.budget is not None:
        widths = advice.budget.variance_ratio**0.5 * answers.half_widths
        columns[f"± at ε = {advice.budget.epsilon:g}"] = (f"± {_number(width)}" for width in widths)
    return Section(
        "How accurate every answer is",
        (
            f"By '{advice.recommended.mechanism}' at ε = {_number(advice.recommended.epsilon)}. "
            "The true answer lies within ± of the published one with that confidence, each by "
            "itself.",
        ),
        pd.DataFrame(columns, pd.Index(answers.labels, name="query")),
    )


def _number(value: float) -> str:
    """Four significant digits, or all digits of a whole number."""
    if np.isnan(value):
        return ""
    if np.isinf(value):
        return "∞"
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def _percent(share: float, below: str = "<") -> str:
    if np.isnan(share):
        return ""
    if share >= _MOST_TIMES:
        return f"> {_MOST_TIMES} times"
    if 0 < abs(share) < 1e-5:
        return f"{below}0.001 %"
    return f"{100 * share:,.0f} %" if share >= 10 else f"{100 * share:.3g} %"
