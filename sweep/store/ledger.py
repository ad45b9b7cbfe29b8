"""The ledger: the current result of every cell, and the bound of every problem."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.solution import contradiction
from sweep.store.code import CERTIFIER_DIGITS
from sweep.store.columns import Columns
from sweep.store.keys import KeyIndex, Rows, texts
from sweep.store.records import (
    BoundRecord,
    CellRecord,
    ForgottenRecord,
    Record,
    Status,
    from_json,
    to_json,
)

MAX_WORKER_DEATHS = 3
"""A cell that has killed this many workers is retried only on request."""

_SUPERSEDED = int(Status.ABSENT)
"""Status of a row that a later record replaced, or whose cell was forgotten."""


class Records(Mapping[str, CellRecord]):
    """Records by cell id or solve key; a record is built when it is looked up.

    Parameters
    ----------
    columns : Columns
        The table of records.
    name : str
        The key column: ``cell`` or ``solve``.
    rows : numpy.ndarray
        The rows to include; the last row of a key wins.
    """

    def __init__(self, columns: Columns, name: str, rows: Rows) -> None:
        self._columns, self._rows = columns, rows
        self._held = columns.keys(name)[rows]

    @cached_property
    def _index(self) -> KeyIndex:
        return KeyIndex(self._held)

    def rows(self, keys: ArrayLike) -> Rows:
        """The row of every key, -1 where there is none."""
        at = self._index.positions(keys)
        return np.where(at < 0, -1, self._rows[at]) if len(self._rows) else at

    def __getitem__(self, key: str) -> CellRecord:
        (row,) = self.rows([key.encode()])
        if row < 0:
            raise KeyError(key)
        return self._columns.record(int(row))

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(texts(self._held)))

    def __len__(self) -> int:
        return len(np.unique(self._held))


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
        self._columns = Columns()
        self._least_cost: dict[str, float] = {}
        self._refuted = defaultdict[str, dict[str, CellRecord]](dict)
        """Original records of answers below a bound, by problem and cell."""
        self._deadly_ends: set[tuple[str, float]] = set()
        """Cell and time of every record of deaths, so that merged copies of one count once."""
        self.altered = False

    def add(self, records: Iterable[Record]) -> None:
        """Take in records, oldest first."""
        for record in records:
            match record:
                case CellRecord():
                    self._add_cell(record)
                case BoundRecord():
                    self._add_bound(record)
                case ForgottenRecord():
                    self._forget(record.cell)

    @property
    def cells(self) -> Records:
        """The current record of every cell, by cell id."""
        return Records(self._columns, "cell", self._current)

    @property
    def solved(self) -> Records:
        """The last record with status ``ok``, by solve key."""
        current = self._current
        return Records(self._columns, "solve", current[self.statuses(current) == Status.OK])

    @property
    def forgotten_solves(self) -> set[str]:
        """Keys of solves that no current record has.

        Solves that were forgotten before the index was written are not in it.
        """
        solves, used = self._columns.keys("solve"), self._current
        left = np.ones(len(solves), dtype=bool)
        left[used] = False
        return set(texts(solves[left])).difference(texts(solves[used]) if left.any() else ())

    def attempts(self, rows: Rows) -> NDArray[np.int32]:
        """Number of attempts at every row's cell; attempts lost with their worker do not count."""
        return self._columns.counts("attempts", rows, 0)

    def deaths(self, rows: Rows) -> NDArray[np.int32]:
        """Number of workers that every row's cell has killed, in all runs."""
        return self._columns.counts("deaths_in_all", rows, 0)

    def status(self, cell: str) -> Status:
        """The status of a cell of the grid, ``PENDING`` if there is no record of it."""
        row = self._row(cell)
        return Status.PENDING if row is None else Status(self._columns.count("status", row))

    def deadly(self, rows: Rows) -> NDArray[np.bool_]:
        """Which cells are lost for good: they have killed `MAX_WORKER_DEATHS` workers."""
        lost = self.statuses(rows) == Status.LOST
        return np.asarray(lost & (self.deaths(rows) >= MAX_WORKER_DEATHS))

    def forget_bound(self, problem: str) -> None:
        """Forget a problem's bound, so that it is certified again."""
        self.altered = True
        self.bounds.pop(problem, None)
        self.bound_codes.pop(problem, None)

    def forget_bound_error(self, problem: str) -> None:
        """Forget a bound that failed or was stopped, so that it is computed again."""
        if self.bound_errors.pop(problem, None) is not None:
            self.forget_bound(problem)

    def rows(self, cells: ArrayLike) -> Rows:
        """The current row of every cell, -1 where there is none; arguments of the methods below."""
        rows = self._columns.rows(cells)
        held = self._columns.counts("status", rows, _SUPERSEDED) != _SUPERSEDED
        return np.where(held, rows, -1)

    def others(self, cells: ArrayLike) -> list[str]:
        """Ids of recorded cells that are not in ``cells``."""
        rows, left = self.rows(cells), np.zeros(len(self._columns), dtype=bool)
        left[self._current] = True
        left[rows[rows >= 0]] = False
        return texts(self._columns.keys("cell")[left])

    def record(self, row: int) -> CellRecord:
        """The record of a row."""
        return self._columns.record(row)

    def statuses(self, rows: Rows) -> NDArray[np.int8]:
        """The status of every row."""
        return self._columns.counts("status", rows, Status.PENDING).astype(np.int8)

    def numbers(self, name: str, rows: Rows) -> NDArray[np.float64]:
        """A time (``started``, ``runtime_s``...) or a reported number; NaN where it is missing."""
        return self._columns.numbers(name, rows)

    def reported(self, rows: Rows) -> list[str]:
        """Names of the numbers that solutions of these rows reported."""
        names = self._columns.reported
        return [name for name in names if not np.isnan(self.numbers(name, rows)).all()]

    def tried(self, rows: Rows) -> NDArray[np.int32]:
        """The attempt that made every row, 0 for row -1."""
        return self._columns.counts("attempt", rows, 0)

    def texts(self, name: str, rows: Rows) -> tuple[NDArray[np.int32], Sequence[str]]:
        """The distinct texts of a column, and the place of every row's among them (-1: no row)."""
        return self._columns.texts_of(name, rows)

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """The current records as named arrays, yielded one at a time, for `restored`."""
        return self._columns.content(self._current)

    def content(self) -> dict[str, Any]:
        """Everything else as JSON-like content, for `restored`."""
        return {
            "texts": self._columns.texts,
            "bounds": self.bounds,
            "bound_codes": self.bound_codes,
            "bound_errors": [vars(bound) for bound in self.bound_errors.values()],
            "least_cost": self._least_cost,
            "refuted": [to_json(one) for of in self._refuted.values() for one in of.values()],
            "deadly_ends": sorted(self._deadly_ends),
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]], content: Mapping[str, Any]) -> "Ledger":
        """The ledger of what `arrays` and `content` gave; invalid content raises an exception."""
        ledger = cls()
        ledger._columns = Columns.restored(arrays, content["texts"])
        ledger.bounds = dict(content["bounds"])
        ledger.bound_codes = dict(content["bound_codes"])
        ledger._least_cost = dict(content["least_cost"])
        failed = (BoundRecord(**bound) for bound in content["bound_errors"])
        ledger.bound_errors = {bound.problem: bound for bound in failed}
        for one in map(from_json, content["refuted"]):
            if isinstance(one, CellRecord):
                ledger._refuted[one.problem][one.cell] = one
        ledger._deadly_ends = {(cell, at) for cell, at in content["deadly_ends"]}
        return ledger

    @property
    def _current(self) -> Rows:
        """The rows that are neither replaced by a later record nor forgotten."""
        everything = np.arange(len(self._columns), dtype=np.int32)
        held = self._columns.counts("status", everything, _SUPERSEDED) != _SUPERSEDED
        return np.flatnonzero(held).astype(np.int32)

    def _row(self, cell: str) -> int | None:
        """The current row of a cell; None without one."""
        row = self._columns.row(cell)
        return None if row < 0 or self._columns.count("status", row) == _SUPERSEDED else row

    def _add_cell(self, record: CellRecord) -> None:
        known = self._row(record.cell)
        tried = 0 if record.status is Status.LOST else record.attempt
        died, end = record.deaths, (record.cell, record.started)
        if died and record.started:
            died = 0 if end in self._deadly_ends else died
            self._deadly_ends.add(end)
        if known is not None:
            tried = max(tried, self._columns.count("attempts", known))
            died += self._columns.count("deaths_in_all", known)
        bound = float(record.numbers.get("lower_bound", math.nan))
        if not math.isnan(bound):
            self._raise_bound(record.problem, bound, record.code[:CERTIFIER_DIGITS])
            if record.status is Status.OK:
                self.bound_errors.pop(record.problem, None)
        cost = record.numbers.get("squared_privacy_cost")
        trouble = None if cost is None else self._judged(record.problem, float(cost))
        well = record.status is Status.OK and trouble is None
        if known is not None and not well and self.status(record.cell) is Status.OK:
            self._columns.set_count("attempts", known, tried)
            self._columns.set_count("deaths_in_all", known, died)
            return
        row = self._put(record, tried, died)
        if trouble is not None:
            self._refute(row, trouble)

    def _put(self, record: CellRecord, attempts: int, deaths_in_all: int) -> int:
        """Replace the record of a cell and return the new row."""
        self._forget(record.cell)
        return self._columns.append(record, attempts, deaths_in_all)

    def _refute(self, row: int, trouble: str) -> None:
        """Make an answer a failure, and keep its record in case the bound falls."""
        record = self._columns.record(row)
        self._refuted[record.problem][record.cell] = record
        self._columns.fail(row, trouble)

    def _forget(self, cell: str) -> None:
        """Drop the current record of a cell; bounds that it proved remain."""
        known = self._row(cell)
        if known is not None:
            self._refuted.get(self._columns.text("problem", known), {}).pop(cell, None)
            self._columns.set_count("status", known, _SUPERSEDED)

    def _add_bound(self, record: BoundRecord) -> None:
        if not record.incidental:
            self.bound_errors.pop(record.problem, None)
        if record.error:
            self.bound_errors[record.problem] = record
        if record.lower_bound is not None:
            self._raise_bound(record.problem, record.lower_bound, record.code)

    def _raise_bound(self, problem: str, bound: float, code: str) -> None:
        if self.bound_codes.get(problem) == code and bound <= self.bounds[problem]:
            return
        fell = bound < self.bounds.get(problem, bound)
        self.bounds[problem], self.bound_codes[problem] = bound, code
        if fell:
            self._rehabilitate(problem)
        least = self._least_cost.get(problem)
        if least is not None and contradiction(least, bound):
            for row in self._rows_of(problem):
                cost = self._columns.reported_number("squared_privacy_cost", row)
                trouble = None if math.isnan(cost) else self._judged(problem, cost)
                if trouble is not None:
                    self._refute(row, trouble)

    def _rehabilitate(self, problem: str) -> None:
        """Restore answers that a bound of earlier code refuted and the present one does not."""
        for record in [*self._refuted.get(problem, {}).values()]:
            cost = record.numbers.get("squared_privacy_cost", math.nan)
            if self._judged(problem, cost) is None:
                known = self._columns.row(record.cell)
                attempts = self._columns.count("attempts", known)
                self._put(record, attempts, self._columns.count("deaths_in_all", known))

    def _rows_of(self, problem: str) -> list[int]:
        """The current rows of a problem."""
        rows = self._current
        numbers, keys = self.texts("problem", rows)
        return [] if problem not in keys else rows[numbers == keys.index(problem)].tolist()

    def _judged(self, problem: str, cost: float) -> str | None:
        """The error of an answer below its problem's bound; None if it is not below."""
        trouble = contradiction(cost, self.bounds.get(problem))
        if trouble is None:
            self._least_cost[problem] = min(cost, self._least_cost.get(problem, math.inf))
        return trouble
