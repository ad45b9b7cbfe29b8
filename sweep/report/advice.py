"""Computes advice on a user's queries, and formats it for a terminal, as a page or as JSON."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import shorten

import numpy as np
import pandas as pd

from solvers.advice import Advice
from solvers.advice import advise as advise_on
from solvers.problem.neighbours import Written
from sweep.errors import SweepError
from sweep.report import drawing, output
from sweep.report.drawing import Line, Panel
from sweep.report.messages import counted
from sweep.report.tables import ResultTable
from workloads.queries import domain_of, from_queries, usual_queries

MOST_FURTHER = 2000
"""Largest total number of attribute values for which the advice looks for free queries."""


def advise(
    queries: str | Path | Mapping[str, Sequence[object]] | pd.DataFrame,
    domain: str | Path | Mapping[str, object],
    *,
    delta: float,
    epsilon: float | None = None,
    mechanisms: Sequence[str] | None = None,
    time_limit: float = 90.0,
    neighbours: Written = "add-remove",
    progress: Callable[[str], None] = lambda step: None,
) -> Advice:
    """Compute what queries with targets cost, the price of each target, and what comes for free.

    Parameters
    ----------
    queries : str, pathlib.Path or pandas.DataFrame
        A CSV file, or a table, with one query in each row.
    domain : str, pathlib.Path or mapping
        A YAML file, or a mapping, with the values of each attribute.
    delta, epsilon, mechanisms, time_limit, neighbours, progress
        See `solvers.advice.advise`.

    Raises
    ------
    WorkloadError
        If the queries or the domain are not valid; for a file, the message names line and column.
    SolverError
        See `solvers.advice.advise`.
    """
    attributes = domain_of(domain)
    further = usual_queries(attributes) if sum(attributes.sizes) <= MOST_FURTHER else None
    return advise_on(
        from_queries(queries, attributes),
        delta=delta,
        epsilon=epsilon,
        mechanisms=mechanisms,
        further=further,
        time_limit=time_limit,
        neighbours=neighbours,
        progress=progress,
    )


_MOST_TIMES = 1000
"""Ratio from which on an excess is shown as "> 1000 times": its digits say no more."""
_MOST_DRAWN = 12
"""Most bars in a panel, so that their labels can be read."""


def write_sections(advice: Advice) -> dict[str, ResultTable]:
    """Return the sections of the advice by name, in reading order.

    A section has a title, sentences (the table's notes) and a table. The table of the first section
    is empty. A section without sentences is left out.
    """
    helpers = {
        "number": _format_number,
        "percent": _format_percent,
        "counted": counted,
        "finite": np.isfinite,
    }
    text = output.render_blocks("advice.j2", advice=advice, **helpers)
    parts = {}
    for name, columns in _write_columns(advice).items():
        title, *sentences = text[name]
        if sentences:
            shown = pd.DataFrame(columns).set_index(list(columns)[:1])
            parts[name] = ResultTable(title, pd.DataFrame(), shown, tuple(sentences))
    return parts


def render_page(advice: Advice, title: str) -> str:
    """Return the advice as an HTML page; without matplotlib, it says why there is no picture."""
    picture = undrawn = ""
    try:
        picture = _draw(advice).address()
    except SweepError as error:
        undrawn = str(error)
    sections = write_sections(advice)
    return output.render(
        "advice.html", title=title, sections=sections, picture=picture, undrawn=undrawn
    )


def _draw(advice: Advice) -> drawing.Picture:
    """Draw the ε that mechanisms need, and beside it the prices of the most expensive targets."""
    needed = [candidate for candidate in advice.candidates if np.isfinite(candidate.epsilon)]
    drawn = {
        f"ε at the targets (δ = {advice.delta:g})": [(c.mechanism, c.epsilon) for c in needed],
        "share of the cost, per cent": [(p.label, 100 * p.elasticity) for p in advice.prices],
    }
    panels = []
    for what, bars in drawn.items():
        ys = [y for _, y in bars[:_MOST_DRAWN]]
        names = [shorten(name, 32, placeholder=" ...") for name, _ in bars[:_MOST_DRAWN]]
        line = Line("", range(len(ys)), ys, dots=True)
        panels += [Panel("", [line], {"ylabel": what}, names)] if ys else []
    return drawing.draw("advice", panels, size=(9.0, 4.5), digits=3)


def list_content(advice: Advice) -> dict[str, object]:
    """Return the advice as a dictionary that can be written as JSON."""
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


def _write_columns(advice: Advice) -> dict[str, dict[str, Iterable[str]]]:
    """Return the columns of every section's table; the first column labels the rows."""
    prices, answers, candidates = advice.prices, advice.answers, advice.candidates
    columns: dict[str, Iterable[str]] = {
        "query": answers.labels,
        "standard error": map(_format_number, answers.standard_errors),
        "confidence": (f"{confidence:.4g}" for confidence in answers.confidences),
        "interval": (f"± {_format_number(width)}" for width in answers.half_widths),
        "asked for": (f"± {_format_number(margin)}" for margin in answers.margins),
    }
    if advice.budget is not None:
        widths = advice.budget.variance_ratio_at_budget**0.5 * answers.half_widths
        heading = f"± at ε = {advice.budget.epsilon:g}"
        columns[heading] = (f"± {_format_number(width)}" for width in widths)
    return {
        "short": {"": ()},
        "prices": {
            "target": (price.label for price in prices),
            "queries": (f"{price.queries:,}" for price in prices),
            "variance asked": (_format_number(price.target) for price in prices),
            "share of the cost": (_format_percent(price.elasticity) for price in prices),
        },
        "answers": columns,
        "mechanisms": {
            "mechanism": (one.mechanism for one in candidates),
            "ε": (_format_number(one.epsilon) for one in candidates),
            "ε at δ = 0": (_format_number(c.pure_epsilon).removesuffix("∞") for c in candidates),
            "Δ": (_format_number(one.privacy_cost) for one in candidates),
            "Δ² above least": (_format_percent(one.excess) for one in candidates),
            "ended": (one.reason or "with an answer" for one in candidates),
        },
        "free": {
            "query": (one.label for one in advice.free),
            "standard error": (_format_number(one.standard_error) for one in advice.free),
            "how": ("from the answers" if one.derived else "with new noise" for one in advice.free),
        },
    }


def _format_number(value: float) -> str:
    """Format a number with four significant digits; from 10,000 on, as a whole number."""
    if np.isnan(value):
        return ""
    if np.isinf(value):
        return "∞"
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def _format_percent(share: float, below: str = "<") -> str:
    if np.isnan(share):
        return ""
    if share >= _MOST_TIMES:
        return f"> {_MOST_TIMES} times"
    if 0 < abs(share) < 1e-5:
        return f"{below}0.001 %"
    return f"{100 * share:,.0f} %" if share >= 10 else f"{100 * share:.3g} %"
