"""The ledger: what the records of a journal say together."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from solvers.certificate import contradiction
from sweep.store.columns import Columns, Rows
from sweep.store.records import (
    BoundRecord,
    CellRecord,
    ForgottenRecord,
    Record,
    Status,
    from_json,
    to_json,
)

_T = TypeVar("_T")

DEADLY = 3
"""Deaths of workers after which a cell is not retried unless somebody asks for it."""

_SUPERSEDED = int(Status.ABSENT)
"""The status of rows that no cell refers to any more."""


class _ByKey(Mapping[str, _T]):
    """What every key's row holds, read when it is asked for."""

    def __init__(self, rows: Mapping[str, int], held: Callable[[int], _T]) -> None:
        self._rows, self._held = rows, held

    def __getitem__(self, key: str) -> _T:
        return self._held(self._rows[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class Ledger:
    """The current result of every cell: its last ``ok`` record, or else its last record.

    A cell whose squared privacy cost lies below a certified bound on its problem has failed,
    whichever solve proved the bound.

    Attributes
    ----------
    bounds : dict of str to float
        The highest certified lower bound on the squared privacy cost of every problem, by
        problem key; only bounds found by the code that certified the problem last count.
    bound_codes : dict of str to str
        The hash of that code, by problem key.
    bound_errors : dict of str to BoundRecord
        Bounds that could not be computed, or not as close as asked, by problem key.
    altered : bool
        Whether it no longer says what the journal says, since something was forgotten.
    """

    def __init__(self) -> None:
        self.bounds: dict[str, float] = {}
        self.bound_codes: dict[str, str] = {}
        self.bound_errors: dict[str, BoundRecord] = {}
        self._columns = Columns()
        self._rows: dict[str, int] = {}
        self._least_cost: dict[str, float] = {}
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
    def cells(self) -> Mapping[str, CellRecord]:
        """The current record of every cell, by cell id."""
        return _ByKey(self._rows, self._columns.record)

    @property
    def solved(self) -> Mapping[str, CellRecord]:
        """The last record with status ``ok``, by solve key."""
        solves, rows = self._columns.keys["solve"], np.arange(len(self._columns))
        good = np.flatnonzero(self._columns.counts("status", rows, _SUPERSEDED) == Status.OK)
        return _ByKey({solves[row]: row for row in good.tolist()}, self._columns.record)

    @property
    def deaths(self) -> Mapping[str, int]:
        """Number of workers that died of a cell, in all runs, where any did."""
        counted = (
            (cell, self._columns.count("deaths_in_all", at)) for cell, at in self._rows.items()
        )
        return {cell: deaths for cell, deaths in counted if deaths}

    def attempts(self, cell: str) -> int:
        """Number of attempts at a cell, without those that the infrastructure lost."""
        row = self._rows.get(cell)
        return 0 if row is None else self._columns.count("attempts", row)

    def status(self, cell: str) -> Status:
        """The status of a cell of the grid, ``PENDING`` if there is no record of it."""
        row = self._rows.get(cell)
        return Status.PENDING if row is None else Status(self._columns.count("status", row))

    def is_deadly(self, cell: str) -> bool:
        """Whether a cell is lost for good: `DEADLY` workers have died of it, and none survived."""
        row = self._rows.get(cell)
        lost = row is not None and self._columns.count("status", row) == Status.LOST
        return lost and self._columns.count("deaths_in_all", self._rows[cell]) >= DEADLY

    def is_of_other_code(self, cell: str, code: str, of_bound: str) -> bool:
        """Whether a cell was solved, or its problem certified, by code other than these."""
        (found,) = self.of_other_code(self.rows([cell]), [code], [of_bound], np.zeros(1, np.int64))
        return bool(found)

    def forget_bound(self, problem: str) -> None:
        """Forget a problem's bound, so that it is certified again."""
        self.altered = True
        self.bounds.pop(problem, None)
        self.bound_codes.pop(problem, None)

    def forget_bound_error(self, problem: str) -> None:
        """Forget a problem's bound that failed or was stopped, so that it is tried again."""
        if self.bound_errors.pop(problem, None) is not None:
            self.forget_bound(problem)

    def rows(self, cells: Iterable[str]) -> Rows:
        """The rows of some cells, which the columns below are asked for with."""
        at = self._rows
        return np.array([at.get(cell, -1) for cell in cells], dtype=np.int64)

    def statuses(self, rows: Rows) -> NDArray[np.int8]:
        """The status of every row."""
        return self._columns.counts("status", rows, Status.PENDING).astype(np.int8)

    def numbers(self, name: str, rows: Rows) -> NDArray[np.float64]:
        """A time (``started``, ``runtime_s``...) or a reported number, NaN where there is none."""
        return self._columns.numbers(name, rows)

    def reported(self, rows: Rows) -> list[str]:
        """Names of the numbers that the solutions of some rows have reported."""
        names = self._columns.reported
        return [name for name in names if not np.isnan(self.numbers(name, rows)).all()]

    def tried(self, rows: Rows) -> NDArray[np.int32]:
        """Number of every row's attempt, 0 where there is none."""
        return self._columns.counts("attempt", rows, 0)

    def texts(self, name: str, rows: Rows) -> tuple[NDArray[np.int32], Sequence[str]]:
        """A text of every row: its place, -1 where there is none, among the distinct texts."""
        return self._columns.text_numbers(name, rows), self._columns.text_values(name)

    def of_other_code(
        self, rows: Rows, codes: Sequence[str], of_bounds: Sequence[str], at: NDArray[Any]
    ) -> NDArray[np.bool_]:
        """Which rows are final, and were solved or certified by code other than the present.

        Parameters
        ----------
        rows : numpy.ndarray
            The rows.
        codes, of_bounds : sequence of str
            Hashes of the code that solves, and of that which certifies, now.
        at : numpy.ndarray
            The place in these of every row's own.
        """
        final = np.isin(self.statuses(rows), [status for status in Status if status.final])
        theirs, known = self.texts("code", rows)
        number = {code: place for place, code in enumerate(known)}

        def numbered(listed: Iterable[str | None]) -> NDArray[np.int64]:
            return np.array(
                [-1 if code is None else number.setdefault(code, len(number)) for code in listed],
                dtype=np.int64,
            )

        solved_by_other = theirs != numbered(codes)[at]
        problems, keys = self.texts("problem", rows)
        certifiers = np.append(numbered(map(self.bound_codes.get, keys)), -1)[problems]
        certified_by_other = (certifiers >= 0) & (certifiers != numbered(of_bounds)[at])
        return np.asarray(final & (solved_by_other | certified_by_other))

    def content(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """All of it as arrays and as JSON-like content, for `restored`."""
        arrays, texts = self._columns.content(np.sort(self._current))
        return arrays, {
            "texts": texts,
            "bounds": self.bounds,
            "bound_codes": self.bound_codes,
            "bound_errors": [to_json(one) for one in self.bound_errors.values()],
            "least_cost": self._least_cost,
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]], content: Mapping[str, Any]) -> "Ledger":
        """The ledger of that content; an error of some kind if it is not one."""
        found = cls()
        found._columns = Columns.restored(arrays, content["texts"])
        found._rows = {cell: row for row, cell in enumerate(found._columns.keys["cell"])}
        found.bounds = dict(content["bounds"])
        found.bound_codes = dict(content["bound_codes"])
        found._least_cost = dict(content["least_cost"])
        found.add(from_json(one) for one in content["bound_errors"])
        return found

    @property
    def _current(self) -> Rows:
        """The rows that cells refer to."""
        return np.fromiter(self._rows.values(), np.int64, len(self._rows))

    def _add_cell(self, record: CellRecord) -> None:
        known = self._rows.get(record.cell)
        tried = 0 if record.status is Status.LOST else record.attempt
        died = record.deaths
        if known is not None:
            tried = max(tried, self._columns.count("attempts", known))
            died += self._columns.count("deaths_in_all", known)
        bound = float(record.numbers.get("lower_bound", math.nan))
        if not math.isnan(bound):
            self._raise_bound(record.problem, bound, record.code)
        row = known
        if row is None or record.status is Status.OK or self.status(record.cell) is not Status.OK:
            row = self._rows[record.cell] = self._columns.append(record)
            if known is not None:
                self._columns.set_count("status", known, _SUPERSEDED)
            cost = record.numbers.get("squared_privacy_cost")
            if cost is not None:
                self._judge(row, float(cost))
        self._columns.set_count("attempts", row, tried)
        self._columns.set_count("deaths_in_all", row, died)

    def _forget(self, cell: str) -> None:
        """Count nothing that was recorded of a cell so far; a bound on its problem holds on."""
        known = self._rows.pop(cell, None)
        if known is not None:
            self._columns.set_count("status", known, _SUPERSEDED)

    def _add_bound(self, record: BoundRecord) -> None:
        self.bound_errors.pop(record.problem, None)
        if record.error:
            self.bound_errors[record.problem] = record
        if record.lower_bound is not None:
            self._raise_bound(record.problem, record.lower_bound, record.code)

    def _raise_bound(self, problem: str, bound: float, code: str) -> None:
        if self.bound_codes.get(problem) == code and bound <= self.bounds[problem]:
            return
        self.bounds[problem], self.bound_codes[problem] = bound, code
        least = self._least_cost.get(problem)
        if least is not None and contradiction(least, bound):
            for row in self._rows_of(problem):
                cost = self._columns.reported_number("squared_privacy_cost", row)
                if not math.isnan(cost):
                    self._judge(row, cost)

    def _rows_of(self, problem: str) -> list[int]:
        """All rows of a problem that a cell refers to."""
        rows = self._current
        numbers, keys = self.texts("problem", rows)
        return [] if problem not in keys else rows[numbers == keys.index(problem)].tolist()

    def _judge(self, row: int, cost: float) -> None:
        """Turn a result below a bound that any solve of its problem has proven into ``FAILED``."""
        problem = self._columns.text("problem", row)
        trouble = contradiction(cost, self.bounds.get(problem))
        if trouble is None:
            self._least_cost[problem] = min(cost, self._least_cost.get(problem, math.inf))
        else:
            self._columns.fail(row, trouble)
