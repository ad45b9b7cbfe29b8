"""The rows of a table of queries, and the target that each row states."""

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import scipy

from workloads.errors import WorkloadError
from workloads.parameters import read_text, repeated

_DELIMITERS = (",", ";", "\t")

_AMBIGUOUS = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}%?")
"""A number that means thousands if the point groups digits, as in 1.200.

Spreadsheets write semicolons between cells where the comma is the decimal sign, and there the point
groups digits.
"""


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes
    ----------
    place : str
        The row's location, for messages: ``queries.csv, line 3``.
    cells : Mapping[str, str]
        The texts of the row's nonempty cells, by column.
    """

    place: str
    cells: Mapping[str, str]

    def error(self, column: str, message: str) -> WorkloadError:
        """Make an error about the row's cell in a column; its text names the row and the column."""
        return WorkloadError(f"{self.place}, column {column!r}: {message}")

    @contextmanager
    def located(self, column: str) -> Iterator[None]:
        """Add the row's place and the column to any WorkloadError that the block raises."""
        try:
            yield
        except WorkloadError as error:
            raise self.error(column, str(error)) from None


@dataclass(frozen=True)
class Table:
    """The rows of a file or of a data frame.

    Attributes
    ----------
    source : str
        The file's path, or "queries" for a data frame; used in messages.
    folder : Path, optional
        The folder in which files named in cells are found; None if cells may not name files.
    """

    source: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    folder: Path | None


def read_table(path: str, *, names_files: bool) -> Table:
    """Read a CSV file with a header; commas, semicolons or tabs separate its cells.

    Parameters
    ----------
    path : str
        The path of the file, which is in UTF-8 with or without a byte-order mark.
    names_files : bool
        Whether table cells may name files of coefficients.

    Raises
    ------
    WorkloadError
        If the file cannot be read or is not a valid table, or if semicolons separate its cells and
        a number may be meant in thousands; the message names the file and, where possible, the
        line.
    """
    text = read_text("queries file", path, "give the path of a CSV file")
    delimiter = max(_DELIMITERS, key=text.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
    folder = Path(path).expanduser().parent if names_files else None
    try:
        header = next(reader, [])
        lines = ((f"{path}, line {reader.line_num}", cells) for cells in reader)
        table = _check_table(path, header, lines, folder)
    except csv.Error as error:
        raise WorkloadError(
            f"{path}, line {reader.line_num}: not valid CSV ({error}); put a cell that holds "
            f"{delimiter!r} or a quotation mark in quotation marks"
        ) from None
    for row in table.rows if delimiter == ";" else ():
        for column in ("weight", *COLUMNS, "confidence"):
            text = row.cells.get(column, "")
            if _AMBIGUOUS.fullmatch(text):
                raise row.error(
                    column,
                    f"{text!r} is ambiguous: where semicolons separate cells, it can mean "
                    f"{text.replace('.', '')}; write it without a point, or with another decimal: "
                    f"{text.removesuffix('%')}0",
                )
    return table


def convert_table(frame: Any) -> Table:
    """Make a table from a data frame, or from a mapping of names to columns of equal lengths.

    Raises
    ------
    WorkloadError
        If ``frame`` is neither a data frame nor such a mapping, or is not a valid table.
    """
    try:
        names = [str(name) for name in frame]
        rows = list(zip(*(list(frame[name]) for name in frame), strict=True))
    except (TypeError, KeyError, ValueError) as error:
        raise WorkloadError(
            f"queries of type {type(frame).__name__} ({error}); expected a data frame, or a "
            "mapping of column names to lists of equal lengths"
        ) from None
    lines = (
        (f"queries, row {number} (counted from 0)", [_read_text(value) for value in row])
        for number, row in enumerate(rows)
    )
    return _check_table("queries", names, lines, Path())


def _check_table(
    source: str,
    header: Sequence[str],
    lines: Iterable[tuple[str, Sequence[str]]],
    folder: Path | None,
) -> Table:
    """Make a table from a header and lines, given as pairs (place, cells); skip empty lines."""
    columns = [name.strip() for name in header]
    named = tuple(filter(None, columns))
    if not named:
        raise WorkloadError(
            f"{source}: empty; expected a header with the names of attributes and of targets, and "
            "a query in every row"
        )
    twice = repeated(named)
    if twice is not None:
        raise WorkloadError(f"{source}, column {twice!r}: it is listed twice; remove one")
    rows = []
    for place, line in lines:
        cells = [cell.strip() for cell in line]
        if not any(cells):
            continue
        if len(cells) != len(columns):
            raise WorkloadError(
                f"{place}: {len(cells)} cells, and the header names {len(columns)} columns; "
                "put a cell that holds the separator in quotation marks"
            )
        filled = {name: cell for name, cell in zip(columns, cells, strict=True) if cell}
        if "" in filled:
            raise WorkloadError(f"{place}: a cell has a column without a name; name the column")
        rows.append(Row(place, filled))
    if not rows:
        raise WorkloadError(f"{source}: no queries; expected one in every row below the header")
    return Table(source, named, tuple(rows), folder)


def _read_text(value: object) -> str:
    """Return the text of a value in a data frame; empty if the value is missing."""
    plain = value.tolist() if hasattr(value, "tolist") else value
    text = str(plain).strip()
    missing = not isinstance(plain, str) and text in ("None", "nan", "<NA>", "NaT")
    return "" if missing else text


COLUMNS = ("variance", "standard_error", "margin")
"""The columns that can state a target; every row fills exactly one of them."""

CONFIDENCE = "95%"
"""The confidence level of a margin of error in rows that state no confidence level."""


def read_target(row: Row) -> tuple[float, float]:
    """Return the variance target of a row's answers, and the confidence of their margins of error.

    Raises
    ------
    WorkloadError
        If no column or more than one states a target, or the target or the confidence level is out
        of range.
    """
    stated = [name for name in COLUMNS if name in row.cells]
    expected = f"one of the columns {', '.join(COLUMNS)}"
    if not stated:
        raise row.error(COLUMNS[0], f"no target; fill {expected}")
    if len(stated) > 1:
        raise row.error(stated[1], f"a second target, beside {stated[0]!r}; fill {expected} alone")
    text = row.cells.get("confidence", CONFIDENCE)
    percent = text.endswith("%")
    confidence = read_number(row, "confidence", text.removesuffix("%")) / (100 if percent else 1)
    # margin of error over standard error, for normal errors: 1.96 at a confidence of 0.95
    quantile = float(scipy.special.ndtri(0.5 + confidence / 2))
    if not 0 < quantile < math.inf:
        raise row.error(
            "confidence", f"{text!r}; expected a number between 0 and 1, such as 0.95 or 95%"
        )
    (name,) = stated
    value = read_number(row, name, row.cells[name])
    error = value / quantile if name == "margin" else value
    variance = value if name == "variance" else error * error
    if not (value > 0 and 0 < variance < math.inf):
        raise row.error(
            name, f"{row.cells[name]!r}; expected a positive finite number, whose square is a float"
        )
    return variance, confidence


def read_number(row: Row, column: str, text: str) -> float:
    """Return the number in the text of a cell; raises WorkloadError if it is not a number."""
    try:
        value = float(text)
    except ValueError:
        hint = "; write decimals after a point, and thousands without a comma" * ("," in text)
        raise row.error(column, f"{text!r} is not a number{hint}") from None
    if math.isnan(value):
        raise row.error(column, f"{text!r} is not a number")
    return value
