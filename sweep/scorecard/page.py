"""The scorecard as Markdown: the generated sections of pages, and its summary for a terminal."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sweep.dataset.pivots import label_text, significant
from sweep.errors import SweepError
from sweep.experiment.canonical import Scalar
from sweep.scorecard.card import ClaimRow, NumberRow, Run, Scorecard
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

    text: str
    source: str
    reading: str
    claims: Sequence[ClaimRow]

    @cached_property
    def verdict(self) -> Verdict:
        """One for all its points: a share of all of them, or else the worst of its claims."""
        points = sum(claim.points for claim in self.claims)
        share = min(claim.share for claim in self.claims)
        if share < 1 and points:
            against = sum(claim.against for claim in self.claims)
            return Verdict.HOLDS if 1 - against / points >= share else Verdict.FAILS
        found = {claim.verdict for claim in self.claims}
        order = (Verdict.FAILS, Verdict.SLIP, Verdict.UNJUDGED, Verdict.VARIES, Verdict.FACTOR)
        return next((verdict for verdict in order if verdict in found), Verdict.HOLDS)

    @property
    def cause(self) -> str:
        """Why it does not hold; "" if nobody knows."""
        return next((text for one in self.claims if (text := one.slip or one.cause)), "")

    @property
    def where(self) -> str:
        """The verdicts of its claims that do not hold, with their reasons."""
        return "; ".join(
            ": ".join(
                filter(None, (claim.part or f"`{claim.experiment}`", claim.reason or claim.verdict))
            )
            for claim in self.claims
            if claim.verdict is not Verdict.HOLDS
        )


def sentences(claims: Sequence[ClaimRow]) -> list[Sentence]:
    """The claims by the sentence that they judge, in the order of its first."""
    found: dict[tuple[str, str, str], list[ClaimRow]] = {}
    for claim in claims:
        found.setdefault((claim.text, claim.source, claim.reading), []).append(claim)
    return [Sentence(*key, rows) for key, rows in found.items()]


def counted(numbers: Sequence[NumberRow], kind: str) -> list[NumberRow]:
    """The numbers of a kind, each once: not those that repeat another, and no 1 by definition."""
    return [
        row
        for row in numbers
        if row.kind == kind and not row.repeats and row.verdict is not Agreement.DEFINED
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
    run = card.of(*(run.experiment for run in card.runs if run.statuses))
    others = [
        f"{run.experiment}: not compared: {'; '.join(run.not_compared)}."
        for run in card.runs
        if run.not_compared
    ]
    return "\n\n".join(
        [_summary(card), *others, "**What was not reproduced**", _not_reproduced(run)]
    )


def _section(name: str, card: Scorecard) -> str:
    if name == _SUMMARY:
        return _summary(card)
    part = _of_source(card, name.removesuffix(_IN_SHORT))
    if name.endswith(_IN_SHORT):
        return _not_reproduced(part)
    return "\n\n".join([_table_of_runs(part.runs), *_experiments(part)]) if part.runs else "None."


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
    rows = [
        [name, *_tallies(part)]
        for name in (*PAPERS, _REST)
        if (part := _of_source(card, name)).runs
    ]
    papers = card.of(*(run.experiment for run in card.runs if run.source.startswith(PAPERS)))
    if len(rows) > 1:
        rows.insert(0, ["**the five papers**", *_tallies(papers)])
    return "\n\n".join([_provenance(card.runs), _table(heads, rows)])


def _tallies(card: Scorecard) -> list[str]:
    """How many numbers, then closed forms, then sentences, came to each verdict; "" for none."""
    printed = Counter(row.verdict for row in counted(card.numbers, "printed"))
    derived = Counter(row.verdict for row in counted(card.numbers, "closed form"))
    stated = [sentence for sentence in sentences(card.claims) if not sentence.reading]
    verdicts = Counter(sentence.verdict for sentence in stated)
    slips = {row.slip for row in card.numbers if row.verdict is Agreement.SLIP}
    slips |= {one.cause for one in stated if one.verdict is Verdict.SLIP}
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


def _provenance(runs: Sequence[Run]) -> str:
    """The code and the machines, in a line."""
    revisions = Counter(run.revision[:12] for run in runs if run.revision)
    machines = dict.fromkeys(run.machine for run in runs if run.machine)
    if not revisions:
        return "Nothing was run."
    counts = [
        f"{name} ({count} experiment{'s' * (count > 1)})" for name, count in revisions.most_common()
    ]
    return f"Computed at revision {', '.join(counts)} on {'; '.join(machines)}."


def _not_reproduced(card: Scorecard) -> str:
    """The numbers that differ and the sentences that do not hold, with their causes."""
    tables: dict[tuple[str, str], list[NumberRow]] = {}
    for row in (*counted(card.numbers, "printed"), *counted(card.numbers, "closed form")):
        tables.setdefault((row.experiment, row.table), []).append(row)
    lines = []
    for (experiment, name), rows in tables.items():
        differing = [row for row in rows if row.verdict is Agreement.DIFFERS]
        if differing:
            places = [
                f"{_place(row)} {row.printed} / {significant(row.median or 0.0)}"
                f" ({signed_percent(row.difference or 0.0)})"
                for row in differing
            ]
            lines.append(
                f"- ✗ {name} (`{experiment}`), {len(differing)} of {len(rows)}: "
                f"{'; '.join(places)}. {_cause(differing[0].cause)}"
            )
    lines += [
        f"- ✗ “{sentence.text}” ({sentence.source}) {sentence.verdict}. "
        f"{sentence.where}. {_cause(sentence.cause)}"
        for sentence in sentences(card.claims)
        if sentence.verdict in (Verdict.FAILS, Verdict.VARIES) and not sentence.reading
    ]
    return "\n".join(lines) or "Everything that was run agrees."


def _cause(text: str) -> str:
    return f"*{text[:1].upper()}{text[1:].removesuffix('.')}.*" if text else "*Unexplained.*"


def _place(row: NumberRow) -> str:
    axes = [f"{axis} = {label_text(at)}" for axis, at in row.at.items() if axis != "mechanism"]
    return ", ".join([_column(row), *axes])


def _table_of_runs(runs: Sequence[Run]) -> str:
    rows = [[f"`{run.experiment}`", _sizes(run), run.revision[:12]] for run in runs]
    return _table(["experiment", "run at", "revision"], rows)


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
    seeds = [f"{len(run.sizes['replicate'])} draws{fewer}"] if "replicate" in run.sizes else []
    kept = [] if run.left_out else ["all sizes"]
    return "; ".join([*kept, *cut, *seeds, *troubles, *others])


def _cut(axis: str, kept: Sequence[Scalar], gone: Sequence[Scalar]) -> str:
    if axis == "mechanism":
        return f"without {', '.join(map(str, gone))}"
    return f"{axis} = {_listed(kept)} (not {_listed(gone)})"


def _listed(labels: Sequence[Scalar]) -> str:
    shown = [label_text(label) for label in labels]
    return ", ".join(shown) if len(shown) < 5 else f"{shown[0]} … {shown[-1]}"


def _experiments(card: Scorecard) -> list[str]:
    """A part for every experiment: its tables, then the sentences that begin in it."""
    begun = sentences(card.claims)
    return [
        _experiment(run, card, [one for one in begun if one.claims[0].experiment == run.experiment])
        for run in card.runs
    ]


def _experiment(run: Run, card: Scorecard, begun: Sequence[Sentence]) -> str:
    parts = [f"**`{run.experiment}`**, {run.source}: {run.title}. Run at: {_sizes(run)}."]
    tables: dict[tuple[str, str, str], list[NumberRow]] = {}
    for row in card.of(run.experiment).numbers:
        tables.setdefault((row.kind, row.table, row.variable), []).append(row)
    parts += [_numbers(f"{name} ({kind})", rows) for (kind, name, _), rows in tables.items()]
    if begun:
        parts.append(_statements(begun))
    return "\n\n".join(parts)


def _numbers(name: str, rows: Sequence[NumberRow]) -> str:
    """A table of a paper: *printed / measured* and a mark in every cell."""
    axes = dict.fromkeys(axis for row in rows for axis in row.at if axis != "mechanism")
    down = [axis for axis in axes if len({row.at.get(axis) for row in rows}) > 1]
    by_definition = sorted(rows, key=lambda row: row.verdict is Agreement.DEFINED)
    columns = list(dict.fromkeys(_column(row) for row in by_definition))
    lines: dict[tuple[str, ...], dict[str, NumberRow]] = {}
    for row in rows:
        lines.setdefault(tuple(label_text(row.at[axis]) for axis in down), {})[_column(row)] = row
    has_factor = any(row.reference_factor for row in rows)
    body = [
        [
            *place,
            *(_cell(found[column]) if column in found else "" for column in columns),
            *([_reference_factor(found)] if has_factor else []),
        ]
        for place, found in lines.items()
    ]
    several = any(row.draws > 1 for row in rows)
    measured = "*printed / median of the draws (one more draw)*" if several else "*printed / ours*"
    factors = dict.fromkeys(f"{row.factor:.4g}" for row in rows if row.factor)
    most = max((row.gap for row in rows if row.gap is not None), default=None)
    remarks = [
        f"Factor: {', '.join(factors)}." if factors and not has_factor else "",
        f"Gap of the reference: at most {100 * most:.2g} %." if most is not None else "",
        *dict.fromkeys(f"? {row.reason}." for row in rows if row.verdict is Agreement.UNJUDGED),
        *dict.fromkeys(f"Slip: {row.slip}." for row in rows if row.verdict is Agreement.SLIP),
        *dict.fromkeys(
            f"✗ {_cause(row.cause)}" for row in rows if row.verdict is Agreement.DIFFERS
        ),
    ]
    note = " ".join([f"{name}, {measured}.", *filter(None, remarks)])
    heads = [*down, *columns, *(["f"] if has_factor else [])]
    return f"{note}\n\n{_table(heads, body)}"


def _reference_factor(line: Mapping[str, NumberRow]) -> str:
    factor = next((row.reference_factor for row in line.values() if row.reference_factor), None)
    return "" if factor is None else f"{factor:.4g}"


def _column(row: NumberRow) -> str:
    return label_text(row.at.get("mechanism", row.variable))


def _cell(row: NumberRow) -> str:
    if row.median is None:
        return f"{row.printed} {_MARKS[row.verdict]}".strip()
    if row.repeats:
        return f"{row.printed}, as {row.repeats}"
    measured = _words(measured_range(row.median, row.median, row.printed_range))
    if row.draws > 1 and row.verdict is not Agreement.DEFINED:
        measured += f" ({_words(measured_range(row.least, row.most, row.printed_range))})"
    off = ""
    if row.verdict is Agreement.DIFFERS and row.difference is not None:
        off = f" {signed_percent(row.difference)}{' after f' if row.factor else ''}"
    return f"{row.printed} / {measured} {_MARKS[row.verdict]}{off}".strip()


def _statements(shown: Sequence[Sentence]) -> str:
    """A sentence in a row, with every claim that judges it."""
    rows = []
    for sentence in shown:
        other = f"another reading: {sentence.reading}" if sentence.reading else ""
        judged: dict[str, list[str]] = {}
        for claim in sentence.claims:
            stated = (claim.states_least, claim.states_most)
            measured = _words(measured_range(claim.least, claim.most, stated))
            label = ", ".join(filter(None, (claim.part, f"`{claim.experiment}`")))
            told = ": ".join(filter(None, (claim.verdict, claim.reason)))
            several = len(sentence.claims) > 1
            text = " → ".join(filter(None, (measured, told if several else "")))
            judged.setdefault(_quantity(claim), []).append(f"{label}: {text}" if several else text)
        (first, *_) = sentence.claims
        reason = first.reason if len(sentence.claims) == 1 else ""
        cause = sentence.cause if sentence.verdict is not Verdict.HOLDS else ""
        verdict = ": ".join(filter(None, (f"**{sentence.verdict}**", reason)))
        if sentence.verdict in (Verdict.FAILS, Verdict.VARIES, Verdict.SLIP):
            verdict = f"{verdict}. {_cause(cause)}"
        rows.append(
            [
                f"{sentence.text} ({'; '.join(filter(None, (sentence.source, other)))})",
                "<br>".join(filter(None, judged)),
                _threshold(first),
                "<br>".join(text for texts in judged.values() for text in texts),
                verdict,
            ]
        )
    return _table(["sentence", "what is measured", "taken to mean", "measured", "verdict"], rows)


def _threshold(claim: ClaimRow) -> str:
    """The range that the sentence is taken to state."""
    if claim.variable and claim.states_least is None and claim.states_most is None:
        return "the printed number"
    share = f" at {100 * claim.share:.0f} % of the points" if claim.share < 1 else ""
    return f"{_words(stated_range(claim.states_least, claim.states_most))}{share}"


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
