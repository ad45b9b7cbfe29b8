"""The scorecard as Markdown: the generated sections of pages, and its summary for a terminal."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sweep.dataset.pivots import label_text
from sweep.errors import SweepError
from sweep.experiment.schema import Claim
from sweep.scorecard.card import ClaimRow, NumberRow, Scorecard, listed
from sweep.scorecard.claims import Verdict, measured_range, stated_range
from sweep.scorecard.numbers import Agreement, signed_percent

_SECTION = re.compile(r"<!-- scorecard: (.+?) -->\n.*?<!-- end of scorecard -->\n", re.DOTALL)
_SUMMARY = "summary"
_REST = "other sources"
_IN_SHORT = ", in short"
PAPERS = ("PVLDB 14(10)", "arXiv v1", "KDD 2016", "POST 2013", "Farokhi and Sandberg")
"""What the sources of their experiments begin with."""

_MARKS = {
    Agreement.AGREES: "✓",
    Agreement.FACTOR: "≈",
    Agreement.DIFFERS: "✗",
    Agreement.SLIP: "slip",
    Agreement.DEFINED: "",
    Agreement.NOT_RUN: "–",
    Agreement.UNJUDGED: "?",
}
_OPEN = (Agreement.NOT_RUN, Agreement.UNJUDGED)


@dataclass(frozen=True)
class Sentence:
    """A sentence of a paper: the claims that judge it, maybe in several experiments."""

    rows: Sequence[ClaimRow]

    @property
    def claim(self) -> Claim:
        """The first of its claims: all have its text, source and reading."""
        return self.rows[0].claim

    @cached_property
    def verdict(self) -> Verdict:
        """One for all its points: a share of all of them, or else the worst of its claims."""
        points = sum(row.judgement.points for row in self.rows)
        share = min(row.claim.share for row in self.rows)
        if share < 1 and points:
            against = sum(row.judgement.against for row in self.rows)
            return Verdict.HOLDS if 1 - against / points >= share else Verdict.FAILS
        found = {row.judgement.verdict for row in self.rows}
        order = (Verdict.FAILS, Verdict.SLIP, Verdict.UNJUDGED, Verdict.VARIES, Verdict.FACTOR)
        return next((verdict for verdict in order if verdict in found), Verdict.HOLDS)

    @property
    def cause(self) -> str:
        """Why it does not hold, in italics."""
        known = (row.claim.slip or row.claim.cause for row in self.rows)
        return _cause(next(filter(None, known), ""))


def sentences(rows: Sequence[ClaimRow]) -> list[Sentence]:
    """The claims by the sentence that they judge, in the order of its first."""
    found: dict[tuple[str, str, str], list[ClaimRow]] = {}
    for row in rows:
        key = (row.claim.text, row.claim.source, row.claim.reading)
        found.setdefault(key, []).append(row)
    return [Sentence(rows) for rows in found.values()]


def counted(rows: Sequence[NumberRow], kind: str) -> list[NumberRow]:
    """The numbers of a kind, each once: not those that repeat another, and no 1 by definition."""
    return [
        row
        for row in rows
        if row.kind == kind
        and not row.number.repeats
        and row.number.agreement is not Agreement.DEFINED
    ]


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


def names(page: str) -> list[str]:
    """The names of a page's marked sections."""
    return [match[1] for match in _SECTION.finditer(page)]


def filled(page: str, card: Scorecard) -> str:
    """A page with its marked sections regenerated.

    A section stands between ``<!-- scorecard: NAME -->`` and ``<!-- end of scorecard -->``. NAME
    is ``summary``, the beginning of the sources whose experiments it shows, the same with ``, in
    short`` for what was not reproduced of them, or ``other sources`` for all but `PAPERS`.

    Raises
    ------
    SweepError
        If the page has no such section.
    """
    if not names(page):
        raise SweepError(
            "the page has no section '<!-- scorecard: summary -->' that ends with "
            "'<!-- end of scorecard -->'; there is nothing to fill in"
        )

    def section(match: re.Match[str]) -> str:
        text = _section(match[1], card)
        return f"<!-- scorecard: {match[1]} -->\n{text}\n<!-- end of scorecard -->\n"

    return _SECTION.sub(section, page)


def markdown(card: Scorecard) -> str:
    """The whole scorecard: the summary, then every experiment."""
    return "\n\n".join([_summary(card), *_experiments(card)]) + "\n"


def brief(card: Scorecard) -> str:
    """The summary, and what of the experiments that were run was not reproduced."""
    run = [run for run in card.runs if run.statuses]
    others = [f"`{r.experiment}`: {r.run_at}." for r in run if "not compared" in r.run_at]
    part = card.of(*(one.experiment for one in run))
    parts = [_summary(card), *others, "**What was not reproduced**", _not_reproduced(part)]
    return "\n\n".join(parts)


def _section(name: str, card: Scorecard) -> str:
    if name == _SUMMARY:
        return _summary(card)
    part = _of_source(card, name.removesuffix(_IN_SHORT))
    if name.endswith(_IN_SHORT):
        return _not_reproduced(part)
    if not part.runs:
        return "None."
    rows = [[f"`{run.experiment}`", run.run_at, run.revision[:12]] for run in part.runs]
    return "\n\n".join([_table(["experiment", "run at", "revision"], rows), *_experiments(part)])


def _of_source(card: Scorecard, name: str) -> Scorecard:
    begins = PAPERS if name == _REST else name
    shown = (r.experiment for r in card.runs if r.source.startswith(begins) != (name == _REST))
    return card.of(*shown)


def _summary(card: Scorecard) -> str:
    """How much of each paper was reproduced, and by which code."""
    heads = [
        *("source", "printed numbers ✓", "≈", "✗", "open", "closed forms ✓", "✗", "open"),
        *("sentences hold", "≈", "vary", "fail", "open", "slips"),
    ]
    parts = {name: _of_source(card, name) for name in (*PAPERS, _REST)}
    rows = [[name, *_tallies(part)] for name, part in parts.items() if part.runs]
    if len(rows) > 1:
        papers = card.of(*(run.experiment for name in PAPERS for run in parts[name].runs))
        rows.insert(0, ["**the five papers**", *_tallies(papers)])
    revisions = Counter(run.revision[:12] for run in card.runs if run.revision)
    machines = dict.fromkeys(run.machine for run in card.runs if run.machine)
    counts = [f"{name} ({n} experiment{'s' * (n > 1)})" for name, n in revisions.most_common()]
    by = f"Computed at revision {', '.join(counts)} on {'; '.join(machines)}."
    return f"{by if counts else 'Nothing was run.'}\n\n{_table(heads, rows)}"


def _tallies(card: Scorecard) -> list[str]:
    """How many numbers, then closed forms, then sentences, came to each verdict; "" for none."""
    printed, derived = (
        Counter(row.number.agreement for row in counted(card.numbers, kind))
        for kind in ("printed", "closed form")
    )
    stated = [sentence for sentence in sentences(card.claims) if not sentence.claim.reading]
    verdicts = Counter(sentence.verdict for sentence in stated)
    slips = {row.slip for row in card.numbers if row.number.agreement is Agreement.SLIP}
    slips |= {sentence.cause for sentence in stated if sentence.verdict is Verdict.SLIP}
    counts = [
        *(printed[one] for one in (Agreement.AGREES, Agreement.FACTOR, Agreement.DIFFERS)),
        sum(printed[one] for one in _OPEN),
        *(derived[one] for one in (Agreement.AGREES, Agreement.DIFFERS)),
        sum(derived[one] for one in _OPEN),
        *(verdicts[one] for one in (Verdict.HOLDS, Verdict.FACTOR, Verdict.VARIES)),
        *(verdicts[one] for one in (Verdict.FAILS, Verdict.UNJUDGED)),
        len(slips),
    ]
    return [str(count or "") for count in counts]


def _not_reproduced(card: Scorecard) -> str:
    """The numbers that differ and the sentences that fail, with their causes."""
    tables: dict[tuple[str, str, str], list[str]] = {}
    for row in (*counted(card.numbers, "printed"), *counted(card.numbers, "closed form")):
        if row.number.agreement is Agreement.DIFFERS:
            axes = [f"{k} = {label_text(v)}" for k, v in row.number.at.items() if k != "mechanism"]
            place = f"{', '.join([_column(row), *axes])}: {_cell(row)}"
            tables.setdefault((row.table, row.experiment, row.cause), []).append(place)
    lines = [
        f"- {name} (`{experiment}`): {'; '.join(places)}. {_cause(cause)}"
        for (name, experiment, cause), places in tables.items()
    ]
    for sentence in sentences(card.claims):
        if sentence.verdict is Verdict.FAILS and not sentence.claim.reading:
            bad = [row for row in sentence.rows if row.judgement.verdict is Verdict.FAILS]
            where = dict.fromkeys(row.claim.part or f"`{row.experiment}`" for row in bad)
            lines.append(
                f"- “{sentence.claim.text}” ({sentence.claim.source}) fails "
                f"({', '.join(where)}). {sentence.cause}"
            )
    return "\n".join(lines) or "Nothing of what was run."


def _cause(text: str) -> str:
    return f"*{text[:1].upper()}{text[1:].removesuffix('.')}.*" if text else "*Unexplained.*"


def _experiments(card: Scorecard) -> list[str]:
    """A part for every experiment: its tables, then the sentences that begin in it."""
    begun = sentences(card.claims)
    parts = []
    for run in card.runs:
        parts.append(f"**`{run.experiment}`**, {run.source}: {run.title}. Run at: {run.run_at}.")
        tables: dict[tuple[str, str, str], list[NumberRow]] = {}
        for row in card.of(run.experiment).numbers:
            tables.setdefault((row.kind, row.table, row.variable), []).append(row)
        parts += [_numbers(f"{name} ({kind})", rows) for (kind, name, _), rows in tables.items()]
        own = [sentence for sentence in begun if sentence.rows[0].experiment == run.experiment]
        parts += [_statements(own)] if own else []
    return parts


def _numbers(name: str, rows: Sequence[NumberRow]) -> str:
    """A table of a paper: *printed / measured* and a mark in every cell."""
    axes = dict.fromkeys(axis for row in rows for axis in row.number.at if axis != "mechanism")
    down = [axis for axis in axes if len({row.number.at.get(axis) for row in rows}) > 1]
    by_definition = sorted(rows, key=lambda row: row.number.agreement is Agreement.DEFINED)
    columns = list(dict.fromkeys(_column(row) for row in by_definition))
    lines: dict[tuple[str, ...], dict[str, NumberRow]] = {}
    for row in rows:
        place = tuple(label_text(row.number.at[axis]) for axis in down)
        lines.setdefault(place, {})[_column(row)] = row
    with_factor = [row for row in rows if row.number.reference_factor is not None]
    body = []
    for place, found in lines.items():
        cells = [_cell(found[column]) if column in found else "" for column in columns]
        factors = [
            f"{row.number.reference_factor:.4g}" for row in with_factor if row in found.values()
        ]
        body.append([*place, *cells, *([next(iter(factors), "")] if with_factor else [])])
    several = any(row.number.draws > 1 for row in rows)
    measured = "*printed / median of the draws (one more draw)*" if several else "*printed / ours*"
    applied = dict.fromkeys(f"{row.number.factor:.4g}" for row in rows if row.number.factor)
    gaps = [row.number.gap for row in rows if row.number.gap is not None]
    of = {mark: [row for row in rows if row.number.agreement is mark] for mark in _MARKS}
    remarks = [
        f"Factor: {', '.join(applied)}." if applied else "",
        f"Gap of the reference: at most {100 * max(gaps):.2g} %." if gaps else "",
        *dict.fromkeys(f"? {row.number.reason}." for row in of[Agreement.UNJUDGED]),
        *dict.fromkeys(f"Slip: {row.slip}." for row in of[Agreement.SLIP]),
        *dict.fromkeys(f"✗ {_cause(row.cause)}" for row in of[Agreement.DIFFERS]),
    ]
    note = " ".join([f"{name}, {measured}.", *filter(None, remarks)])
    heads = [*down, *columns, *(["f of SM-II (published)"] if with_factor else [])]
    return f"{note}\n\n{_table(heads, body)}"


def _column(row: NumberRow) -> str:
    return label_text(row.number.at.get("mechanism", row.variable))


def _cell(row: NumberRow) -> str:
    number = row.number
    mark = _MARKS[number.agreement]
    if number.median is None:
        return f"{number.printed} {mark}".strip()
    if number.repeats:
        return f"{number.printed}, as {number.repeats}"
    ends = (number.stated - number.rounding, number.stated + number.rounding)
    measured = measured_range(number.median, number.median, ends)
    decimals = len(number.printed.partition(".")[2])
    if abs(number.median) >= 10.0 ** (4 - decimals):  # four digits are fewer than are printed
        measured = f"{number.median:.{decimals}f}"
    if number.draws > 1 and number.agreement is not Agreement.DEFINED:
        measured += f" ({_words(measured_range(number.least, number.most, ends))})"
    if number.agreement is Agreement.DIFFERS and number.difference is not None:
        mark += f" {signed_percent(number.difference)}{' after f' if number.factor else ''}"
    return f"{number.printed} / {measured} {mark}".strip()


def _statements(shown: Sequence[Sentence]) -> str:
    """A sentence in a row, with what every claim that judges it has measured."""
    rows = []
    for sentence in shown:
        first = sentence.claim
        reading = f"; another reading: {first.reading}" if first.reading else ""
        judged = []
        for row in sentence.rows:
            claim, found = row.claim, row.judgement
            measured = _words(measured_range(found.least, found.most, (claim.least, claim.most)))
            told = ": ".join(filter(None, (found.verdict, found.reason)))
            where = claim.part or (f"`{row.experiment}`" if len(sentence.rows) > 1 else "")
            judged.append("; ".join(filter(None, (where, measured, told))))
        explained = sentence.verdict in (Verdict.FAILS, Verdict.SLIP)
        cause = f". {sentence.cause}" if explained else ""
        rows.append(
            [
                f"{first.text} ({first.source}{reading})",
                "<br>".join(dict.fromkeys(_quantity(row.claim) for row in sentence.rows)),
                _threshold(first),
                "<br>".join(judged),
                f"**{sentence.verdict}**{cause}",
            ]
        )
    return _table(["sentence", "what is measured", "taken to mean", "measured", "verdict"], rows)


def _threshold(claim: Claim) -> str:
    """The range that the sentence is taken to state."""
    if claim.repeats_number:
        return "the printed number"
    share = f" at {100 * claim.share:.0f} % of the points" if claim.share < 1 else ""
    return f"{_words(stated_range(claim.least, claim.most))}{share}"


def _quantity(claim: Claim) -> str:
    if claim.variable is None:
        return ""
    chosen = [
        f"{axis} = {listed(labels)}" if axis != "mechanism" else ", ".join(map(str, labels))
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
