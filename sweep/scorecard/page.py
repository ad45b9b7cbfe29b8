"""The scorecard as Markdown: the generated sections of a page."""

import re
from collections.abc import Sequence
from pathlib import Path

from sweep.dataset.pivots import label_text
from sweep.errors import SweepError
from sweep.experiment.canonical import Scalar
from sweep.scorecard.card import ClaimRow, NumberRow, Run, Scorecard
from sweep.scorecard.claims import Verdict, measured_range, stated_range
from sweep.scorecard.numbers import Agreement, signed_percent

_SECTION = re.compile(r"<!-- scorecard: (.+?) -->\n.*?<!-- end of scorecard -->\n", re.DOTALL)
_SUMMARY = "summary"
_REST = "other sources"

_MARKS = {
    Agreement.AGREES: "✓",
    Agreement.FACTOR: "≈",
    Agreement.DIFFERS: "✗",
    Agreement.DEFINED: "",
    Agreement.NOT_RUN: "–",
    Agreement.UNJUDGED: "?",
}


def read(path: Path) -> str:
    """The text of a page.

    Raises
    ------
    SweepError
        If it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SweepError(
            f"page {str(path)!r} cannot be read ({error}); a page has to exist, with sections "
            "'<!-- scorecard: NAME -->' to fill in"
        ) from error


def filled(page: str, card: Scorecard) -> str:
    """A page with its marked sections regenerated.

    A section stands between ``<!-- scorecard: NAME -->`` and ``<!-- end of scorecard -->``. NAME
    is ``summary``, the beginning of the sources whose experiments it shows, or ``other sources``
    for those that no other section shows.

    Raises
    ------
    SweepError
        If the page has no such section.
    """
    names = [match[1] for match in _SECTION.finditer(page)]
    if not names:
        raise SweepError(
            "the page has no section '<!-- scorecard: summary -->' that ends with "
            "'<!-- end of scorecard -->'; there is nothing to fill in"
        )
    sources = [name for name in names if name not in (_SUMMARY, _REST)]

    def section(match: re.Match[str]) -> str:
        text = _section(match[1], card, sources)
        return f"<!-- scorecard: {match[1]} -->\n{text}\n<!-- end of scorecard -->\n"

    return _SECTION.sub(section, page)


def markdown(card: Scorecard) -> str:
    """The whole scorecard: the summary, then every experiment."""
    return "\n\n".join([_summary(card), *(_experiment(run, card) for run in card.runs)]) + "\n"


def brief(card: Scorecard) -> str:
    """The summary, the numbers that differ, and the claims of what was run that do not hold."""
    differing = [
        [row.experiment, row.table, _place(row), printed(row.stated), _measured(row)]
        for row in card.numbers
        if row.verdict is Agreement.DIFFERS
    ]
    run = {run.experiment for run in card.runs if run.statuses}
    failing = [row for row in card.claims if row.verdict is not Verdict.HOLDS]
    parts = [_summary(card)]
    if differing:
        heads = ["experiment", "table", "at", "stated", "measured"]
        parts += ["**Numbers that differ**", _table(heads, differing)]
    if failing := [row for row in failing if row.experiment in run]:
        parts += ["**Claims that do not hold, or cannot be judged**", _claims(failing)]
    return "\n\n".join(parts)


def _place(row: NumberRow) -> str:
    return ", ".join(f"{axis}={label_text(label)}" for axis, label in row.at.items())


def _measured(row: NumberRow) -> str:
    return measured_range(row.least, row.most, row.printed_range)


def printed(value: float) -> str:
    """A number of a paper as it prints it: with two decimals if these suffice."""
    return f"{value:.2f}" if round(value, 2) == value else f"{value:.12g}"


def _section(name: str, card: Scorecard, sources: Sequence[str]) -> str:
    if name == _SUMMARY:
        return _summary(card)
    begins = tuple(sources) if name == _REST else name
    shown = [run for run in card.runs if run.source.startswith(begins) != (name == _REST)]
    return "\n\n".join(_experiment(run, card) for run in shown) or "None."


def _summary(card: Scorecard) -> str:
    """How each experiment was run, and how many of its numbers and claims were reproduced."""
    rows = [
        [f"`{run.experiment}`", *card.of(run.experiment).tallies, _sizes(run)] for run in card.runs
    ]
    totals = ["**all**", *card.tallies, ""]
    heads = ["experiment", *_NUMBER_HEADS, *_CLAIM_HEADS, "run at"]
    return "\n\n".join([_provenance(card.runs), _table(heads, [totals, *rows])])


_NUMBER_HEADS = ("numbers ✓", "≈", "✗", "not run")
_CLAIM_HEADS = ("claims hold", "vary", "fail", "open")


def _provenance(runs: Sequence[Run]) -> str:
    """The code and the machines, in a line."""
    revisions = dict.fromkeys(run.revision[:12] for run in runs if run.revision)
    machines = dict.fromkeys(run.machine for run in runs if run.machine)
    if not revisions:
        return "Nothing was run."
    return f"Computed at revision {', '.join(revisions)} on {'; '.join(machines)}."


def _sizes(run: Run) -> str:
    """The sizes of an experiment that were run, and those that were not."""
    others = [f"not compared: {text}" for text in run.not_compared]
    if not run.statuses:
        return "; ".join(["not run", *others])
    cut = [
        _cut(axis, run.sizes.get(axis, []), gone)
        for axis, gone in run.left_out.items()
        if axis != "replicate"
    ]
    troubles = [
        f"{count} {name.replace('_', ' ')}"
        for name, count in run.statuses.items()
        if name not in ("ok", "not_applicable")
    ]
    cut += [f"without {', '.join(run.without)}"] if run.without else []
    fewer = f" ({', '.join(run.fewer_seeds)})" if run.fewer_seeds else ""
    seeds = [f"{len(run.sizes['replicate'])} seeds{fewer}"] if "replicate" in run.sizes else []
    kept = [] if run.left_out else ["all sizes"]
    return "; ".join([*kept, *cut, *seeds, *troubles, *others])


def _cut(axis: str, kept: Sequence[Scalar], gone: Sequence[Scalar]) -> str:
    if axis == "mechanism":
        return f"without {', '.join(map(str, gone))}"
    return f"{axis} = {_listed(kept)} (not {_listed(gone)})"


def _listed(labels: Sequence[Scalar]) -> str:
    shown = [label_text(label) for label in labels]
    return ", ".join(shown) if len(shown) < 5 else f"{shown[0]} … {shown[-1]}"


def _experiment(run: Run, card: Scorecard) -> str:
    part = card.of(run.experiment)
    parts = [f"**`{run.experiment}`**, {run.source}: {run.title}. Run at: {_sizes(run)}."]
    tables: dict[tuple[str, str, str], list[NumberRow]] = {}
    for row in part.numbers:
        tables.setdefault((row.kind, row.table, row.variable), []).append(row)
    parts += [_numbers(f"{name} ({kind})", rows) for (kind, name, _), rows in tables.items()]
    if part.claims:
        parts.append(_claims(part.claims))
    return "\n\n".join(parts)


def _numbers(name: str, rows: Sequence[NumberRow]) -> str:
    """A table of a paper: *stated / measured* and a mark in every cell."""
    axes = dict.fromkeys(axis for row in rows for axis in row.at if axis != "mechanism")
    down = [axis for axis in axes if len({row.at.get(axis) for row in rows}) > 1]
    columns = list(dict.fromkeys(_column(row) for row in rows))
    lines: dict[tuple[str, ...], dict[str, NumberRow]] = {}
    for row in rows:
        lines.setdefault(tuple(label_text(row.at[axis]) for axis in down), {})[_column(row)] = row
    body = [
        [*place, *(_cell(found[column]) if column in found else "" for column in columns)]
        for place, found in lines.items()
    ]
    factors = dict.fromkeys(f"{row.factor:.4g}" for row in rows if row.factor)
    remark = f" Factor: {', '.join(factors)}." if factors else ""
    most = max((row.gap for row in rows if row.gap is not None), default=None)
    of_gap = f" Gap of the reference: at most {100 * most:.2g} %." if most is not None else ""
    note = f"{name}, *stated / measured*.{remark}{of_gap}"
    return f"{note}\n\n{_table([*down, *columns], body)}"


def _column(row: NumberRow) -> str:
    return label_text(row.at.get("mechanism", row.variable))


def _cell(row: NumberRow) -> str:
    mark = _MARKS[row.verdict]
    stated = printed(row.stated)
    if row.least is None:
        return f"{stated} {mark}".strip()
    measured = _words(measured_range(row.least, row.most, row.printed_range))
    off = ""
    if row.verdict is Agreement.DIFFERS and row.difference is not None:
        off = f" {signed_percent(row.difference)}{' after it' if row.factor else ''}"
    return f"{stated} / {measured} {mark}{off}".strip()


def _claims(claims: Sequence[ClaimRow]) -> str:
    rows = [
        [
            f"{claim.text} ({claim.source})",
            _quantity(claim),
            _words(stated_range(*stated)),
            _words(measured_range(claim.least, claim.most, stated)),
            f"**{claim.verdict}**" + (f": {claim.reason}" if claim.reason else ""),
        ]
        for claim in claims
        for stated in [(claim.states_least, claim.states_most)]
    ]
    return _table(["sentence", "what is measured", "states", "measured", "verdict"], rows)


def _quantity(claim: ClaimRow) -> str:
    if claim.variable is None:
        return ""
    chosen = [
        f"{axis} = {_listed(labels)}" if axis != "mechanism" else ", ".join(map(str, labels))
        for axis, labels in claim.at.items()
    ]
    of = f" of {'; '.join(chosen)}" if chosen else ""
    over = f" divided by {claim.over}'s" if claim.over is not None else ""
    along = f", each divided by the one before it along {claim.along}" if claim.along else ""
    return f"`{claim.variable}`{of}{over}{along}"


def _words(range_: str) -> str:
    return range_.replace("<=", "≤").replace(">=", "≥").replace(" to ", "–")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    safe = ([text.replace("|", "\\|").replace("\n", " ") for text in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in safe)
