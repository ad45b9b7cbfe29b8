"""The ledger: every record as a row of columns, the current row of each cell, and the bounds.

A record takes about 130 bytes as a row; as an object it would take thousands.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.solution import contradiction
from sweep.store.code import CERTIFIER_DIGITS
from sweep.store.keys import KEY, KeyIndex, Rows, texts
from sweep.store.records import BoundRecord, CellRecord, ForgottenRecord, Record, Status

MAX_WORKER_DEATHS = 3
"""Number of killed workers after which a cell is solved again only on request."""

_KEYS = ("cell", "solve")
_COUNTS = ("status", "attempt", "deaths")
_FLOATS = ("started", "runtime_s", "cpu_s", "peak_memory_bytes")
_TEXTS = ("problem", "host", "error", "traceback", "code", "versions", "notes", "curve")
_REPORTED = "reported "
"""Prefix of the columns of numbers that solutions report."""
_FACTS = ("_texts", "bounds", "bound_codes", "bound_errors")
_COST = "squared_privacy_cost"
_MOST_FRESH = 2**13


@dataclass(frozen=True)
class _Current:
    """The current rows, one for each recorded cell.

    Attributes
    ----------
    index : KeyIndex
        Finds the row of a cell.
    attempts : numpy.ndarray
        At every current row, the highest number of its cell's attempts that were not lost; at
        other rows 0. A final 0 is the entry of row -1.
    deaths : dict of int to int
        The number of workers that died of a cell, by current row; cells of which none died are
        missing.
    refuted : dict of int to str
        The error of every answer that is below the lower bound on its problem, by row.
    """

    index: KeyIndex
    attempts: NDArray[np.integer[Any]]
    deaths: Mapping[int, int]
    refuted: Mapping[int, str]


class Ledger:
    """The current result of every cell: its last ``ok`` record, otherwise its last record.

    An answer whose squared privacy cost is below a certified lower bound on its problem is wrong:
    its cell counts as failed while that bound is valid, whichever solve proved the bound.

    Attributes
    ----------
    bounds : dict of str to float
        The highest certified lower bound on the squared privacy cost of every problem, by problem
        key; once other code has certified a problem, bounds from earlier code do not count.
    bound_codes : dict of str to str
        The identity of the code that certified each problem last, by problem key.
    bound_errors : dict of str to str
        Why a bound could not be computed, or is looser than requested, by problem key.
    """

    def __init__(self) -> None:
        self.bounds: dict[str, float] = {}
        self.bound_codes: dict[str, str] = {}
        self.bound_errors: dict[str, str] = {}
        self._columns: dict[str, NDArray[Any]] = {
            **{name: np.empty(0, KEY) for name in _KEYS},
            **{name: np.empty(0, np.int8) for name in (*_COUNTS, *_TEXTS)},
        }
        """Columns of keys, counts and texts, and one for every time and number of any record."""
        self._texts: dict[str, dict[str, int]] = {name: {"": 0} for name in _TEXTS}
        """The distinct texts of every text column, numbered in order of appearance."""
        self._fresh: list[CellRecord] = []
        """The records that are not in the columns yet."""
        self._known_current: _Current | None = None

    def add(self, records: Iterable[Record]) -> None:
        """Add records, oldest first."""
        for record in records:
            if isinstance(record, ForgottenRecord):
                self._fresh.append(CellRecord(record.cell, "", "", Status.ABSENT))
                continue
            if isinstance(record, BoundRecord):
                self.bound_errors.pop(record.problem, None)
                if record.error:
                    self.bound_errors[record.problem] = record.error
                if record.lower_bound is not None:
                    self._raise_bound(record.problem, record.lower_bound, record.code)
                continue
            bound = float(record.numbers.get("lower_bound", math.nan))
            if not math.isnan(bound):
                self._raise_bound(record.problem, bound, record.code[:CERTIFIER_DIGITS])
                if record.status is Status.OK:
                    self.bound_errors.pop(record.problem, None)
            impossible = None
            if _COST in record.numbers:
                impossible = contradiction(float(record.numbers[_COST]), None)
            self._fresh.append(record if impossible is None else _failed(record, impossible))
        self._known_current = None
        if len(self._fresh) > _MOST_FRESH:
            self._settle()

    def _raise_bound(self, problem: str, bound: float, code: str) -> None:
        # a bound from other code replaces the old one even if it is lower
        if self.bound_codes.get(problem) != code or bound > self.bounds[problem]:
            self.bounds[problem], self.bound_codes[problem] = bound, code

    def _settle(self) -> None:
        """Move the fresh records into the columns."""
        fresh, self._fresh = self._fresh, []
        if not fresh:
            return
        block: dict[str, NDArray[Any]] = {}
        for name in _KEYS:
            block[name] = np.array([getattr(record, name) for record in fresh], KEY)
        for name in (*_COUNTS, *_TEXTS):
            values = [getattr(record, name) for record in fresh]
            if known := self._texts.get(name):
                written = (v if isinstance(v, str) else json.dumps(v) if v else "" for v in values)
                values = [known.setdefault(text, len(known)) for text in written]
            block[name] = np.array(values, np.min_scalar_type(-1 - max(values)))
        numbers = [
            {name: getattr(record, name) for name in _FLOATS}
            | {_REPORTED + name: number for name, number in record.numbers.items()}
            for record in fresh
        ]
        for name in set[str]().union(*numbers):
            column = np.array([one.get(name) for one in numbers], np.float64)  # None becomes NaN
            if not np.isnan(column).all():
                block[name] = column
        held, new = len(self._columns["cell"]), len(fresh)
        for name in self._columns.keys() | block.keys():
            first = self._columns.get(name, np.full(held, math.nan))
            self._columns[name] = np.concatenate([first, block.get(name, np.full(new, math.nan))])

    @property
    def _current(self) -> _Current:
        if self._known_current is not None:
            return self._known_current
        self._settle()
        columns, refuted = self._columns, self._below_bounds()
        cells, status, attempt, died = (columns[n] for n in ("cell", "status", "attempt", "deaths"))
        index, rows = KeyIndex(cells), np.arange(len(cells), dtype=np.int32)
        last = index.last
        good = status == Status.OK
        good[list(refuted)] = False
        forgotten, row = np.full((2, len(cells)), -1, np.int32)
        # of several values for one place numpy keeps the last
        forgotten[last[status == Status.ABSENT]] = rows[status == Status.ABSENT]
        alive = rows > forgotten[last]
        row[last[alive]] = rows[alive]
        # an answer that no bound refutes outlives later failures
        row[last[alive & good]] = rows[alive & good]
        attempts = np.zeros(len(cells) + 1, attempt.dtype)
        tried, killed = alive & (status != Status.LOST), rows[alive & (died > 0)]
        np.maximum.at(attempts, row[last[tried]], attempt[tried])
        # the start identifies a trial, however often it is recorded
        started = self.numbers("started", killed).tolist()
        trials = zip(row[last[killed]].tolist(), started, strict=True)
        deaths = Counter[int]()
        for (at, _), number in dict(zip(trials, died[killed].tolist(), strict=True)).items():
            deaths[at] += number
        counting = np.unique(row[row >= 0])
        if len(counting) < len(cells):
            index = KeyIndex(cells, counting)
        self._known_current = _Current(index, attempts, deaths, refuted)
        return self._known_current

    def _below_bounds(self) -> dict[int, str]:
        costs, number = self._columns.get(_REPORTED + _COST), self._columns["problem"]
        if not self.bounds or costs is None:
            return {}
        bounds = [self.bounds.get(problem, math.nan) for problem in self._texts["problem"]]
        below = np.flatnonzero(costs < np.array(bounds)[number]).tolist()
        errors = {row: contradiction(float(costs[row]), bounds[number[row]]) for row in below}
        return {row: error for row, error in errors.items() if error is not None}

    def rows(self, cells: ArrayLike) -> Rows:
        """The current row of every cell, -1 if it has none; the methods below take such rows."""
        return self._current.index.positions(cells)

    @property
    def current(self) -> Rows:
        """The current rows of all recorded cells."""
        return np.sort(self._current.index.order)

    def solved(self, solves: ArrayLike) -> Rows:
        """For every solve key, the current ``ok`` row that started last; -1 if there is none."""
        rows = self.current
        rows = rows[self.statuses(rows) == Status.OK]
        rows = rows[np.argsort(self.numbers("started", rows), kind="stable")]
        found = KeyIndex(self._columns["solve"][rows]).positions(solves)
        return np.append(rows, np.int32(-1))[found]

    @property
    def forgotten_solves(self) -> set[str]:
        """Keys of the solves that belong only to forgotten cells."""
        current, solves = self.current, self._columns["solve"]
        if not (self._columns["status"] == Status.ABSENT).any():
            return set()
        return set(texts(np.setdiff1d(solves, solves[current])))

    def others(self, cells: ArrayLike) -> list[str]:
        """Ids of recorded cells that are not in ``cells``."""
        return texts(self._columns["cell"][np.setdiff1d(self.current, self.rows(cells))])

    def records(self, rows: Rows) -> list[CellRecord]:
        """The records of some rows."""
        refuted, records = self._current.refuted, list[CellRecord]()
        known = {name: list(texts) for name, texts in self._texts.items()}
        for row in rows.tolist():
            facts: dict[str, Any] = {name: at[row].item() for name, at in self._columns.items()}
            facts |= {name: facts[name].decode() for name in _KEYS}
            facts |= {name: known[name][facts[name]] for name in _TEXTS}
            times = {name: facts.pop(name, math.nan) for name in _FLOATS}
            facts |= {name: None if math.isnan(time) else time for name, time in times.items()}
            reported = {name: facts.pop(name) for name in self._columns if _REPORTED in name}
            facts["numbers"] = {
                name.removeprefix(_REPORTED): number
                for name, number in reported.items()
                if not math.isnan(number)
            }
            facts["status"] = Status(facts["status"])
            if facts["peak_memory_bytes"] is not None:
                facts["peak_memory_bytes"] = int(facts["peak_memory_bytes"])
            facts["notes"] = json.loads(facts["notes"] or "{}")
            facts["curve"] = json.loads(facts["curve"] or "null")
            record = CellRecord(**facts)
            records.append(_failed(record, refuted[row]) if row in refuted else record)
        return records

    def statuses(self, rows: Rows) -> NDArray[np.int8]:
        """The status of every row."""
        statuses = self.column("status", rows, Status.PENDING).astype(np.int8)
        statuses[np.isin(rows, list(self._current.refuted))] = Status.FAILED
        return statuses

    def attempts(self, rows: Rows) -> NDArray[np.int32]:
        """The highest attempt number of every cell, not counting attempts lost with a worker."""
        return self._current.attempts[rows].astype(np.int32)

    def deaths(self, rows: Rows) -> list[int]:
        """The number of workers that died of every cell."""
        return [self._current.deaths.get(row, 0) for row in rows.tolist()]

    def deadly(self, rows: Rows) -> NDArray[np.bool_]:
        """Mask of the cells that are lost for good, after `MAX_WORKER_DEATHS` worker deaths."""
        dead = np.array(self.deaths(rows), dtype=np.int64) >= MAX_WORKER_DEATHS
        return np.asarray(dead & (self.statuses(rows) == Status.LOST))

    def column(self, name: str, rows: Rows, missing: Any) -> NDArray[Any]:
        """What was recorded under a name for some rows; ``missing`` for row -1."""
        column = self._columns[name]
        values = column[rows] if len(column) else np.empty(len(rows), column.dtype)
        values[rows < 0] = missing
        return values

    def numbers(self, name: str, rows: Rows) -> NDArray[np.float64]:
        """A time (``started``, ``runtime_s``...) or a reported number; NaN if it is missing."""
        key = name if name in _FLOATS else _REPORTED + name
        if key not in self._columns:
            return np.full(len(rows), math.nan)
        numbers = self.column(key, rows, math.nan)
        if key != name:
            numbers[np.isin(rows, list(self._current.refuted))] = math.nan
        return numbers

    def reported(self, rows: Rows) -> list[str]:
        """Names of the numbers that the solutions of these rows report."""
        names = [name.removeprefix(_REPORTED) for name in self._columns if _REPORTED in name]
        return [name for name in names if not np.isnan(self.numbers(name, rows)).all()]

    def texts(self, name: str, rows: Rows) -> tuple[NDArray[np.int32], Sequence[str]]:
        """The distinct texts of a column, and for every row the index of its text (-1: no row)."""
        places, values = self.column(name, rows, -1).astype(np.int32), list(self._texts[name])
        if name in ("error", "curve"):
            for row, error in self._current.refuted.items():
                places[rows == row] = len(values)
                values.append(error if name == "error" else "")
        return places, values

    def content(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The columns, and everything else as JSON-like content, for `restored`."""
        self._settle()
        return dict(self._columns), {name: vars(self)[name] for name in _FACTS}

    @classmethod
    def restored(cls, columns: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> "Ledger":
        """The ledger from the result of `content`; invalid content raises an exception."""
        ledger = cls()
        if not ledger._columns.keys() <= columns.keys() or len(set(map(len, columns.values()))) > 1:
            raise ValueError("columns are missing or have different lengths")
        ledger._columns = dict(columns)
        for name in _FACTS:
            setattr(ledger, name, dict(facts[name]))
        return ledger


def _failed(record: CellRecord, error: str) -> CellRecord:
    """The record of a wrong answer: a failure without numbers."""
    return replace(record, status=Status.FAILED, error=error, numbers={}, curve=None)
