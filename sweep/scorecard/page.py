"""The scorecard as Markdown: sections that are filled in on pages, and a summary for a terminal."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from sweep.dataset.pivots import label_text
from sweep.errors import SweepError
from sweep.experiment.files import read_text_file
from sweep.experiment.schema import Claim
from sweep.scorecard.card import ClaimRow, Run, Scorecard, format_labels
from sweep.scorecard.claims import find_worst, format_range
from sweep.scorecard.numbers import NOT_RUN, OTHER_READING, Compared, Verdict

SECTION = re.compile(r"<!-- scorecard: (.+?) -->\n.*?<!-- end of scorecard -->\n", re.DOTALL)
"""Matches a marked section of a page; group 1 is the section's name."""
_IN_SHORT = ", in short"
PAPERS = ("PVLDB 14(10)", "arXiv v1", "KDD 2016", "POST 2013", "Farokhi and Sandberg")
"""For each paper, the text with which the ``source`` of its experiments begins."""
_REST = "other sources"
SOURCES = (*PAPERS, _REST)
"""The names of the sources for which a page can have sections."""

_MARKS = dict(zip(Verdict, ("✗", "slip", "?", "varies", "≈", "✓"), strict=True))
_OUR_FACTOR = "our f"


@dataclass(frozen=True)
class Sentence:
    """A sentence of a paper, with the claims that judge it, possibly in several experiments."""

    rows: Sequence[ClaimRow]

    @property
    def claim(self) -> Claim:
        """The sentence's first claim; all its claims have the same text, source and reading."""
        return self.rows[0].claim

    @property
    def within(self) -> float | None:
        """The share of points that do not contradict a claim, averaged over the sentence's claims.

        All claims have equal weight: a table of a hundred draws counts no more than a table of one
        draw. The share is None if nothing was measured.
        """
        judged = [row.judgement for row in self.rows if row.judgement.points]
        return fmean(1 - j.against / j.points for j in judged) if judged else None

    @property
    def verdict(self) -> Verdict:
        """The worst verdict on the claims.

        If a claim's `share` is less than 1 and points were measured, the sentence instead holds if
        `within` is at least the smallest `share` of its claims, and fails otherwise.
        """
        share = min(row.claim.share for row in self.rows)
        if share < 1 and self.within is not None:
            return Verdict.HOLDS if self.within >= share else Verdict.FAILS
        return find_worst(row.judgement.verdict for row in self.rows)

    @property
    def cause(self) -> str:
        """Why the sentence does not hold; empty if the reason is unknown."""
        return next(filter(None, (row.claim.slip or row.claim.cause for row in self.rows)), "")


def fill(page: str, card: Scorecard) -> str:
    """Return a page with its marked sections regenerated.

    A section is the text between ``<!-- scorecard: NAME -->`` and ``<!-- end of scorecard -->``. If
    NAME is ``summary``, the section counts the verdicts on each paper; if it is ``in two minutes``,
    it has a line for every table and figure of the papers. If NAME is one of `SOURCES`, the section
    has the experiments of this source. If NAME is one of `SOURCES` followed by ``, in short``, the
    section lists what was not reproduced of this source, with the causes.

    Raises
    ------
    SweepError
        If the page has no marked section.
    """

    def section(match: re.Match[str]) -> str:
        source = match[1].removesuffix(_IN_SHORT)
        if source == "summary":
            text = _describe_sources(card)
        elif source == "in two minutes":
            text = _list_outcomes(card)
        elif source != match[1]:
            text = _list_failures(_select_source(card, source))
        else:
            described = _describe_experiments(_select_source(card, source), source)
            text = "\n\n".join(described) or "None."
        return f"<!-- scorecard: {match[1]} -->\n{text}\n<!-- end of scorecard -->\n"

    text, sections = SECTION.subn(section, page)
    if not sections:
        raise SweepError(
            "the page has no section to fill in; add the lines '<!-- scorecard: summary -->' and "
            "'<!-- end of scorecard -->' where the summary is to stand"
        )
    return text


def make_content(path: Path, card: Scorecard) -> str:
    """Return the content of a scorecard's file: JSON, or a page with its marked sections filled in.

    Raises
    ------
    SweepError
        If the suffix of ``path`` is neither ``.json`` nor ``.md``, or there is no such page.
    """
    if path.suffix == ".json":
        return card.text()
    if path.suffix == ".md":
        return fill(read_text_file("page", path, "a page has to exist"), card)
    raise SweepError(
        f"cannot write a scorecard to {str(path)!r}; expected FILE.json, or FILE.md with sections "
        "to fill in"
    )


def summarise(card: Scorecard) -> str:
    """Return the summary and a list of what was not reproduced, as Markdown."""
    return f"{_describe_sources(card)}\n\n**What was not reproduced**\n\n{_list_failures(card)}"


def to_markdown(card: Scorecard) -> str:
    """Return the scorecard as Markdown: summary, what was not reproduced, then every experiment."""
    return "\n\n".join([summarise(card), *_describe_experiments(card)]) + "\n"


def _select_source(card: Scorecard, name: str) -> Scorecard:
    begins = PAPERS if name == _REST else name
    shown = (r.experiment for r in card.runs if r.source.startswith(begins) != (name == _REST))
    return card.of(*shown)


def _group_sentences(card: Scorecard) -> list[list[Sentence]]:
    """Return a list for each sentence of the papers: the sentence in each of its readings.

    The sentences are in the order of their first claims.
    """
    sentences: dict[tuple[str, str], dict[str, list[ClaimRow]]] = {}
    for row in card.claims:
        readings = sentences.setdefault((row.claim.text, row.claim.source), {})
        readings.setdefault(row.claim.reading, []).append(row)
    return [[*map(Sentence, readings.values())] for readings in sentences.values()]


def _select_counted(card: Scorecard) -> tuple[list[Compared], list[Sentence]]:
    """Return the numbers and the sentences to count, each once.

    Numbers and sentences in another reading of the paper are not counted.
    """
    numbers = [row for row in card.numbers if row.kind != OTHER_READING]
    sentences = [s for readings in _group_sentences(card) for s in readings if not s.claim.reading]
    return numbers, sentences


def _describe_sources(card: Scorecard) -> str:
    """Say how much of each paper was reproduced, by which code, and on which machines."""
    heads = ("source", "printed numbers", "closed forms", "sentences")
    parts = {name: _select_source(card, name) for name in SOURCES}
    rows = [[name, *_count_verdicts(part)] for name, part in parts.items() if part.runs]
    if len(rows) > 1:
        papers = card.of(*(run.experiment for name in PAPERS for run in parts[name].runs))
        rows.insert(0, ["**the five papers**", *_count_verdicts(papers)])
    revisions = Counter(run.revision[:12] for run in card.runs if run.revision)
    machines = dict.fromkeys(run.machine for run in card.runs if run.machine)
    counts = [f"{name} ({n} experiment{'s' * (n > 1)})" for name, n in revisions.most_common()]
    by = f"Computed at revision {', '.join(counts)} on {'; '.join(machines)}."
    return f"{by if counts else 'Nothing was run.'}\n\n{_make_table(heads, rows)}"


def _count_verdicts(card: Scorecard) -> list[str]:
    """Return three texts that count printed numbers, closed forms and sentences by verdict."""
    numbers, sentences = _select_counted(card)
    kinds = ([row.verdict for row in numbers if row.kind == k] for k in ("printed", "closed form"))
    counts = map(Counter, (*kinds, [sentence.verdict for sentence in sentences]))
    return [
        ", ".join(f"{count[v]} {_MARKS[v]}" for v in reversed(Verdict) if v in count)
        for count in counts
    ]


def _list_outcomes(card: Scorecard) -> str:
    """Return a line for every table of the papers, and for every experiment without a table.

    Experiments that judge nothing have no line.
    """
    lines = []
    for name in PAPERS:
        part = _select_source(card, name)
        for run in part.runs:
            numbers, sentences = _select_counted(part.of(run.experiment))
            outcomes = {
                table: _describe_outcome([n for n in numbers if n.table == table], "numbers")
                for table in dict.fromkeys(row.table for row in numbers)
            }
            if not outcomes:
                outcomes = {
                    _remove_paper(run.source, name): _describe_outcome(sentences, "sentences")
                }
            for table, outcome in outcomes.items():
                shown = NOT_RUN if run.run_at == NOT_RUN else outcome
                if shown:
                    lines.append([name, f"{table} (`{run.experiment}`)", shown, run.run_at])
    return _make_table(("paper", "table or figure", "reproduced", "run at"), lines)


def _describe_outcome(judged: Sequence[Compared] | Sequence[Sentence], things: str) -> str:
    """Count the verdicts in words, and name the beginning of the first cause of a difference."""
    count, total = Counter(one.verdict for one in judged), len(judged)
    if things == "numbers" and count[Verdict.HOLDS] == total:
        return "same to the digit"
    same = "same to the digit" if things == "numbers" else f"of {total} sentences hold"
    words = {
        Verdict.HOLDS: same,
        Verdict.FACTOR: "same up to the paper's reference",
        Verdict.SLIP: "proved wrong",
        Verdict.VARIES: "hold for some draws",
        Verdict.UNJUDGED: "not judged",
        Verdict.FAILS: "differ",
    }
    parts = [f"{count[verdict]} {word}" for verdict, word in words.items() if count[verdict]]
    causes = [one.cause for one in judged if one.verdict is Verdict.FAILS]
    because = f": *{causes[0].partition(';')[0] or 'cause not known'}*" if causes else ""
    return "; ".join(parts) + because


def _list_failures(card: Scorecard) -> str:
    """List the numbers that differ and the sentences that fail, grouped by cause, as Markdown."""
    numbers, sentences = _select_counted(card)
    causes = defaultdict[str, dict[str, list[str]]](dict)
    for row in numbers:
        if row.verdict is Verdict.FAILS:
            axes = [f"{k} = {label_text(v)}" for k, v in row.at.items() if k != "mechanism"]
            place = f"{', '.join([_column(row), *axes])}: {_cell(row)}"
            table = f"{row.table} (`{row.experiment}`): "
            causes[row.cause].setdefault(table, []).append(place)
    for sentence in sentences:
        if sentence.verdict is Verdict.FAILS:
            causes[sentence.cause][f"“{sentence.claim.text}”"] = []
    return (
        "\n".join(
            f"- {'; '.join(name + '; '.join(places) for name, places in found.items())}: "
            f"*{cause or 'unexplained'}*"
            for cause, found in causes.items()
        )
        or "Nothing of what was run."
    )


def _remove_paper(source: str, paper: str) -> str:
    """Remove the name of the paper from the beginning of a source."""
    return source.removeprefix(paper).lstrip(", ") if paper else source


def _describe_experiments(card: Scorecard, paper: str = "") -> list[str]:
    """Return the Markdown of every experiment: its tables, then its sentences.

    A sentence belongs to the experiment of its first claim.
    """
    sentences, parts = _group_sentences(card), []
    for run in card.runs:
        run_at = {"all sizes": "", "not run": " Not run."}.get(run.run_at, f" Run: {run.run_at}.")
        source, title = _remove_paper(run.source, paper), run.title.partition(":")[0]
        parts.append(f"**`{run.experiment}`**{source and f', {source}'}: {title}.{run_at}")
        numbers = card.of(run.experiment).numbers
        tables = defaultdict[tuple[str, str, str], list[Compared]](list)
        for row in numbers:
            tables[row.kind, row.table, row.variable].append(row)
        for (kind, name, _), rows in tables.items():
            parts.append(_describe_numbers(name if kind == "printed" else f"{name} ({kind})", rows))
        first_here = (s for s in sentences if s[0].rows[0].experiment == run.experiment)
        statements = "\n".join(_describe_sentence(s, run, paper) for s in first_here)
        parts += [statements] if statements else []
    return parts


def _describe_numbers(name: str, rows: Sequence[Compared]) -> str:
    """Return a Markdown table of printed and measured numbers, with remarks.

    A line is omitted if none of its numbers was run.
    """
    if all(row.verdict is Verdict.HOLDS and row.draws == 1 for row in rows):
        return f"{name}: all {len(rows)} ✓."
    axes = dict.fromkeys(axis for row in rows for axis in row.at if axis != "mechanism")
    down = [axis for axis in axes if len({row.at[axis] for row in rows}) > 1]
    lines = defaultdict[tuple[str, ...], dict[str, str]](dict)
    for row in rows:
        line = lines[tuple(label_text(row.at[axis]) for axis in down)]
        line[_column(row)] = _cell(row)
        if row.reference_factor:
            line[_OUR_FACTOR] = f"{row.reference_factor:.4g}"
    columns = [*dict.fromkeys(map(_column, rows)), _OUR_FACTOR]
    columns = [column for column in columns if any(column in line for line in lines.values())]
    body = [
        [*place, *(line.get(column, "") for column in columns)]
        for place, line in lines.items()
        if not all(text.endswith(NOT_RUN) for text in line.values())
    ]
    if not body:
        return f"{name}: not run."
    applied = dict.fromkeys(f"{row.factor:.4g}" for row in rows if row.factor)
    remarks = [
        f"f = {', '.join(applied)}." if applied else "",
        *dict.fromkeys(f"? {row.reason}." for row in rows if _mark(row) == "?"),
        *dict.fromkeys(f"Slip: {row.slip}." for row in rows if _mark(row) == "slip"),
    ]
    heading = " ".join([f"{name}.", *filter(None, remarks)])
    return f"{heading}\n\n{_make_table([*down, *columns], body)}"


def _column(row: Compared) -> str:
    return label_text(row.at.get("mechanism", row.variable))


def _mark(row: Compared) -> str:
    return NOT_RUN if row.reason == NOT_RUN else _MARKS[row.verdict]


def _cell(row: Compared) -> str:
    """Return a table entry: *printed / measured* or *printed (interval of draws)*, and the mark."""
    mark = _mark(row)
    if row.median is None:
        return f"{row.printed} {mark}"
    if row.verdict is Verdict.FAILS and row.difference is not None:
        mark += f" {100 * row.difference:+.3g} %{' after f' if row.factor else ''}"
    ends = (row.stated - row.rounding, row.stated + row.rounding)
    if row.draws > 1:
        return f"{row.printed} ({format_range(row.least, row.most, ends)}) {mark}"
    measured = format_range(row.median, row.median, ends)
    decimals = len(row.printed.partition(".")[2])
    if abs(row.median) >= 10.0 ** (4 - decimals):  # four digits are fewer than the paper prints
        measured = f"{row.median:.{decimals}f}"
    return f"{row.printed} / {measured} {mark}"


def _describe_sentence(readings: Sequence[Sentence], run: Run, paper: str) -> str:
    """Return a list item: a sentence, what it states, and the verdict on each of its readings.

    The source, the quantity and the range that the sentence states are in parentheses.
    """
    rows, first = readings[0].rows, readings[0].claim
    source = "" if run.source.startswith(first.source) else _remove_paper(first.source, paper)
    meant = dict.fromkeys(_describe_quantity(row.claim) for row in rows)
    if len(meant) > 1:  # without the labels of the points
        meant = dict.fromkeys(quantity.partition(";")[0] for quantity in meant)
    stated = format_range(first.least, first.most)
    if first.share < 1:
        stated += f" at {100 * first.share:.0f} % of the points"
    means = ": ".join(filter(None, ("; ".join(meant), stated)))
    remark = "; ".join(filter(None, (source, means)))
    verdicts = [
        f"{one.claim.reading and f'read as {one.claim.reading}: '}{_describe_verdict(one)}"
        for one in readings
    ]
    return f"- “{first.text}”{remark and f' ({remark})'}: {'; '.join(verdicts)}."


def _describe_verdict(sentence: Sentence) -> str:
    """Return the verdict on a sentence as text, with the numbers of the claims that decide it."""
    verdict, claim, rows = sentence.verdict, sentence.claim, sentence.rows
    if verdict is not Verdict.HOLDS and claim.share == 1:
        rows = [row for row in rows if row.judgement.verdict is verdict]
    judged = [row.judgement for row in rows]
    described = f"**{_MARKS[verdict]}**"
    if verdict is Verdict.UNJUDGED:
        return f"{described}, {'; '.join(dict.fromkeys(judgement.reason for judgement in judged))}"
    if sentence.within not in (None, 0, 1):
        described += f", true at {100 * sentence.within:.3g} % of the points"
    if len(rows) < len(sentence.rows):
        described += f" (not {', '.join(row.claim.part or f'`{row.experiment}`' for row in rows)})"
    least = min((j.least for j in judged if j.least is not None), default=None)
    most = max((j.most for j in judged if j.most is not None), default=None)
    described += f", {format_range(least, most, (claim.least, claim.most))}"
    return f"{described}: {claim.slip}" if verdict is Verdict.SLIP else described


def _describe_quantity(claim: Claim) -> str:
    """Return as text the quantity that decides a claim, such as ``CA / IP`` and the variable.

    The labels of the claim's points follow, each after a semicolon.
    """
    if claim.variable is None:
        return ""
    of = ", ".join(map(str, claim.at.get("mechanism", ())))
    over = f" / {claim.over}" if claim.over is not None else ""
    along = f", growth along {claim.along}" if claim.along else ""
    restrictions = [f"{k} = {format_labels(v)}" for k, v in claim.at.items() if k != "mechanism"]
    return "; ".join([f"{of}{over} `{claim.variable}`{along}".strip(), *restrictions])


def _make_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    safe = ([text.replace("|", "\\|").replace("\n", " ") for text in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in safe)
