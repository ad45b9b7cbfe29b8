"""The ledger: the current result of every cell, and the bound of every problem.

Records are kept as columns, about 130 bytes per cell; as objects they would take thousands.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.solution import contradiction
from sweep.store.code import CERTIFIER_DIGITS
from sweep.store.keys import KEY, KeyIndex, Rows, texts
from sweep.store.records import BoundRecord, CellRecord, Record, Status

MAX_WORKER_DEATHS = 3
"""A cell that has killed this many workers is solved again only on request."""

_KEYS = ("cell", "solve")
_FLOATS = ("started", "runtime_s", "cpu_s", "peak_memory_bytes")
_TEXTS = ("problem", "host", "error", "traceback", "code", "versions", "notes", "curve")
_DEFAULTS: Mapping[str, np.generic] = {
    "started": np.float64(0.0),
    **dict.fromkeys(("status", "attempt", "attempts", "deaths"), np.int16(0)),
    **dict.fromkeys(_TEXTS, np.int32(0)),
}
_NAN = np.float64(math.nan)
"""The default value in columns of numbers."""
_REPORTED = "reported "
"""Prefix of the columns of numbers that solutions report."""
_COST = f"{_REPORTED}squared_privacy_cost"
_FORGOTTEN = int(Status.ABSENT)
_MIN_UNSORTED = 2**12
_UNSORTED_SHARE = 32
"""New cells are sorted into the index when there are more than 1/32 of all, and over 4096."""


class Ledger:
    """The current result of every cell: its last ``ok`` record, otherwise its last record.

    An answer whose squared privacy cost is below a certified lower bound on its problem is wrong:
    its cell counts as failed while that bound is valid, whichever solve proved the bound.

    Attributes
    ----------
    bounds : dict of str to float
        The highest certified lower bound on the squared privacy cost of every problem, by problem
        key; only bounds from the code that certified the problem last count.
    bound_codes : dict of str to str
        The identity of that code, by problem key.
    bound_errors : dict of str to str
        Why a bound could not be computed, or is looser than requested, by problem key.
    deaths : dict of (str, float) to int
        Number of workers that a cell has killed, by its id and the time at which it was given up,
        so that copies of a record count once.
    """

    def __init__(self) -> None:
        self.bounds: dict[str, float] = {}
        self.bound_codes: dict[str, str] = {}
        self.bound_errors: dict[str, str] = {}
        self._count = 0
        self._columns: dict[str, NDArray[Any]] = {
            **{name: np.empty(0, KEY) for name in _KEYS},
            **{name: np.empty(0, np.int16) for name in ("status", "attempts")},
        }
        """The columns, with spare rows; a column that has only its default value is left out."""
        self._texts: dict[str, dict[str, int]] = {name: {"": 0} for name in _TEXTS}
        """The distinct texts of every text column, numbered in order of appearance."""
        self._index = KeyIndex(self._columns["cell"])
        self._unsorted: dict[str, int] = {}
        """The rows of the cells that are not yet in the index."""
        self.deaths: dict[tuple[str, float], int] = {}
        self._known_refuted: dict[int, str] | None = None

    def add(self, records: Iterable[Record]) -> None:
        """Add records, oldest first."""
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
                self._columns["status"][row] = _FORGOTTEN
                self.deaths = {at: n for at, n in self.deaths.items() if at[0] != record.cell}
        self._known_refuted = None
        if len(self._unsorted) > max(_MIN_UNSORTED, self._count // _UNSORTED_SHARE):
            self._sort()

    def rows(self, cells: ArrayLike) -> Rows:
        """The row of every cell, -1 without a record; the methods below take such rows."""
        if self._unsorted:
            self._sort()
        rows = self._index.positions(cells)
        return np.where(self._taken("status", rows, _FORGOTTEN) == _FORGOTTEN, -1, rows)

    @property
    def current(self) -> Rows:
        """The rows of all recorded cells."""
        return np.flatnonzero(self._column("status") != _FORGOTTEN).astype(np.int32)

    def solved(self, solves: ArrayLike) -> Rows:
        """The last row with status ``ok`` of every solve key; -1 if there is none."""
        rows = self.current
        rows = rows[self.statuses(rows) == Status.OK]
        rows = rows[np.argsort(self.numbers("started", rows), kind="stable")]
        return np.append(rows, np.int32(-1))[
            KeyIndex(self._column("solve")[rows]).positions(solves)
        ]

    @property
    def forgotten_solves(self) -> set[str]:
        """Keys of solves that only forgotten cells have."""
        solves, left = self._column("solve"), self._column("status") == _FORGOTTEN
        return set(texts(solves[left])).difference(texts(solves[~left]) if left.any() else ())

    def others(self, cells: ArrayLike) -> list[str]:
        """Ids of recorded cells that are not in ``cells``."""
        return texts(self._column("cell")[np.setdiff1d(self.current, self.rows(cells))])

    def records(self, rows: Rows) -> list[CellRecord]:
        """The records of some rows."""
        known = {name: list(texts) for name, texts in self._texts.items()}
        return [self._record(row, known) for row in rows.tolist()]

    def _record(self, row: int, known: Mapping[str, Sequence[str]]) -> CellRecord:
        values = {
            name: self._column(name)[row].item() for name in (*_FLOATS, *_DEFAULTS, *self._columns)
        }
        facts: dict[str, Any] = {name: values[name].decode() for name in _KEYS}
        facts |= {name: values[name] for name in ("attempt", "deaths")}
        facts |= {name: None if math.isnan(values[name]) else values[name] for name in _FLOATS}
        if facts["peak_memory_bytes"] is not None:
            facts["peak_memory_bytes"] = int(facts["peak_memory_bytes"])
        facts |= {name: known[name][values[name]] for name in _TEXTS}
        facts["notes"] = json.loads(facts["notes"] or "{}")
        facts["curve"] = json.loads(facts["curve"] or "null")
        facts["numbers"] = {
            name.removeprefix(_REPORTED): value
            for name, value in values.items()
            if name.startswith(_REPORTED) and not math.isnan(value)
        }
        record = CellRecord(**facts, status=Status(values["status"]))
        trouble = self._refuted.get(row)
        return record if trouble is None else _failed(record, trouble)

    def statuses(self, rows: Rows) -> NDArray[np.int8]:
        """The status of every row."""
        statuses = self._taken("status", rows, Status.PENDING).astype(np.int8)
        statuses[self._is_refuted(rows)] = Status.FAILED
        return statuses

    def counts(self, name: str, rows: Rows) -> NDArray[np.int32]:
        """A count of every row, 0 for row -1.

        ``attempt`` is the number of the attempt that made the record, ``attempts`` the highest
        number of its cell, not counting attempts lost with their worker.
        """
        return self._taken(name, rows, 0).astype(np.int32)

    def deadly(self, rows: Rows) -> NDArray[np.bool_]:
        """Mask of the cells that are lost for good, after `MAX_WORKER_DEATHS` worker deaths."""
        deaths = Counter[str]()
        for (cell, _), count in self.deaths.items():
            deaths[cell] += count
        deadly = [cell.encode() for cell, n in deaths.items() if n >= MAX_WORKER_DEATHS]
        lost = self.statuses(rows) == Status.LOST
        return np.asarray(lost & np.isin(self._taken("cell", rows, b""), deadly))

    def numbers(self, name: str, rows: Rows) -> NDArray[np.float64]:
        """A time (``started``, ``runtime_s``...) or a reported number; NaN if it is missing."""
        if name in _FLOATS:
            return self._taken(name, rows, math.nan)
        if _REPORTED + name not in self._columns:
            return np.full(len(rows), math.nan)
        numbers = self._taken(_REPORTED + name, rows, math.nan)
        numbers[self._is_refuted(rows)] = math.nan
        return numbers

    def reported(self, rows: Rows) -> list[str]:
        """Names of the numbers that the solutions of these rows report."""
        names = [name.removeprefix(_REPORTED) for name in self._columns if _REPORTED in name]
        return [name for name in names if not np.isnan(self.numbers(name, rows)).all()]

    def texts(self, name: str, rows: Rows) -> tuple[NDArray[np.int32], Sequence[str]]:
        """The distinct texts of a column, and for every row the index of its text (-1: no row)."""
        places, values = self._taken(name, rows, -1), list(self._texts[name])
        if name in ("error", "curve"):
            for row, trouble in self._refuted.items():
                places[rows == row] = len(values)
                values.append(trouble if name == "error" else "")
        return places, values

    def content(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The columns, and everything else as JSON-like content, for `restored`."""
        return {name: self._column(name) for name in self._columns}, {
            "texts": {name: list(known) for name, known in self._texts.items()},
            "bounds": self.bounds,
            "bound_codes": self.bound_codes,
            "bound_errors": self.bound_errors,
            "deaths": [[*at, count] for at, count in self.deaths.items()],
        }

    @classmethod
    def restored(cls, columns: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> "Ledger":
        """The ledger from the result of `content`; invalid content raises an exception."""
        ledger = cls()
        ledger._columns, ledger._count = dict(columns), len(columns["cell"])
        if any(len(column) != ledger._count for column in columns.values()):
            raise ValueError("columns of different lengths")
        ledger._texts = {
            name: {text: number for number, text in enumerate(facts["texts"][name])}
            for name in _TEXTS
        }
        ledger.bounds, ledger.bound_codes = dict(facts["bounds"]), dict(facts["bound_codes"])
        ledger.bound_errors = dict(facts["bound_errors"])
        ledger.deaths = {(cell, at): count for cell, at, count in facts["deaths"]}
        ledger._sort()
        return ledger

    def _column(self, name: str) -> NDArray[Any]:
        if name not in self._columns:
            return np.broadcast_to(_DEFAULTS.get(name, _NAN), self._count)
        return self._columns[name][: self._count]

    def _sort(self) -> None:
        self._index = KeyIndex(self._column("cell"))
        self._unsorted.clear()

    def _taken(self, name: str, rows: Rows, missing: Any) -> NDArray[Any]:
        """The values of some rows; ``missing`` for row -1."""
        column = self._column(name)
        values = column[rows] if len(column) else np.empty(len(rows), column.dtype)
        values[rows < 0] = missing
        return values

    def _add_cell(self, record: CellRecord, row: int) -> None:
        current = Status(int(self._columns["status"][row])) if row >= 0 else Status.ABSENT
        attempts = 0 if record.status is Status.LOST else record.attempt
        if current is not Status.ABSENT:
            attempts = max(attempts, int(self._columns["attempts"][row]))
        if record.deaths:
            self.deaths[record.cell, record.started] = record.deaths
        bound = float(record.numbers.get("lower_bound", math.nan))
        if not math.isnan(bound):
            self._raise_bound(record.problem, bound, record.code[:CERTIFIER_DIGITS])
            if record.status is Status.OK:
                self.bound_errors.pop(record.problem, None)
        cost = float(record.numbers.get("squared_privacy_cost", math.nan))
        impossible = contradiction(cost, None) if "squared_privacy_cost" in record.numbers else None
        if impossible is not None:
            record = _failed(record, impossible)
        good = record.status is Status.OK and self._trouble(record.problem, cost) is None
        # an ``ok`` record that no bound refutes outlives later failures
        if current is Status.OK and not good:
            kept = float(self._columns[_COST][row]) if _COST in self._columns else math.nan
            if self._trouble(record.problem, kept) is None:
                self._columns["attempts"][row] = attempts
                return
        if row < 0:
            row = self._unsorted[record.cell] = self._count
            self._count += 1
        self._put(row, {**self._values(record), "attempts": attempts})

    def _put(self, row: int, values: Mapping[str, Any]) -> None:
        """Replace a row, or append one, with the columns' defaults for other values."""
        room = len(self._columns["cell"])
        if row == room:
            # in proportion to the rows, so that each row is copied a bounded number of times
            room += 64 + row // 16
            for name, column in self._columns.items():
                self._columns[name] = np.empty(room, column.dtype)
                self._columns[name][:row] = column
        for name in values.keys() - self._columns.keys():
            if values[name] != (default := _DEFAULTS.get(name, _NAN)):
                self._columns[name] = np.full(room, default)
        for name, column in self._columns.items():
            column[row] = values.get(name, _DEFAULTS.get(name, _NAN))

    def _values(self, record: CellRecord) -> dict[str, Any]:
        """The values of a record by column."""
        facts: dict[str, Any] = vars(record)
        values = {name: facts[name].encode() for name in _KEYS}
        values |= {name: facts[name] for name in _FLOATS if facts[name] is not None}
        values |= {name: int(facts[name]) for name in ("status", "attempt", "deaths")}
        for name, known in self._texts.items():
            fact = facts[name]
            text = fact if isinstance(fact, str) else json.dumps(fact) if fact else ""
            values[name] = known.setdefault(text, len(known))
        return values | {f"{_REPORTED}{name}": float(at) for name, at in record.numbers.items()}

    def _add_bound(self, record: BoundRecord) -> None:
        self.bound_errors.pop(record.problem, None)
        if record.error:
            self.bound_errors[record.problem] = record.error
        if record.lower_bound is not None:
            self._raise_bound(record.problem, record.lower_bound, record.code)

    def _raise_bound(self, problem: str, bound: float, code: str) -> None:
        # a bound from other code replaces the old one even if it is lower
        if self.bound_codes.get(problem) != code or bound > self.bounds[problem]:
            self.bounds[problem], self.bound_codes[problem] = bound, code

    def _trouble(self, problem: str, cost: float) -> str | None:
        """The error of an answer below its problem's bound; None if it is not below."""
        return None if math.isnan(cost) else contradiction(cost, self.bounds.get(problem))

    @property
    def _refuted(self) -> dict[int, str]:
        """The errors of all answers below the bounds of their problems, by row."""
        if self._known_refuted is None:
            self._known_refuted = {}
            if self.bounds and _COST in self._columns:
                problems, number = list(self._texts["problem"]), self._column("problem")
                bounds = np.array([self.bounds.get(problem, math.nan) for problem in problems])
                costs = self._column(_COST)
                for row in np.flatnonzero(costs < bounds[number]).tolist():
                    if trouble := self._trouble(problems[number[row]], float(costs[row])):
                        self._known_refuted[row] = trouble
        return self._known_refuted

    def _is_refuted(self, rows: Rows) -> NDArray[np.bool_]:
        return np.isin(rows, list(self._refuted))


def _failed(record: CellRecord, error: str) -> CellRecord:
    """The record of a wrong answer: a failure without numbers."""
    return replace(record, status=Status.FAILED, error=error, numbers={}, curve=None)
