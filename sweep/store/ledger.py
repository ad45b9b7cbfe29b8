"""The ledger: what the records of a journal say together."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from solvers.certified import contradiction
from sweep.store.records import BoundRecord, CellRecord, ForgottenRecord, Record, Status

DEADLY = 3
"""Deaths of workers after which a cell is not retried unless somebody asks for it."""


@dataclass
class Ledger:
    """The current result of every cell: its last ``ok`` record, or else its last record.

    A cell whose squared privacy cost lies below a certified bound on its problem has failed,
    whichever solve proved the bound.

    Attributes
    ----------
    cells : dict of str to CellRecord
        The current record of every cell, by cell id.
    bounds : dict of str to float
        The highest certified lower bound on the squared privacy cost of every problem, by
        problem key; only bounds found by the code that certified the problem last count.
    bound_codes : dict of str to str
        The hash of that code, by problem key.
    solved : dict of str to CellRecord
        A record with status ``ok``, by solve key.
    attempts : dict of str to int
        Number of attempts at every cell, without those that the infrastructure lost.
    deaths : dict of str to int
        Number of workers that died of every cell, in all runs.
    bound_errors : dict of str to BoundRecord
        Bounds that could not be computed, by problem key.
    """

    cells: dict[str, CellRecord] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    bound_codes: dict[str, str] = field(default_factory=dict)
    solved: dict[str, CellRecord] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    deaths: dict[str, int] = field(default_factory=dict)
    bound_errors: dict[str, BoundRecord] = field(default_factory=dict)
    _of_problem: dict[str, set[str]] = field(default_factory=dict, repr=False)

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

    def status(self, cell: str) -> Status:
        """The status of a cell of the grid, ``PENDING`` if there is no record of it."""
        record = self.cells.get(cell)
        return Status.PENDING if record is None else record.status

    def is_deadly(self, cell: str) -> bool:
        """Whether a cell is lost for good: `DEADLY` workers have died of it, and none survived."""
        return self.status(cell) is Status.LOST and self.deaths.get(cell, 0) >= DEADLY

    def is_of_other_code(self, cell: str, code: str, of_bound: str) -> bool:
        """Whether a cell was solved, or its problem certified, by code other than these."""
        record = self.cells.get(cell)
        if record is None or not record.status.final:
            return False
        return record.code != code or self.bound_codes.get(record.problem, of_bound) != of_bound

    def forget_bound(self, problem: str) -> None:
        """Forget a problem's bound, so that it is certified again."""
        self.bounds.pop(problem, None)
        self.bound_codes.pop(problem, None)

    def _add_cell(self, record: CellRecord) -> None:
        state = record.status
        if record.deaths:
            self.deaths[record.cell] = self.deaths.get(record.cell, 0) + record.deaths
        if state is not Status.LOST:
            self.attempts[record.cell] = max(self.attempts.get(record.cell, 0), record.attempt)
        if state is Status.OK:
            self.solved[record.solve] = record
        bound = float(record.numbers.get("lower_bound", math.nan))
        if not math.isnan(bound):
            self._raise_bound(record.problem, bound, record.code)
        known = self.cells.get(record.cell)
        if known is None or state is Status.OK or known.status is not Status.OK:
            self.cells[record.cell] = record
            self._of_problem.setdefault(record.problem, set()).add(record.cell)
            self._judge(record.cell)

    def _forget(self, cell: str) -> None:
        """Count nothing that was recorded of a cell so far; a bound on its problem holds on."""
        known = self.cells.pop(cell, None)
        self.attempts.pop(cell, None)
        self.deaths.pop(cell, None)
        if known is None:
            return
        self._of_problem[known.problem].discard(cell)
        if self.solved.get(known.solve) is not None and self.solved[known.solve].cell == cell:
            del self.solved[known.solve]

    def _add_bound(self, record: BoundRecord) -> None:
        if record.lower_bound is None:
            self.bound_errors[record.problem] = record
        else:
            self._raise_bound(record.problem, record.lower_bound, record.code)

    def _raise_bound(self, problem: str, bound: float, code: str) -> None:
        if self.bound_codes.get(problem) != code or bound > self.bounds[problem]:
            self.bounds[problem], self.bound_codes[problem] = bound, code
            for cell in self._of_problem.get(problem, ()):
                self._judge(cell)

    def _judge(self, cell: str) -> None:
        """Turn a result below a bound that any solve of its problem has proven into ``FAILED``."""
        record = self.cells[cell]
        cost = record.numbers.get("squared_privacy_cost")
        if cost is None:
            return
        trouble = contradiction(cost, self.bounds.get(record.problem))
        if trouble is None:
            return
        self.cells[cell] = replace(
            record, status=Status.FAILED, numbers={}, curve=None, error=trouble
        )
        self.solved.pop(record.solve, None)
