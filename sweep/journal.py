"""The journal: immutable segments of records, the truth that the dataset is derived from.

A segment is a file of JSON lines, written by one task under a temporary name, synchronised
to the disk and renamed: it is there whole or not at all, whatever is killed. Names sort in
the order of runs.
"""

import json
import math
import os
import socket
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from solvers.certified import contradiction
from sweep.errors import StoreError
from sweep.outcome import BoundRecord, CellRecord, Record, Status, from_json, to_json

SUFFIX = ".jsonl"


def write_segment(folder: Path, name: str, records: Iterable[Record]) -> Path:
    """Write one segment, whole or not at all.

    Parameters
    ----------
    folder : Path
        The journal's folder.
    name : str
        The segment's name, without suffix.
    records : iterable of Record
        What it holds.

    Returns
    -------
    Path

    Raises
    ------
    OSError
        If the disk does not take it; nothing is left behind then.
    """
    text = "".join(
        json.dumps(_finite(to_json(record)), separators=(",", ":"), allow_nan=False) + "\n"
        for record in records
    )
    unique = f"{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
    temporary = folder / f".{name}.{unique}.partial"
    final = folder / (name + SUFFIX)
    try:
        with temporary.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(final)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return final


def read_segment(path: Path) -> list[Record]:
    """The records of one segment, in order.

    Raises
    ------
    StoreError
        If it cannot be read.
    """
    try:
        with path.open(encoding="utf-8") as stream:
            return [from_json(json.loads(line)) for line in stream]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"journal segment {str(path)!r} cannot be read ({type(error).__name__}: {error}); "
            "restore it, or move it away: its cells are then solved again"
        ) from error


@dataclass
class Ledger:
    """What the records say together: for every cell the last ``ok``, else the last word.

    A cell whose squared privacy cost lies below a certified bound on its problem, whichever
    solve proved it, has failed.

    Attributes
    ----------
    cells : dict of str to CellRecord
        By cell id.
    bounds : dict of str to float
        The highest certified lower bound of every problem, by problem key.
    solved : dict of str to CellRecord
        A record with status ``ok``, by solve key.
    attempts : dict of str to int
        Number of tries of every cell that the infrastructure did not lose.
    bound_errors : dict of str to BoundRecord
        Bounds that could not be computed, by problem key.
    """

    cells: dict[str, CellRecord] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    solved: dict[str, CellRecord] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    bound_errors: dict[str, BoundRecord] = field(default_factory=dict)
    _of_problem: dict[str, set[str]] = field(default_factory=dict, repr=False)

    def add(self, records: Iterable[Record]) -> None:
        """Take records in, in the order in which they came to be."""
        for record in records:
            if isinstance(record, CellRecord):
                self._add_cell(record)
            else:
                self._add_bound(record)

    def status(self, cell: str) -> Status:
        """The state of a cell that belongs to the grid."""
        record = self.cells.get(cell)
        return Status.PENDING if record is None else record.state

    def _add_cell(self, record: CellRecord) -> None:
        state = record.state
        if state is not Status.LOST:
            self.attempts[record.cell] = max(self.attempts.get(record.cell, 0), record.attempt)
        if state is Status.OK:
            self.solved[record.solve] = record
        known = self.cells.get(record.cell)
        if known is None or state is Status.OK or known.state is not Status.OK:
            self.cells[record.cell] = record
            self._of_problem.setdefault(record.problem, set()).add(record.cell)
            self._judge(record.cell)
        self._raise_bound(record.problem, float(record.numbers.get("lower_bound", math.nan)))

    def _add_bound(self, record: BoundRecord) -> None:
        if record.lower_bound is None:
            self.bound_errors[record.problem] = record
        else:
            self._raise_bound(record.problem, record.lower_bound)

    def _raise_bound(self, problem: str, bound: float) -> None:
        if bound > self.bounds.get(problem, -math.inf):
            self.bounds[problem] = bound
            for cell in self._of_problem.get(problem, ()):
                self._judge(cell)

    def _judge(self, cell: str) -> None:
        """An answer below a bound that any solve of its problem has proven is none: failed."""
        record = self.cells[cell]
        cost = record.numbers.get("squared_privacy_cost")
        if cost is None:
            return
        trouble = contradiction(cost, self.bounds.get(record.problem))
        if trouble is None:
            return
        self.cells[cell] = replace(
            record, status=Status.FAILED.label, numbers={}, curve=None, error=trouble
        )
        self.solved.pop(record.solve, None)


class Journal:
    """Reads a folder of segments, each of them once.

    Parameters
    ----------
    folder : Path
        Where the segments are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = Ledger()
        self._seen: set[str] = set()

    def refresh(self) -> Ledger:
        """Take in the segments that are new since the last call."""
        try:
            entries = os.scandir(self.folder)
        except OSError as error:
            raise StoreError(
                f"journal {str(self.folder)!r} cannot be read ({error.strerror}); restore it, or "
                "give another --store"
            ) from error
        with entries:
            names = sorted(
                entry.name
                for entry in entries
                if entry.name.endswith(SUFFIX) and entry.name not in self._seen
            )
        for name in names:
            self.ledger.add(read_segment(self.folder / name))
            self._seen.add(name)
        return self.ledger

    def take(self, name: str, records: Iterable[Record]) -> None:
        """Take in a segment that its writer has also handed over in memory."""
        if name + SUFFIX not in self._seen:
            self._seen.add(name + SUFFIX)
            self.ledger.add(records)

    @property
    def names(self) -> frozenset[str]:
        """File names of the segments taken in."""
        return frozenset(self._seen)

    @property
    def segments(self) -> int:
        """Number of segments taken in."""
        return len(self._seen)


def _finite(content: Any) -> Any:
    """The content with infinite and missing numbers as texts that ``float`` reads."""
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return str(content)
    return content
