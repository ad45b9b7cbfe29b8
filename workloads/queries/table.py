"""The rows of a table of queries, and the accuracy that each row states."""

import csv
import io
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import scipy

from workloads.errors import WorkloadError
from workloads.parameters import nearest, read_text

LARGEST_TABLE_BYTES = 2**28
"""Largest size in bytes of a file of queries."""

MOST_ROWS = 1_000_000
"""Largest number of rows of a table."""

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


@dataclass(frozen=True)
class Table:
    """The rows of a file or of a data frame.

    Attributes
    ----------
    source : str
        The file, for messages.
    folder : Path, optional
        The folder of files that the table's cells name; None if they may name none.
    """

    source: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    folder: Path | None = field(default=None)

    def check_columns(self, known: Sequence[str]) -> None:
        """Raise WorkloadError for an unknown column, with the nearest name."""
        for column in self.columns:
            if column not in known:
                raise WorkloadError(
                    f"{self.source}, column {column!r}: neither an attribute of the domain nor "
                    f"another column; {nearest(column, known)}"
                )


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
    columns, rows = _parsed(path, text)
    return Table(path, columns, rows, Path(path).expanduser().parent if names_files else None)


def table_of(frame: Any) -> Table:
    """The table in a data frame, or in a mapping of columns of equal lengths.

    Raises
    ------
    WorkloadError
        If ``frame`` is neither, or is not a valid table.
    """
    try:
        columns = [str(name).strip() for name in frame]
        lists = [list(frame[name]) for name in frame]
    except (TypeError, KeyError, ValueError):
        raise WorkloadError(
            f"queries of type {type(frame).__name__}; expected a data frame, or a mapping of "
            "column names to lists"
        ) from None
    if len({len(column) for column in lists}) > 1:
        lengths = ", ".join(f"{n} {len(c)}" for n, c in zip(columns, lists, strict=True))
        raise WorkloadError(f"queries with columns of different lengths: {lengths}")
    _check_header("queries", columns)
    texts = ([_text(value) for value in row] for row in zip(*lists, strict=True))
    rows = (
        Row(f"queries, row {number} (counted from 0)", _filled(columns, row))
        for number, row in enumerate(texts)
    )
    return Table("queries", tuple(columns), _not_empty("queries", rows), Path())


def _parsed(path: str, text: str) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    header = text.partition("\n")[0]
    delimiter = max(_DELIMITERS, key=header.count)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
    try:
        columns = [name.strip() for name in next(reader, [])]
        _check_header(path, columns)
        return tuple(filter(None, columns)), _not_empty(path, _rows(path, columns, reader))
    except csv.Error as error:
        raise WorkloadError(
            f"{path}, line {reader.line_num}: not valid CSV ({error}); put a cell that holds "
            f"{delimiter!r} or a quotation mark in quotation marks"
        ) from None


def _rows(path: str, columns: list[str], reader: Any) -> Iterator[Row]:
    for fields in reader:
        if not any(map(str.strip, fields)):
            continue
        place = f"{path}, line {reader.line_num}"
        if len(fields) != len(columns):
            raise WorkloadError(
                f"{place}: {len(fields)} cells, and the header names {len(columns)} columns; "
                "put a cell that holds the separator in quotation marks"
            )
        cells = [field.strip() for field in fields]
        if any(cell and not name for name, cell in zip(columns, cells, strict=True)):
            raise WorkloadError(f"{place}: a cell has a column without a name; name the column")
        yield Row(place, _filled(columns, cells))


def _check_header(source: str, columns: list[str]) -> None:
    named = [name for name in columns if name]
    if not named:
        raise WorkloadError(
            f"{source}: empty; expected a header with the names of attributes and of targets, and "
            "a query in every row"
        )
    twice = next((name for name, count in Counter(named).items() if count > 1), None)
    if twice is not None:
        raise WorkloadError(f"{source}, column {twice!r}: it is listed twice; remove one")


def _filled(columns: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    return {name: cell for name, cell in zip(columns, cells, strict=True) if name and cell}


def _not_empty(source: str, rows: Iterator[Row]) -> tuple[Row, ...]:
    filled = []
    for row in rows:
        filled.append(row)
        if len(filled) > MOST_ROWS:
            raise WorkloadError(
                f"{row.place}: more than {MOST_ROWS:,} queries, the limit of "
                "workloads.queries.table.MOST_ROWS"
            )
    if not filled:
        raise WorkloadError(f"{source}: no queries; expected one in every row below the header")
    return tuple(filled)


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
"""The confidence of a margin of error for which the row states none."""


@dataclass(frozen=True)
class Target:
    """A target as a row states it.

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
    """The margin of error at a confidence in standard errors, for normal errors: 1.96 at 0.95."""
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
    if text.endswith("%"):
        plain = Row(row.place, {"confidence": text.removesuffix("%").strip()})
        confidence = number(plain, "confidence") / 100
    else:
        confidence = number(row, "confidence")
    if not 0 < quantile(confidence) < math.inf:
        raise row.error(
            "confidence", f"{text!r}; expected a number between 0 and 1, such as 0.95 or 95%"
        )
    return confidence
