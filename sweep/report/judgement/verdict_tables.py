"""The scorecard on a terminal: a summary, and everything that did not come back."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from sweep.report.judgement.agreement import Agreement, percent
from sweep.report.judgement.scorecard import NumberRow, Scorecard
from sweep.report.judgement.verdicts import Verdict, stated_range
from sweep.report.numbers.pivots import label_text

_NUMBERS = {
    "agree": (Agreement.AGREES,),
    "up to\nfactor": (Agreement.FACTOR,),
    "differ": (Agreement.DIFFERS,),
    "open": (Agreement.NOT_RUN, Agreement.UNJUDGED),
}
_CLAIMS = {
    "hold": (Verdict.HOLDS,),
    "vary": (Verdict.VARIES,),
    "fail": (Verdict.FAILS,),
    "open": (Verdict.UNJUDGED,),
}


def verdict_tables(card: Scorecard) -> list[Table]:
    """A summary, the numbers that differ, and the claims of what was run that do not hold.

    Returns
    -------
    list of rich.table.Table
        Tables without a row are left out.
    """
    tables = [_summary(card), _differing(card), _not_holding(card)]
    return [table for table in tables if table.row_count]


def _summary(card: Scorecard) -> Table:
    table = _table("Numbers of the papers, and claims")
    table.add_column("experiment", no_wrap=True)
    for head in (*(f"numbers\n{name}" for name in _NUMBERS), *(f"claims\n{n}" for n in _CLAIMS)):
        table.add_column(head, justify="right")
    for run in card.runs:
        table.add_row(run.experiment, *_counts(card.of(run.experiment)))
    table.add_section()
    table.add_row("all", *_counts(card))
    return table


def _counts(card: Scorecard) -> list[str]:
    numbers = Counter(str(row.verdict) for row in card.numbers)
    claims = Counter(str(row.verdict) for row in card.claims)
    return [
        *(_sum(numbers, wanted) for wanted in _NUMBERS.values()),
        *(_sum(claims, wanted) for wanted in _CLAIMS.values()),
    ]


def _sum(counts: Mapping[str, int], wanted: Iterable[str]) -> str:
    return str(sum(counts.get(one, 0) for one in wanted) or "")


def _differing(card: Scorecard) -> Table:
    table = _table("Numbers that differ")
    table.add_column("experiment", no_wrap=True)
    table.add_column("table", ratio=1)
    table.add_column("at", ratio=2)
    for name in ("stated", "measured", "difference"):
        table.add_column(name, justify="right")
    for row in card.numbers:
        if row.verdict is Agreement.DIFFERS:
            table.add_row(
                row.experiment,
                escape(row.table),
                escape(_at(row)),
                f"{row.stated:g}",
                stated_range(row.least, row.most),
                "" if row.difference is None else percent(row.difference),
            )
    return table


def _at(row: NumberRow) -> str:
    return ", ".join(f"{axis}={label_text(label)}" for axis, label in row.at.items())


def _not_holding(card: Scorecard) -> Table:
    table = _table("Claims that do not hold, or cannot be judged")
    table.add_column("experiment", no_wrap=True)
    table.add_column("sentence", ratio=2)
    table.add_column("states", justify="right")
    table.add_column("measured", justify="right")
    table.add_column("verdict", ratio=2)
    run = {one.experiment for one in card.runs if one.statuses}
    for row in card.claims:
        if row.verdict is not Verdict.HOLDS and row.experiment in run:
            table.add_row(
                row.experiment,
                escape(row.text),
                stated_range(row.states_least, row.states_most),
                stated_range(row.least, row.most),
                escape(": ".join(_filled((row.verdict, row.reason)))),
            )
    return table


def _filled(parts: Sequence[str]) -> list[str]:
    return [part for part in parts if part]


def _table(title: str) -> Table:
    return Table(
        title=title,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        padding=(0, 1, 0, 0),
        show_edge=False,
        pad_edge=False,
    )
