"""The scorecard on a terminal: a summary, and everything that was not reproduced."""

from rich.markup import escape
from rich.table import Table

from sweep.report import consoles, layout
from sweep.report.frames import label_text
from sweep.report.judgement.agreement import Agreement, signed_percent
from sweep.report.judgement.scorecard import Scorecard
from sweep.report.judgement.verdicts import Verdict, measured_range, stated_range

_HEADS = ("agree", "up to\nfactor", "differ", "open"), ("hold", "vary", "fail", "open")


def verdict_tables(card: Scorecard) -> list[Table]:
    """A summary, the numbers that differ, and the claims of what was run that do not hold.

    Tables without a row are left out.
    """
    tables = [_summary(card), _differing(card), _not_holding(card)]
    return [table for table in tables if table.row_count]


def _by_experiment(title: str) -> Table:
    table = Table(title=title, **consoles.TABLE)
    table.add_column("experiment", no_wrap=True)
    return table


def _summary(card: Scorecard) -> Table:
    table = _by_experiment("Numbers of the papers, and claims")
    for what, heads in zip(("numbers", "claims"), _HEADS, strict=True):
        for head in heads:
            table.add_column(f"{what}\n{head}", justify="right")
    for run in card.runs:
        table.add_row(run.experiment, *card.of(run.experiment).tallies)
    table.add_section()
    table.add_row("all", *card.tallies)
    others = [
        f"{run.experiment}: not compared: {'; '.join(run.not_compared)}."
        for run in card.runs
        if run.not_compared
    ]
    table.caption = escape("\n".join(others)) or None
    return table


def _differing(card: Scorecard) -> Table:
    table = _by_experiment("Numbers that differ")
    table.add_column("table", ratio=1)
    table.add_column("at", ratio=2)
    for name in ("stated", "measured", "difference"):
        table.add_column(name, justify="right")
    for row in card.numbers:
        if row.verdict is Agreement.DIFFERS:
            table.add_row(
                row.experiment,
                escape(row.table),
                escape(", ".join(f"{axis}={label_text(label)}" for axis, label in row.at.items())),
                layout.printed(row.stated),
                measured_range(row.least, row.most, row.printed_range),
                "" if row.difference is None else signed_percent(row.difference),
            )
    return table


def _not_holding(card: Scorecard) -> Table:
    table = _by_experiment("Claims that do not hold, or cannot be judged")
    table.add_column("sentence", ratio=2)
    table.add_column("states", justify="right")
    table.add_column("measured", justify="right")
    table.add_column("verdict", ratio=2)
    run = {run.experiment for run in card.runs if run.statuses}
    for row in card.claims:
        if row.verdict is not Verdict.HOLDS and row.experiment in run:
            table.add_row(
                row.experiment,
                escape(row.text),
                stated_range(row.states_least, row.states_most),
                measured_range(row.least, row.most, (row.states_least, row.states_most)),
                escape(": ".join(filter(None, (row.verdict, row.reason)))),
            )
    return table
