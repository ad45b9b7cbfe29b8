"""The ledger: the current result of every cell, and the bound of every problem.

Records are kept as columns, about 100 bytes per cell; as objects they would take thousands.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from solvers.solution import contradiction
from sweep.store.code import CERTIFIER_DIGITS
from sweep.store.keys import KEY, KeyIndex, Rows, texts
from sweep.store.records import BoundRecord, CellRecord, Record, Status

MAX_WORKER_DEATHS = 3
"""A cell that has killed this many workers is retried only on request."""

_KEYS = ("cell", "solve")
_FLOATS = ("started", "runtime_s", "cpu_s", "peak_memory_bytes")
_COUNTS = ("status", "attempt", "deaths", "attempts", "deaths_in_all")
_TEXTS = ("problem", "host", "error", "traceback", "code", "versions", "notes", "curve")
_KINDS: Mapping[str, DTypeLike] = {
    **dict.fromkeys(_KEYS, KEY),
    **dict.fromkeys(_FLOATS, np.float64),
    **dict.fromkeys((*_COUNTS, *_TEXTS), np.int32),
}
_REPORTED = "reported "
"""Prefix of the columns of numbers that solutions report."""
_COST = f"{_REPORTED}squared_privacy_cost"
_FORGOTTEN = int(Status.ABSENT)
_MIN_UNSORTED = 2**12
_UNSORTED_SHARE = 32
"""New cells are sorted into the index once they are more than 1/32 of all, and at least 4096."""


class _Columns:
    """Growing columns of one length."""

    def __init__(self) -> None:
        self.count = 0
        self._capacity = 0
        self._same = {name: np.zeros((), kind).item() for name, kind in _KINDS.items()}
        """The value of every column whose values are all equal."""
        self._held: dict[str, NDArray[Any]] = {}
        """The other columns, each with room for further values."""

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return [*self._same, *self._held]

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name in self._held:
            return self._held[name][: self.count]
        return np.broadcast_to(
            np.asarray(self._same[name], _KINDS.get(name, np.float64)), self.count
        )

    def put(self, values: Mapping[str, Any], row: int = -1) -> int:
        """Replace a row, or add one at the end, and return its number."""
        if row < 0:
            row = self.count
            self.count += 1
            if row == 0:
                self._same = dict(values)
            if row == self._capacity:
                self._grow()
        known = dict.fromkeys(self.names, math.nan)
        self._same.update(dict.fromkeys(values.keys() - known, math.nan))
        self.change(row, {**known, **values})
        return row

    def change(self, row: int, values: Mapping[str, Any]) -> None:
        """Replace some values of a row."""
        for name, value in values.items():
            if name in self._same:
                same = self._same[name]
                if value == same or (value != value and same != same):
                    continue
                self._held[name] = np.full(
                    self._capacity, self._same.pop(name), _KINDS.get(name, np.float64)
                )
            self._held[name][row] = value

    def content(self) -> dict[str, NDArray[Any]]:
        """All columns, a single value of those whose values are equal, for `restored`."""
        same = {
            name: np.array([value], _KINDS.get(name, np.float64))
            for name, value in self._same.items()
        }
        return same | {name: column[: self.count] for name, column in self._held.items()}

    @classmethod
    def restored(cls, content: Mapping[str, NDArray[Any]], count: int) -> "_Columns":
        """The columns of what `content` gave."""
        columns = cls()
        if count:
            columns.count = columns._capacity = count
            columns._same = {name: one[0].item() for name, one in content.items() if len(one) == 1}
            columns._held = {name: column for name, column in content.items() if len(column) > 1}
        if any(len(column) != count for column in columns._held.values()):
            raise ValueError("columns of different lengths")
        return columns

    def _grow(self) -> None:
        self._capacity += 1024 + self.count // 16
        for name, column in self._held.items():
            self._held[name] = np.empty(self._capacity, column.dtype)
            self._held[name][: len(column)] = column


class _Texts:
    """Distinct texts and their numbers."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.values = list(values)
        self._numbers = {value: number for number, value in enumerate(self.values)}

    def number(self, value: str) -> int:
        """The number of a text among `values`; a new text is added."""
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


class Ledger:
    """The current result of every cell: its last ``ok`` record, or else its last record.

    An answer whose squared privacy cost lies below a certified lower bound on its problem is wrong:
    its cell has failed while that bound holds, whichever solve proved the bound.

    Attributes
    ----------
    bounds : dict of str to float
        The highest certified lower bound on the squared privacy cost of every problem, by
        problem key; only bounds by the code that certified the problem last count.
    bound_codes : dict of str to str
        The identity of that code, by problem key.
    bound_errors : dict of str to BoundRecord
        Bounds that failed, or are less close than requested, by problem key.
    altered : bool
        Whether a bound was forgotten here that the journal still holds.
    """

    def __init__(self) -> None:
        self.bounds: dict[str, float] = {}
        self.bound_codes: dict[str, str] = {}
        self.bound_errors: dict[str, BoundRecord] = {}
        self.altered = False
        self._columns = _Columns()
        self._texts = {name: _Texts() for name in _TEXTS}
        self._index = KeyIndex(self._columns["cell"])
        self._unsorted: dict[str, int] = {}
        """The rows of the cells that are not yet in the index."""
        self._deadly_ends: set[tuple[str, float]] = set()
        """Cell and time of every record of deaths, so that merged copies of one count once."""
        self._known_refuted: dict[int, str] | None = None

    def add(self, records: Iterable[Record]) -> None:
        """Take in records, oldest first."""
        added = list(records)
        cells = [one.cell for one in added if not isinstance(one, BoundRecord)]
        rows = dict(zip(cells, self._index.positions(cells).tolist(), strict=True))
        for record in added:
            if isinstance(record, BoundRecord):
                self._add_bound(record)
                continue
            row = self._unsorted.get(record.cell, rows[record.cell])
            if isinstance(record, CellRecord):
                self._add_cell(record, row)
            elif row >= 0:
                self._columns.change(row, {"status": _FORGOTTEN})
        self._known_refuted = None
        if len(self._unsorted) > max(_MIN_UNSORTED, self._columns.count // _UNSORTED_SHARE):
            self._sort()

    def rows(self, cells: ArrayLike) -> Rows:
        """The row of every cell, -1 where there is no record; arguments of the methods below."""
        if self._unsorted:
            self._sort()
        rows = self._index.positions(cells)
        return np.where(self._taken("status", rows, _FORGOTTEN) == _FORGOTTEN, -1, rows)

    @property
    def current(self) -> Rows:
        """The rows of all recorded cells."""
        return np.flatnonzero(self._columns["status"] != _FORGOTTEN).astype(np.int32)

    def solved(self, solves: ArrayLike) -> Rows:
        """The last row with status ``ok`` of every solve key, -1 where there is none."""
        rows = self.current
        rows = rows[self.statuses(rows) == Status.OK]
        rows = rows[np.argsort(self.numbers("started", rows), kind="stable")]
        return np.append(rows, np.int32(-1))[
            KeyIndex(self._columns["solve"][rows]).positions(solves)
        ]

    @property
    def forgotten_solves(self) -> set[str]:
        """Keys of solves that only forgotten cells have."""
        solves, left = self._columns["solve"], self._columns["status"] == _FORGOTTEN
        return set(texts(solves[left])).difference(texts(solves[~left]) if left.any() else ())

    def others(self, cells: ArrayLike) -> list[str]:
        """Ids of recorded cells that are not in ``cells``."""
        return texts(self._columns["cell"][np.setdiff1d(self.current, self.rows(cells))])

    def record(self, row: int) -> CellRecord:
        """The record of a row."""
        held = {name: self._columns[name][row].item() for name in self._columns.names}
        facts: dict[str, Any] = {name: held[name].decode() for name in _KEYS}
        facts |= {name: held[name] for name in ("attempt", "deaths")}
        facts |= {name: None if math.isnan(held[name]) else held[name] for name in _FLOATS}
        if facts["peak_memory_bytes"] is not None:
            facts["peak_memory_bytes"] = int(facts["peak_memory_bytes"])
        facts |= {name: self._texts[name].values[held[name]] for name in _TEXTS}
        facts["notes"] = json.loads(facts["notes"] or "{}")
        facts["curve"] = json.loads(facts["curve"] or "null")
        facts["numbers"] = {
            name.removeprefix(_REPORTED): value
            for name, value in held.items()
            if name.startswith(_REPORTED) and not math.isnan(value)
        }
        record = CellRecord(**facts, status=Status(held["status"]))
        trouble = self._refuted.get(row)
        return record if trouble is None else _failed(record, trouble)

    def statuses(self, rows: Rows) -> NDArray[np.int8]:
        """The status of every row."""
        statuses = self._taken("status", rows, Status.PENDING).astype(np.int8)
        statuses[self._is_refuted(rows)] = Status.FAILED
        return statuses

    def counts(self, name: str, rows: Rows) -> NDArray[np.int32]:
        """A count of every row, 0 for row -1.

        ``attempt`` is the number of the attempt that made the record, ``attempts`` the highest of
        its cell, without those lost with their worker; ``deaths_in_all`` is the number of workers
        that the cell has killed in all runs.
        """
        return self._taken(name, rows, 0)

    def deadly(self, rows: Rows) -> NDArray[np.bool_]:
        """Which cells are lost for good: they have killed `MAX_WORKER_DEATHS` workers."""
        lost = self.statuses(rows) == Status.LOST
        return np.asarray(lost & (self.counts("deaths_in_all", rows) >= MAX_WORKER_DEATHS))

    def numbers(self, name: str, rows: Rows) -> NDArray[np.float64]:
        """A time (``started``, ``runtime_s``...) or a reported number; NaN where it is missing."""
        if name in _FLOATS:
            return self._taken(name, rows, math.nan)
        if _REPORTED + name not in self._columns.names:
            return np.full(len(rows), math.nan)
        numbers = self._taken(_REPORTED + name, rows, math.nan)
        numbers[self._is_refuted(rows)] = math.nan
        return numbers

    def reported(self, rows: Rows) -> list[str]:
        """Names of the numbers that solutions of these rows reported."""
        names = [name.removeprefix(_REPORTED) for name in self._columns.names if _REPORTED in name]
        return [name for name in names if not np.isnan(self.numbers(name, rows)).all()]

    def texts(self, name: str, rows: Rows) -> tuple[NDArray[np.int32], Sequence[str]]:
        """The distinct texts of a column, and the place of every row's among them (-1: no row)."""
        places, values = self._taken(name, rows, -1), list(self._texts[name].values)
        if name in ("error", "curve"):
            for row, trouble in self._refuted.items():
                places[rows == row] = len(values)
                values.append(trouble if name == "error" else "")
        return places, values

    def forget_bound(self, problem: str) -> None:
        """Forget a problem's bound, so that it is certified again."""
        self.altered = True
        self._known_refuted = None
        self.bounds.pop(problem, None)
        self.bound_codes.pop(problem, None)

    def forget_bound_error(self, problem: str) -> None:
        """Forget a bound that failed or was stopped, so that it is computed again."""
        if self.bound_errors.pop(problem, None) is not None:
            self.forget_bound(problem)

    def content(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Columns, and everything else as JSON-like content, for `restored`."""
        return self._columns.content(), {
            "count": self._columns.count,
            "texts": {name: known.values for name, known in self._texts.items()},
            "bounds": self.bounds,
            "bound_codes": self.bound_codes,
            "bound_errors": [vars(bound) for bound in self.bound_errors.values()],
            "deadly_ends": sorted(self._deadly_ends),
        }

    @classmethod
    def restored(cls, columns: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> "Ledger":
        """The ledger of what `content` gave; invalid content raises an exception."""
        ledger = cls()
        ledger._columns = _Columns.restored(columns, facts["count"])
        ledger._texts = {name: _Texts(facts["texts"][name]) for name in _TEXTS}
        ledger.bounds = dict(facts["bounds"])
        ledger.bound_codes = dict(facts["bound_codes"])
        failed = (BoundRecord(**bound) for bound in facts["bound_errors"])
        ledger.bound_errors = {bound.problem: bound for bound in failed}
        ledger._deadly_ends = {(cell, at) for cell, at in facts["deadly_ends"]}
        ledger._sort()
        return ledger

    def _sort(self) -> None:
        self._index = KeyIndex(self._columns["cell"])
        self._unsorted.clear()

    def _taken(self, name: str, rows: Rows, missing: float) -> NDArray[Any]:
        """The values of some rows, ``missing`` for row -1."""
        column = self._columns[name]
        values = column[rows] if len(column) else np.empty(len(rows), column.dtype)
        values[rows < 0] = missing
        return values

    def _add_cell(self, record: CellRecord, row: int) -> None:
        held = Status(int(self._columns["status"][row])) if row >= 0 else Status.ABSENT
        attempts = 0 if record.status is Status.LOST else record.attempt
        deaths, end = record.deaths, (record.cell, record.started)
        if deaths and record.started:
            deaths = 0 if end in self._deadly_ends else deaths
            self._deadly_ends.add(end)
        if held is not Status.ABSENT:
            attempts = max(attempts, int(self._columns["attempts"][row]))
            deaths += int(self._columns["deaths_in_all"][row])
        bound = float(record.numbers.get("lower_bound", math.nan))
        if not math.isnan(bound):
            self._raise_bound(record.problem, bound, record.code[:CERTIFIER_DIGITS])
            if record.status is Status.OK:
                self.bound_errors.pop(record.problem, None)
        cost = float(record.numbers.get("squared_privacy_cost", math.nan))
        impossible = contradiction(cost, None) if "squared_privacy_cost" in record.numbers else None
        if impossible is not None:
            record = _failed(record, impossible)
        counts = {"attempts": attempts, "deaths_in_all": deaths}
        good = record.status is Status.OK and self._trouble(record.problem, cost) is None
        if held is Status.OK and not good and self._trouble_of(row) is None:
            self._columns.change(row, counts)
            return
        row = self._columns.put(self._values(record) | counts, row)
        if row == self._columns.count - 1:
            self._unsorted[record.cell] = row

    def _values(self, record: CellRecord) -> dict[str, Any]:
        """The values of a record by column."""
        facts: dict[str, Any] = vars(record)
        values = {name: facts[name].encode() for name in _KEYS}
        values |= {name: math.nan if facts[name] is None else facts[name] for name in _FLOATS}
        values |= {name: int(facts[name]) for name in ("status", "attempt", "deaths")}
        for name, known in self._texts.items():
            fact = facts[name]
            text = fact if isinstance(fact, str) else json.dumps(fact) if fact else ""
            values[name] = known.number(text)
        return values | {f"{_REPORTED}{name}": float(at) for name, at in record.numbers.items()}

    def _add_bound(self, record: BoundRecord) -> None:
        if not record.incidental:
            self.bound_errors.pop(record.problem, None)
        if record.error:
            self.bound_errors[record.problem] = record
        if record.lower_bound is not None:
            self._raise_bound(record.problem, record.lower_bound, record.code)

    def _raise_bound(self, problem: str, bound: float, code: str) -> None:
        if self.bound_codes.get(problem) != code or bound > self.bounds[problem]:
            self.bounds[problem], self.bound_codes[problem] = bound, code

    def _trouble(self, problem: str, cost: float) -> str | None:
        """The error of an answer below its problem's bound; None if it is not below."""
        return None if math.isnan(cost) else contradiction(cost, self.bounds.get(problem))

    def _trouble_of(self, row: int) -> str | None:
        cost = float(self._columns[_COST][row]) if _COST in self._columns.names else math.nan
        problem = self._texts["problem"].values[self._columns["problem"][row]]
        return self._trouble(problem, cost)

    @property
    def _refuted(self) -> dict[int, str]:
        """The errors of all answers below the bounds of their problems, by row."""
        if self._known_refuted is None:
            self._known_refuted = {}
            if self.bounds and _COST in self._columns.names:
                problems = self._texts["problem"].values
                bounds = np.array([self.bounds.get(problem, math.nan) for problem in problems])
                below = self._columns[_COST] < bounds[self._columns["problem"]]
                troubles = {row: self._trouble_of(row) for row in np.flatnonzero(below).tolist()}
                self._known_refuted = {row: said for row, said in troubles.items() if said}
        return self._known_refuted

    def _is_refuted(self, rows: Rows) -> NDArray[np.bool_]:
        return np.isin(rows, list(self._refuted))


def _failed(record: CellRecord, error: str) -> CellRecord:
    """The record of an answer that is wrong: a failure without numbers."""
    return replace(record, status=Status.FAILED, error=error, numbers={}, curve=None)
