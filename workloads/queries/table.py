"""The rows of a table of queries, and the accuracy that each row states."""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import scipy

from workloads.errors import WorkloadError
from workloads.parameters import read_text, repeated

LARGEST_TABLE_BYTES = 2**28
"""Largest size in bytes of a file of queries."""

_DELIMITERS = (",", ";", "\t")


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes
    ----------
    place : str
        The row's location, for messages: ``queries.csv, line 3``.
    cells : Mapping[str, str]
        The texts of the row's cells by column, without empty ones.
    """

    place: str
    cells: Mapping[str, str]

    def error(self, column: str, message: str) -> WorkloadError:
        """An error with this message about the row's cell in that column."""
        return WorkloadError(f"{self.place}, column {column!r}: {message}")

    @contextmanager
    def located(self, column: str) -> Iterator[None]:
        """Add the row's place and the column to the message of a WorkloadError in the block."""
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
        The file, for messages.
    folder : Path, optional
        The folder in which files named in cells are found; None if cells may not name files.
    """

    source: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    folder: Path | None


def read_table(path: str, *, names_files: bool) -> Table:
    """The table in a CSV file with a header, separated by commas, semicolons or tabs.

    Parameters
    ----------
    path : str
        The file, in UTF-8 with or without a byte-order mark.
    names_files : bool
        Whether cells of the table may name further files.

    Raises
    ------
    WorkloadError
        If the file cannot be read; the message has file and line.
    """
    text = read_text("queries file", path, LARGEST_TABLE_BYTES, "give the path of a CSV file")
    delimiter = max(_DELIMITERS, key=text.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
    folder = Path(path).expanduser().parent if names_files else None
    try:
        header = next(reader, [])
        lines = ((f"{path}, line {reader.line_num}", cells) for cells in reader)
        return _table(path, header, lines, folder)
    except csv.Error as error:
        raise WorkloadError(
            f"{path}, line {reader.line_num}: not valid CSV ({error}); put a cell that holds "
            f"{delimiter!r} or a quotation mark in quotation marks"
        ) from None


def table_of(frame: Any) -> Table:
    """The table in a data frame, or in a mapping of columns of equal lengths.

    Raises
    ------
    WorkloadError
        If ``frame`` is neither, or is not a valid table.
    """
    try:
        names = [str(name) for name in frame]
        columns = [list(frame[name]) for name in frame]
    except (TypeError, KeyError, ValueError):
        raise WorkloadError(
            f"queries of type {type(frame).__name__}; expected a data frame, or a mapping of "
            "column names to lists"
        ) from None
    if len({len(column) for column in columns}) > 1:
        lengths = ", ".join(f"{n} {len(c)}" for n, c in zip(names, columns, strict=True))
        raise WorkloadError(f"queries with columns of different lengths: {lengths}")
    rows = (
        (f"queries, row {number} (counted from 0)", [_text(value) for value in row])
        for number, row in enumerate(zip(*columns, strict=True))
    )
    return _table("queries", names, rows, Path())


def _table(
    source: str,
    header: Sequence[str],
    lines: Iterable[tuple[str, Sequence[str]]],
    folder: Path | None,
) -> Table:
    """The table made from a header and lines (place and cells of each); skips empty lines."""
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


def _text(value: Any) -> str:
    """The text of a value of a data frame; empty for a missing one."""
    if value is None or (isinstance(value, Real) and value != value):
        return ""
    if isinstance(value, Real) and not isinstance(value, bool | Integral):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
    if hasattr(value, "tolist"):
        return str(value.tolist())
    return "" if str(value) in ("<NA>", "NaT") else str(value).strip()


COLUMNS = ("variance", "standard_error", "margin")
"""The columns for targets, exactly one of which is filled in every row."""

CONFIDENCE = 0.95
"""The confidence of the margins of error in rows that state no confidence."""


@dataclass(frozen=True)
class Target:
    """The accuracy that a row asks for.

    Attributes
    ----------
    variance : float
        The largest variance that the answer may have.
    confidence : float
        Confidence of the row's margin of error, stated or `CONFIDENCE`.
    """

    variance: float
    confidence: float


def quantile(confidence: float) -> float:
    """The margin of error in standard errors, for normal errors: 1.96 at a confidence of 0.95."""
    return float(scipy.special.ndtri(0.5 + confidence / 2))


def target(row: Row) -> Target:
    """The target of a row.

    Raises
    ------
    WorkloadError
        If no column or more than one states a target, or a number is not positive and finite.
    """
    stated = [name for name in COLUMNS if name in row.cells]
    expected = f"one of the columns {', '.join(COLUMNS)}"
    if not stated:
        raise row.error(COLUMNS[0], f"no target; fill {expected}")
    if len(stated) > 1:
        raise row.error(stated[1], f"a second target, beside {stated[0]!r}; fill {expected} alone")
    (name,) = stated
    confidence = _confidence(row)
    value = number(row, name)
    if not 0 < value < math.inf:
        raise row.error(name, f"{row.cells[name]!r}; expected a positive finite number")
    if name == "variance":
        return Target(value, confidence)
    error = value if name == "standard_error" else value / quantile(confidence)
    if not 0 < error**2 < math.inf:
        raise row.error(
            name, f"{row.cells[name]!r} is too large or too small: its square is not a float"
        )
    return Target(error**2, confidence)


def number(row: Row, column: str) -> float:
    """The number in a cell; raises WorkloadError if the cell has no number."""
    text = row.cells[column]
    try:
        value = float(text)
    except ValueError:
        hint = "; write decimals after a point, and thousands without a comma" * ("," in text)
        raise row.error(column, f"{text!r} is not a number{hint}") from None
    if math.isnan(value):
        raise row.error(column, f"{text!r} is not a number")
    return value


def _confidence(row: Row) -> float:
    text = row.cells.get("confidence")
    if text is None:
        return CONFIDENCE
    plain = Row(row.place, {"confidence": text.removesuffix("%").strip()})
    confidence = number(plain, "confidence") / (100 if text.endswith("%") else 1)
    if not 0 < quantile(confidence) < math.inf:
        raise row.error(
            "confidence", f"{text!r}; expected a number between 0 and 1, such as 0.95 or 95%"
        )
    return confidence
