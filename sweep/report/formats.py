"""Writes tables in every format: for the terminal, as Markdown, LaTeX, CSV, HTML and JSON."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from textwrap import shorten

import pandas as pd
from pydantic_core import to_jsonable_python
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as Grid
from rich.text import Text

from sweep.dataset.reading import Results
from sweep.errors import command
from sweep.experiment.schema import Experiment
from sweep.report import output, tables
from sweep.report.tables import ResultTable, Wanted, make_claims_table, make_number_tables
from sweep.scorecard.numbers import Verdict
from sweep.store.records import TROUBLED, Status

_SYMBOLS = (
    "Delta Sigma varepsilon delta rho mu beta gamma kappa pi varphi vartheta varrho "
    "to pm leq geq approx times"
)
_LATEX = {
    "Δ²": r"$\Delta^2$",
    **{c: rf"$\{name}$" for c, name in zip("ΔΣεδρμβγκπφϑϱ→±≤≥≈×", _SYMBOLS.split(), strict=True)},
    "w\u0304": r"$\bar{w}$",
    "w\u0332": r"$\underline{w}$",
    "²": r"$^2$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "[": "{[}",
    "]": "{]}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
}
"""LaTeX code for mathematical symbols and for characters that LaTeX would interpret or misprint."""
_IN_LATEX = re.compile("|".join(map(re.escape, _LATEX)))
_MARKDOWN = str.maketrans(
    {"&": "&amp;", "<": "&lt;", "\n": " ", **{c: f"\\{c}" for c in "\\|*_`[]"}}
)
"""Markdown code for characters that Markdown would interpret."""
_COLUMN = 49.0
"""Width of a text column of a two-column page in LaTeX: 3.4 inches or 245 pt, in digits of 5 pt.

A wider table spans both columns."""
_BESIDE = 2.4
"""Space between the columns of a LaTeX table: 12 pt, in digits of 5 pt."""
_NUMBERED = re.compile(r"(Tables? [^:]*): (.)(.*)", re.DOTALL)
"""Matches a title that begins with the number of the paper's table."""
_SENTENCE = 60
"""A LaTeX table wraps its texts if one of them has more characters than this: sentences are longer,
labels and numbers shorter."""
_LABEL = 40
"""A table's LaTeX label with more characters than this is cut after a word, as authors type it."""


def to_markdown(tables: Sequence[ResultTable]) -> str:
    """Return the tables in GitHub's Markdown, with numbers aligned right."""
    parts = []
    for table in tables:
        flat = _flatten(table).map(lambda text: text.translate(_MARKDOWN))
        flat.columns = [name.translate(_MARKDOWN) for name in flat.columns]
        right = ["left"] * table.shown.index.nlevels + ["right"] * len(table.shown.columns)
        written = flat.to_markdown(index=False, disable_numparse=True, colalign=right)
        title, *notes = (text.translate(_MARKDOWN) for text in (table.title, *table.notes))
        parts += [f"**{title}**", written, *notes]
    return "\n\n".join(parts) + "\n"


def to_latex(tables: Sequence[ResultTable]) -> str:
    """Return a LaTeX file to include in a document, with a ``table`` environment for each table.

    The document must load the packages array, booktabs and graphicx. Wide tables, and tables that
    contain sentences, span both text columns of a two-column page.
    """
    return output.render("tables.tex", tables=[_split(table) for table in tables])


def to_csv(tables: Sequence[ResultTable]) -> str:
    """Return the tables as CSV: a line for every number, with its labels, spread and state.

    If the only table is that of claims, the CSV has a line for every claim.
    """
    all_entries = [table.entries.assign(table=table.title).set_index("table") for table in tables]
    numbers = [entries for entries in all_entries if "mean" in entries]
    return pd.concat(numbers or all_entries).to_csv() if tables else "\n"


def to_html(tables: Sequence[ResultTable]) -> str:
    """Return an HTML page with only the tables, without styles or scripts."""
    return output.render("tables.html", tables=tables)


def to_json(tables: Sequence[ResultTable]) -> str:
    """Return JSON with every table's ``title``, ``notes`` and ``entries``; NaN becomes null."""
    listed = [
        {"title": table.title, "notes": table.notes, "entries": table.entries.to_dict("records")}
        for table in tables
    ]
    content = to_jsonable_python({"tables": listed}, inf_nan_mode="null")
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


RENDERERS: Mapping[str, Callable[[Sequence[ResultTable]], str]] = {
    "markdown": to_markdown,
    "latex": to_latex,
    "csv": to_csv,
    "html": to_html,
    "json": to_json,
}
"""For each format except the terminal's, the function that returns tables in that format."""


def _flatten(table: ResultTable) -> pd.DataFrame:
    """Return the texts of a table, with the labels of its rows as the first columns."""
    names = [str(name or "") for name in table.shown.index.names]
    return table.shown.rename_axis(names).reset_index(allow_duplicates=True)


def _split(table: ResultTable) -> dict[str, object]:
    """Return the parts of a table that the template ``tables.tex`` expects."""
    flat = _flatten(table)
    widths = [max(map(len, (str(name), *texts))) for name, texts in flat.items()]
    sentences = max(widths, default=0) > _SENTENCE
    wide = sum(widths) + _BESIDE * (len(widths) - 1) > _COLUMN
    flat = flat.map(escape_latex)
    flat.columns = [escape_latex(name) for name in flat.columns]
    labels = table.shown.index.nlevels
    numbers = len(flat.columns) - labels
    form = "l" * labels + "r" * numbers
    if sentences:  # all columns together fill the line; those of labels are twice as wide
        column = r">{{\raggedright\arraybackslash}}p{{{:.3f}\linewidth}}"
        shares = [0.85 * share / (2 * labels + numbers) for share in (2, 1)]
        form = column.format(shares[0]) * labels + column.format(shares[1]) * numbers
    numbered = _NUMBERED.fullmatch(table.title)
    caption = f"{numbered[2].upper()}{numbered[3]} ({numbered[1]})" if numbered else table.title
    words = " ".join(re.findall(r"[a-z0-9]+", table.title.lower()))
    return {
        "label": "tab:" + shorten(words, _LABEL, placeholder="").replace(" ", "-"),
        "environment": "table*" if wide else "table",
        "caption": escape_latex(caption),
        "tabular": flat.style.hide(axis="index").to_latex(hrules=True, column_format=form),
        "notes": [escape_latex(note) for note in table.notes],
    }


def escape_latex(text: str) -> str:
    """Escape LaTeX's special characters, and write Greek letters in math mode."""
    return _IN_LATEX.sub(lambda found: _LATEX[found[0]], text)


_STYLES = {
    **{one.label.replace("_", " "): "red" if one in TROUBLED else "dim" for one in Status},
    tables.NONE: "dim",
    tables.UNPRINTED: "dim",
}
_WIDE = 10_000
"""Width, in characters, of the console on which the widths of tables are measured: wider than any
table, since a column is not measured beyond the console's width."""
_LONG = 40
"""A column wraps on the terminal if one of its texts is wider than this, in characters: half of the
common 80."""


def show(tables: Sequence[ResultTable], console: Console) -> None:
    """Print tables one below another, each with its title above and its notes below.

    A note that the next table repeats is printed only below that table.
    """
    for table, following in zip_longest(tables, tables[1:]):
        console.print(Text(table.title, style="italic"))
        notes = [note for note in table.notes if following is None or note not in following.notes]
        for part in (*make_grids(table, console.width), *map(Text, notes)):
            console.print(part)
        console.print()


def show_store(
    results: Results, experiment: Experiment, store: str, console: Console, wanted: Wanted
) -> None:
    """Print the tables of a store, and how many of the claims of the paper's text hold."""
    show(make_number_tables(results, experiment, wanted), console)
    if experiment.claims and wanted.group is None:
        verdicts = make_claims_table(results, experiment).entries["verdict"]
        held = f"{(verdicts == Verdict.HOLDS).sum()} of {len(verdicts)}"
        lists = f"{command('show', store, '--claims')} lists each with its verdict."
        console.print(f"Statements of the text that hold here: {held}; {lists}", markup=False)


def make_grids(table: ResultTable, width: int) -> list[Grid]:
    """Return the table for a terminal, or several narrower ones if it does not fit the width.

    Texts may wrap, and no text is cut: the columns that do not fit beside the labels follow below,
    in tables that repeat the labels.
    """
    if table.shown.empty:
        return []
    half = table.shown.shape[1] // 2
    grid = _make_grid(table, width)
    console = Console(width=_WIDE)
    if not half or Measurement.get(console, console.options, grid).minimum <= width:
        return [grid]
    parts = table.shown.iloc[:, :half], table.shown.iloc[:, half:]
    return [grid for part in parts for grid in make_grids(replace(table, shown=part), width)]


def _make_grid(table: ResultTable, width: int) -> Grid:
    """Convert a table to a `rich.table.Table`, in which repeated row labels are omitted.

    The labels together, or one further column, take at most half of the ``width``; if they are
    longer, they wrap. Headings wrap before a parenthesis.
    """
    shown, labels = table.shown, table.shown.index.to_frame(index=False)
    grid = Grid(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    half = width // 2 - labels.shape[1]  # without the space beside each column
    label_width = sum(column.map(cell_len).max() for _, column in labels.items())
    for number, (name, column) in enumerate((*labels.items(), *shown.items())):
        is_label = number < labels.shape[1]
        heading = name.replace(" (", "\n(") if isinstance(name, str) else ""
        widest = max(map(cell_len, (*column, *heading.splitlines())))
        wraps = widest > _LONG or (label_width if is_label else widest) > half
        grid.add_column(
            heading,
            justify="left" if is_label or wraps else "right",
            min_width=None if wraps else widest,  # else rich would cut a text after its first word
            no_wrap=not wraps,
            overflow="fold",
        )
    differs = labels.ne(labels.shift()).cummax(axis="columns")
    ends = differs.iloc[:, 0].shift(-1, fill_value=False) & (labels.shape[1] > 1)
    beside = labels.iloc[:, -1].isin(tables.BESIDE)
    for (_, fresh), (_, texts), dim, end in zip(
        labels.where(differs, "").iterrows(), shown.iterrows(), beside, ends, strict=True
    ):
        styled = (Text(text, style=_STYLES.get(text, "")) for text in texts)
        grid.add_row(*fresh, *styled, style="dim" if dim else None, end_section=end)
    return grid
