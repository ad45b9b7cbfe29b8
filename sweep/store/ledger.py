"""The ledger: a table with a row for every record of a cell, and the bounds of all problems.

The ledger also finds each cell's current row. A record takes about 130 bytes as a row; as an object
it would take thousands.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.solution import contradiction
from sweep.store.keys import KEY, Column, KeyIndex, Rows, to_texts
from sweep.store.records import NO_CELL, CellRecord, ForgottenRecord, Record, SolveCode, Status

MAX_WORKER_DEATHS = 3
"""Number of killed workers after which a cell is solved again only by ``sweep rerun``."""

_KEYS = ("cell", "solve")
_COUNTS = ("status", "attempt", "deaths")
_FLOATS = ("started", "runtime_s", "cpu_s", "peak_memory_bytes")
_CONTENTS = ("notes", "curve")
_TEXTS = ("problem", "host", "error", "traceback", "code", "versions", *_CONTENTS)
_FIELDS = (*_KEYS, *_COUNTS, *_FLOATS, *_TEXTS)
_REPORTED = "reported "
"""Prefix of the names of the columns that contain numbers reported by solutions."""
_FACTS = ("_texts", "bounds", "bound_codes", "bound_errors")
_COST = "squared_privacy_cost"
MOST_FRESH = 2**13
"""Most records that wait as objects, of about 1 kB each.

With 256 adding is a quarter slower; 65 536 are no faster and take 60 MB.
"""
_NOTHING = CellRecord(*NO_CELL, Status.PENDING, attempt=0)
"""The placeholder in row 0, the current row of every cell that has no record."""


class _Derived(NamedTuple):
    """The current row of every cell, and what other records say about the row.

    Attributes
    ----------
    last : KeyIndex
        Finds the last row of a cell.
    row : numpy.ndarray
        At the index of each cell's last row, the cell's current row; at other indices 0.
    statuses : numpy.ndarray
        The status of every row; ``FAILED`` if its answer is refuted.
    attempts : numpy.ndarray
        At every current row, the number of the cell's last attempt, ignoring lost attempts.
    deaths : numpy.ndarray
        At every current row, the number of workers that died while solving the row's cell.
    refuted : dict of int to str
        The error message of every refuted answer, by row.
    """

    last: KeyIndex
    row: Rows
    statuses: NDArray[np.int8]
    attempts: Column
    deaths: Column
    refuted: dict[int, str]


class Ledger:
    """The current record of every cell: its last ``ok`` record or, if none is ok, its last record.

    An answer is refuted, and its record treated as failed, if its squared privacy cost is below the
    valid certified lower bound on its problem, no matter which solve certified the bound.

    Attributes
    ----------
    bounds : dict of str to float
        The highest certified lower bound on the squared privacy cost of every problem, by problem
        key. Once newer code has certified a bound, bounds from older code are no longer valid.
    bound_codes : dict of str to str
        The identity of the code that certified each problem last, by problem key.
    bound_errors : dict of str to str
        Why a bound could not be computed, or is looser than requested, by problem key.
    """

    def __init__(self) -> None:
        self.bounds: dict[str, float] = {}
        self.bound_codes: dict[str, str] = {}
        self.bound_errors: dict[str, str] = {}
        self._columns: dict[str, Column] = {}
        """The columns by name: keys, counts, texts, times, and numbers reported by solutions."""
        self._texts: dict[str, dict[str, int]] = {name: {"": 0} for name in _TEXTS}
        """For every text column, the number that replaces each distinct text in the column."""
        self._fresh = [_NOTHING]
        """The records that have not been moved into the columns yet."""
        self._found: tuple[ArrayLike, Rows] = (), np.empty(0, np.int32)
        """The cells and the result of the last call of `rows`; commands often repeat a call."""

    def add(self, records: Iterable[Record]) -> None:
        """Add records, oldest first."""
        vars(self).pop("_derived", None)
        self._found = (), np.empty(0, np.int32)
        for record in records:
            if isinstance(record, CellRecord):
                bound = record.numbers.get("lower_bound", math.nan)
                if not math.isnan(bound):
                    self._raise_bound(record.problem, bound, record.code.certifier)
                    if record.status is Status.OK:
                        self.bound_errors.pop(record.problem, None)
                self._fresh.append(record)
                if len(self._fresh) > MOST_FRESH:
                    self._settle()
            elif isinstance(record, ForgottenRecord):
                self._fresh.append(CellRecord(record.cell, "", "", Status.ABSENT))
            else:
                self.bound_errors.pop(record.problem, None)
                if record.error:
                    self.bound_errors[record.problem] = record.error
                if record.lower_bound is not None:
                    self._raise_bound(record.problem, record.lower_bound, record.code)

    def _raise_bound(self, problem: str, bound: float, code: str) -> None:
        # a bound from other code replaces the old one even if it is lower
        if self.bound_codes.get(problem) != code or bound > self.bounds[problem]:
            self.bounds[problem], self.bound_codes[problem] = bound, code

    def _settle(self) -> None:
        """Move the fresh records into the columns."""
        fresh, self._fresh = self._fresh, []
        if not fresh:
            return
        fields = {name: [getattr(record, name) for record in fresh] for name in _FIELDS}
        block = {name: np.array(fields[name], KEY) for name in _KEYS}
        for name in _CONTENTS:
            fields[name] = [json.dumps(content) if content else "" for content in fields[name]]
        # every distinct text is stored once; the column has its number
        for name, numbers in self._texts.items():
            fields[name] = [numbers.setdefault(text, len(numbers)) for text in fields[name]]
        for name in (*_COUNTS, *_TEXTS):  # the smallest type of integers; concatenating widens it
            block[name] = np.array(fields[name], np.min_scalar_type(-1 - max(fields[name])))
        reported = [record.numbers for record in fresh]
        for name in set[str]().union(*reported):
            fields[_REPORTED + name] = [numbers_of.get(name) for numbers_of in reported]
        for name in fields.keys() - block.keys():
            column = np.array(fields[name], np.float64)  # None becomes NaN
            if not np.isnan(column).all():
                block[name] = column
        # a column that only one part has is NaN in the other part
        held, new = len(self._columns.get("cell", ())), len(fresh)
        for name in self._columns.keys() | block.keys():
            both = (self._columns.get(name), held), (block.get(name), new)
            parts = [np.full(n, math.nan) if part is None else part for part, n in both if n]
            self._columns[name] = np.concatenate(parts)

    @cached_property
    def _derived(self) -> "_Derived":
        """What follows from all records together; computed again after records were added."""
        self._settle()
        columns = self._columns
        cells, statuses, attempt = columns["cell"], columns["status"], columns["attempt"]
        # 1. an answer below the valid bound on its problem is refuted: it counts as failed
        bounds = [self.bounds.get(problem, math.nan) for problem in self._texts["problem"]]
        bound = np.array(bounds)[columns["problem"]]
        costs = columns.get(_REPORTED + _COST, np.full(1, math.nan))
        below = np.flatnonzero(costs < bound).tolist()
        refuted = {row: why for row in below if (why := contradiction(costs[row], bound[row]))}
        if refuted:
            statuses = statuses.copy()
            statuses[list(refuted)] = Status.FAILED
        # 2. facts about a cell are stored at the index of the cell's last row
        index, rows = KeyIndex(cells), np.arange(len(cells), dtype=np.int32)
        last = index.last
        forgotten, row = np.zeros_like(rows), np.zeros_like(rows)
        # 3. rows up to a cell's last tombstone are dead, and the last row alive is current; of
        # several values assigned to one index, numpy keeps the last
        forgotten[last[statuses == Status.ABSENT]] = rows[statuses == Status.ABSENT]
        alive = rows > forgotten[last]
        row[last[alive]] = rows[alive]
        # 4. an answer that no bound refutes stays current after later failures
        good = alive & (statuses == Status.OK)
        row[last[good]] = rows[good]
        # 5. attempts and deaths are those of all rows alive, stored at the current row
        attempts, deaths = np.zeros(len(cells), np.int16), np.zeros_like(rows)
        tried, killed = alive & (statuses != Status.LOST), alive & (columns["deaths"] > 0)
        np.maximum.at(attempts, row[last[tried]], attempt[tried])
        # an attempt is identified by its start, however often it is recorded
        trials = np.array([row[last[killed]], columns["started"][killed]])
        (current, _), first = np.unique(trials, axis=1, return_index=True)
        np.add.at(deaths, current.astype(np.int32), columns["deaths"][killed][first])
        return _Derived(index, row, statuses, attempts, deaths, refuted)

    def rows(self, cells: ArrayLike) -> Rows:
        """Return every cell's current row, for use with other methods; 0 if there is no record."""
        if self._found[0] is not cells:
            last = np.maximum(self._derived.last.positions(cells), 0)
            self._found = cells, self._derived.row[last]
        return self._found[1]

    @property
    def current(self) -> Rows:
        """The current rows of all recorded cells."""
        return np.unique(self._derived.row)[1:]

    def solved(self, solves: ArrayLike) -> Rows:
        """For every solve key, the current ``ok`` row with the latest start; 0 if there is none."""
        rows = self.current
        rows = rows[self.statuses(rows) == Status.OK]
        rows = rows[np.argsort(self.numbers("started", rows), kind="stable")]
        positions = KeyIndex(self._columns["solve"][rows]).positions(solves)
        return np.append(rows, np.int32(0))[positions]  # position -1 is the 0 at the end

    @property
    def has_forgotten(self) -> bool:
        """Whether a cell has ever been forgotten."""
        self._settle()
        return bool((self._columns["status"] == Status.ABSENT).any())

    @property
    def forgotten_solves(self) -> set[str]:
        """Keys of the solves that belong only to forgotten cells."""
        if not self.has_forgotten:
            return set()
        current, solves = self.current, self._columns["solve"]
        return set(to_texts(np.setdiff1d(solves, solves[current])))

    def others(self, cells: ArrayLike) -> list[str]:
        """Ids of recorded cells that are not in ``cells``."""
        return to_texts(self._columns["cell"][np.setdiff1d(self.current, self.rows(cells))])

    def records(self, rows: Rows) -> list[CellRecord]:
        """Return the records in these rows; the status of a refuted answer is ``FAILED``."""
        refuted, records = self._derived.refuted, list[CellRecord]()
        texts_of = {name: list(numbers) for name, numbers in self._texts.items()}
        for row in rows.tolist():
            facts = {name: column[row].item() for name, column in self._columns.items()}
            facts = {name: fact for name, fact in facts.items() if fact == fact}  # without NaN
            facts |= {name: facts[name].decode() for name in _KEYS}
            facts |= {name: texts_of[name][facts[name]] for name in _TEXTS}
            reported = [name for name in facts if _REPORTED in name]
            numbers = {name.removeprefix(_REPORTED): facts.pop(name) for name in reported}
            if "peak_memory_bytes" in facts:
                facts["peak_memory_bytes"] = int(facts["peak_memory_bytes"])
            facts["status"], facts["code"] = Status(facts["status"]), SolveCode(facts["code"])
            facts["notes"] = json.loads(facts["notes"] or "{}")
            facts["curve"] = json.loads(facts["curve"] or "null")
            if row in refuted:
                facts |= {"status": Status.FAILED, "error": refuted[row], "curve": None}
            records.append(CellRecord(numbers={} if row in refuted else numbers, **facts))
        return records

    def statuses(self, rows: Rows) -> NDArray[np.int8]:
        """Return the status of every row."""
        return self._derived.statuses[rows]

    def attempts(self, rows: Rows) -> NDArray[np.int16]:
        """For every row, the number of the cell's last attempt that was not lost with a worker."""
        return self._derived.attempts[rows]

    def deaths(self, rows: Rows) -> NDArray[np.int32]:
        """For every row, the number of workers that died while they were solving only its cell."""
        return self._derived.deaths[rows]

    def numbers(self, name: str, rows: Rows) -> NDArray[np.float64]:
        """Return the time, count or reported number ``name`` in these rows; NaN if missing.

        Refuted answers report no numbers.
        """
        key = name if name in (*_FLOATS, *_COUNTS) else _REPORTED + name
        if key not in self._columns:
            return np.full(len(rows), math.nan)
        numbers = self._columns[key][rows]
        if key != name:
            numbers[np.isin(rows, list(self._derived.refuted))] = math.nan
        return numbers

    def reported(self, rows: Rows) -> list[str]:
        """Return the names of the numbers that the solutions of these rows report."""
        names = [name.removeprefix(_REPORTED) for name in self._columns if _REPORTED in name]
        return [name for name in names if not np.isnan(self.numbers(name, rows)).all()]

    def texts(self, name: str, rows: Rows) -> tuple[NDArray[np.int32], Sequence[str]]:
        """Return each row's text in the column ``name``, as an index into the second value.

        The second value is a list of all texts in the column.
        """
        places, values = self._columns[name][rows].astype(np.int32), list(self._texts[name])
        if name in ("error", "curve"):
            for row, error in self._derived.refuted.items():
                places[rows == row] = len(values)
                values.append(error if name == "error" else "")
        return places, values

    def content(self) -> tuple[dict[str, Column], dict[str, object]]:
        """Return the columns, and the other attributes as JSON-like content, for `restored`."""
        self._settle()
        return dict(self._columns), {name: vars(self)[name] for name in _FACTS}

    @classmethod
    def restored(cls, columns: Mapping[str, Column], facts: Mapping[str, object]) -> "Ledger":
        """Return a ledger with the columns and attributes that `content` returned."""
        ledger = cls()
        ledger._columns, ledger._fresh = dict(columns), []
        vars(ledger).update({name: facts[name] for name in _FACTS})
        return ledger
