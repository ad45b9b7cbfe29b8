"""Cell records stored as columns: about 100 bytes per cell; as objects they take thousands."""

import json
import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.store.keys import KEY, KeyColumn, Keys, Lookup, Rows
from sweep.store.records import CellRecord, Status

_FLOATS = ("started", "runtime_s", "cpu_s", "peak_memory_bytes")
_COUNTS = ("status", "attempt", "deaths", "attempts", "deaths_in_all")
_TEXTS = ("problem", "host", "error", "traceback", "code", "versions", "notes", "curve")
_KEYS = ("cell", "solve")


class _Numbers:
    """A growing column of numbers; while all are equal, it stores only one."""

    def __init__(self, kind: str, value: float = 0, count: int = 0) -> None:
        self._kind, self._value, self._count = kind, value, count
        self._held: array[Any] | None = None

    @classmethod
    def restored(cls, kind: str, column: NDArray[Any], count: int) -> "_Numbers":
        """The column of ``count`` rows that `packed` gave."""
        numbers = cls(kind, column[0].item() if count else 0, count)
        if len(column) > 1:
            numbers._held = array(kind)
            numbers._held.frombytes(column.astype(kind).tobytes())
        return numbers

    def packed(self, rows: Rows) -> NDArray[Any]:
        """The values of some rows, or a single one if all are equal."""
        return self.taken(rows[:1] if self._held is None else rows, 0)

    def append(self, value: float) -> None:
        """Add a number."""
        if self._held is None:
            if not self._count:
                self._value = value
            elif not _same(value, self._value):
                self._held = self._spread()
        if self._held is not None:
            self._held.append(value)
        self._count += 1

    def __getitem__(self, row: int) -> Any:
        return self._value if self._held is None else self._held[row]

    def __setitem__(self, row: int, value: float) -> None:
        if self._held is None and not _same(value, self._value):
            self._held = self._spread()
        if self._held is not None:
            self._held[row] = value

    def taken(self, rows: Rows, missing: float) -> NDArray[Any]:
        """The values of some rows, ``missing`` for row -1.

        They are copied, because an `array.array` cannot grow while a view of it exists.
        """
        kind = np.dtype(self._kind)
        if self._held is None:
            return np.where((rows < 0) | (not self._count), kind.type(missing), self._value).astype(
                kind
            )
        held = np.frombuffer(self._held, kind)
        return np.where(rows < 0, kind.type(missing), held[rows])

    def _spread(self) -> "array[Any]":
        return array(self._kind, [self._value]) * self._count


class _Texts:
    """A growing column of texts, which stores each distinct text once."""

    def __init__(self, values: Sequence[str] = (), numbers: _Numbers | None = None) -> None:
        self.values = list(values)
        self.numbers = _Numbers("i") if numbers is None else numbers
        self._number = {value: number for number, value in enumerate(self.values)}

    def number(self, value: str) -> int:
        """The number of a text among `values`; a new text is added."""
        number = self._number.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


class Columns:
    """A growing table of cell records; a record's row number never changes.

    Besides the fields of the record a row has ``attempts``, the highest attempt number of its cell,
    and ``deaths_in_all``, the number of workers that its cell has killed in all runs.
    """

    def __init__(self) -> None:
        self._keys = {name: KeyColumn() for name in _KEYS}
        self._cells = Lookup(self._keys["cell"])
        self._floats = {name: _Numbers("d") for name in _FLOATS}
        self._counts = {name: _Numbers("i") for name in _COUNTS}
        self._texts = {name: _Texts() for name in _TEXTS}
        self._numbers: dict[str, _Numbers] = {}

    def __len__(self) -> int:
        return len(self._keys["cell"])

    def keys(self, name: str) -> Keys:
        """The key column ``cell`` or ``solve``, of all rows."""
        return self._keys[name].values

    def row(self, cell: str) -> int:
        """The last row of a cell, -1 if there is none."""
        return self._cells.row(cell.encode())

    def rows(self, cells: ArrayLike) -> Rows:
        """The last row of every cell, -1 where there is none."""
        return self._cells.rows(cells)

    @property
    def reported(self) -> list[str]:
        """Names of the numbers that solutions reported."""
        return list(self._numbers)

    def append(self, record: CellRecord, attempts: int, deaths_in_all: int) -> int:
        """Add a record and return its row."""
        further = {"attempts": attempts, "deaths_in_all": deaths_in_all}
        row, facts = len(self), vars(record) | further
        for name, keys in self._keys.items():
            keys.append(facts[name].encode())
        self._cells.added(record.cell.encode())
        for name, times in self._floats.items():
            value = facts[name]
            times.append(math.nan if value is None else value)
        for name, count in self._counts.items():
            count.append(facts[name])
        for name, texts in self._texts.items():
            value = facts[name]
            texts.numbers.append(texts.number(value if isinstance(value, str) else _text(value)))
        for name, column in self._numbers.items():
            column.append(float(record.numbers.get(name, math.nan)))
        for name in record.numbers.keys() - self._numbers.keys():
            self._numbers[name] = _Numbers("d", math.nan, row)
            self._numbers[name].append(float(record.numbers[name]))
        return row

    def record(self, row: int) -> CellRecord:
        """The record of a row."""
        facts: dict[str, Any] = {name: keys[row] for name, keys in self._keys.items()}
        facts |= {name: self.text(name, row) for name in _TEXTS}
        facts |= {name: self._counts[name][row] for name in ("attempt", "deaths")}
        times = {name: column[row] for name, column in self._floats.items()}
        facts |= {name: None if math.isnan(value) else value for name, value in times.items()}
        if facts["peak_memory_bytes"] is not None:
            facts["peak_memory_bytes"] = int(facts["peak_memory_bytes"])
        facts["status"] = Status(self._counts["status"][row])
        facts["notes"] = json.loads(facts["notes"] or "{}")
        facts["curve"] = json.loads(facts["curve"] or "null")
        reported = {name: column[row] for name, column in self._numbers.items()}
        facts["numbers"] = {n: value for n, value in reported.items() if not math.isnan(value)}
        return CellRecord(**facts)

    def fail(self, row: int, error: str) -> None:
        """Make the record of a row a failure and clear its numbers."""
        self.set_count("status", row, Status.FAILED)
        for name, text in (("error", error), ("curve", "")):
            self._texts[name].numbers[row] = self._texts[name].number(text)
        for column in self._numbers.values():
            column[row] = math.nan

    def count(self, name: str, row: int) -> int:
        """The integer in column ``name`` of a row."""
        return int(self._counts[name][row])

    def set_count(self, name: str, row: int, value: int) -> None:
        """Set the integer in column ``name`` of a row."""
        self._counts[name][row] = value

    def text(self, name: str, row: int) -> str:
        """The text in column ``name`` of a row."""
        texts = self._texts[name]
        return texts.values[int(texts.numbers[row])]

    def reported_number(self, name: str, row: int) -> float:
        """A number that the solution of a row reported; NaN if it did not."""
        return float(self._numbers[name][row]) if name in self._numbers else math.nan

    def numbers(self, name: str, rows: Rows) -> NDArray[np.float64]:
        """A time or a reported number of some rows; NaN where it is missing."""
        column = self._floats.get(name) or self._numbers.get(name) or _Numbers("d")
        return column.taken(rows, math.nan)

    def counts(self, name: str, rows: Rows, missing: int) -> NDArray[np.int32]:
        """An integer of some rows, ``missing`` for row -1."""
        return self._counts[name].taken(rows, missing)

    def texts_of(self, name: str, rows: Rows) -> tuple[NDArray[np.int32], Sequence[str]]:
        """The distinct texts of a column, and the place of every row's among them (-1: no row)."""
        column = self._texts[name]
        return column.numbers.taken(rows, -1), column.values

    def content(self, rows: Rows) -> Iterator[tuple[str, NDArray[Any]]]:
        """Some rows as named arrays, yielded one at a time to save memory, for `restored`."""
        yield from ((name, keys.values[rows]) for name, keys in self._keys.items())
        texts = {name: held.numbers for name, held in self._texts.items()}
        reported = {f"number {name}": column for name, column in self._numbers.items()}
        columns = self._floats | self._counts | texts | reported
        yield from ((name, column.packed(rows)) for name, column in columns.items())

    @property
    def texts(self) -> dict[str, list[str]]:
        """The distinct texts of every text column, for `restored`."""
        return {name: texts.values for name, texts in self._texts.items()}

    @classmethod
    def restored(
        cls, arrays: Mapping[str, NDArray[Any]], texts: Mapping[str, Sequence[str]]
    ) -> "Columns":
        """The table of what `content` and `texts` gave; invalid content raises an exception."""
        columns = cls()
        columns._keys = {name: KeyColumn(arrays[name].astype(KEY, copy=False)) for name in _KEYS}
        columns._cells = Lookup(columns._keys["cell"])

        def column(kind: str, name: str) -> _Numbers:
            return _Numbers.restored(kind, arrays[name], len(columns))

        columns._floats = {name: column("d", name) for name in _FLOATS}
        columns._counts = {name: column("i", name) for name in _COUNTS}
        columns._texts = {name: _Texts(texts[name], column("i", name)) for name in _TEXTS}
        reported = (name for name in arrays if name.startswith("number "))
        columns._numbers = {name.removeprefix("number "): column("d", name) for name in reported}
        return columns


def _text(content: Any) -> str:
    return json.dumps(content) if content else ""


def _same(value: float, other: float) -> bool:
    """Whether two numbers are the same: NaN equals NaN, and 0.0 differs from -0.0."""
    if value == other:
        return value != 0 or math.copysign(1.0, value) == math.copysign(1.0, other)
    return math.isnan(value) and math.isnan(other)
