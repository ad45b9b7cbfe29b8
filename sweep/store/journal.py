"""The journal: immutable segments of records, the truth that the dataset is derived from.

A segment is a file of JSON lines, written by one task under a temporary name, synchronised
to the disk and renamed: it is there whole or not at all, whatever is killed. A long task writes
several: ``TASK+...`` while it goes on, ``TASK`` when it is done. Names sort in the order of runs.
Its first line holds a checksum of the others, so that what a disk or a hand does to it later is
noticed, and one that was cut anywhere too.
"""

import json
import math
import os
import socket
import threading
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from solvers.certified import contradiction
from sweep.errors import DamagedSegmentError, StoreError
from sweep.store import disk
from sweep.store.records import BoundRecord, CellRecord, Record, Status, from_json, to_json

SUFFIX = ".jsonl"
DAMAGED = ".damaged"
DEADLY = 3
"""Deaths of workers after which a cell is not tried again unless somebody asks for it."""
_HEAD = "segment"


class _ChecksumError(ValueError):
    """The records are not those that were written."""


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
    lines = "".join(
        json.dumps(_finite(to_json(record)), separators=(",", ":"), allow_nan=False) + "\n"
        for record in records
    )
    head = json.dumps({"kind": _HEAD, "crc32": zlib.crc32(lines.encode())}) + "\n"
    final = folder / (name + SUFFIX)
    unique = f"{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
    disk.write(final, head + lines, unique)
    return final


def read_segment(path: Path) -> list[Record]:
    """The records of one segment, in order.

    Raises
    ------
    DamagedSegmentError
        If it holds something else than was written; a segment of an earlier version has no
        checksum, so that only what cannot be understood is noticed.
    StoreError
        If it cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StoreError(
            f"journal segment {str(path)!r} cannot be read ({error.strerror}); let it be read, or "
            "move it away: its cells are then solved again"
        ) from error
    try:
        return [from_json(json.loads(line)) for line in _checked(content).splitlines()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        said = str(error) if isinstance(error, _ChecksumError) else type(error).__name__
        raise DamagedSegmentError(
            f"journal segment {str(path)!r} is damaged ({said}); restore it, or let 'sweep run' "
            "set it aside and solve its cells again"
        ) from error


def set_aside(path: Path) -> Path:
    """Rename a damaged segment, so that it is kept but no longer read.

    Returns
    -------
    Path
        Where it is now.

    Raises
    ------
    OSError
        If the disk does not take it.
    """
    kept = path.with_name(f"{path.name}{DAMAGED}")
    disk.rename(path, kept)
    return kept


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
        The highest certified lower bound of every problem, by problem key: of those that the
        code which certified last has found.
    bound_codes : dict of str to str
        Which code that was.
    solved : dict of str to CellRecord
        A record with status ``ok``, by solve key.
    attempts : dict of str to int
        Number of tries of every cell that the infrastructure did not lose.
    deaths : dict of str to int
        How many workers have died of every cell, in all runs.
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
        """Take records in, in the order in which they came to be."""
        for record in records:
            if isinstance(record, CellRecord):
                self._add_cell(record)
            else:
                self._add_bound(record)

    def status(self, cell: str) -> Status:
        """The state of a cell that belongs to the grid."""
        record = self.cells.get(cell)
        return Status.PENDING if record is None else record.status

    def is_deadly(self, cell: str) -> bool:
        """Whether a cell is lost for good: so many workers have died of it, and none survived."""
        return self.status(cell) is Status.LOST and self.deaths.get(cell, 0) >= DEADLY

    def is_of_other_code(self, cell: str, code: str) -> bool:
        """Whether other code solved a cell, or certified its problem, than this."""
        record = self.cells.get(cell)
        if record is None or not record.status.final:
            return False
        return record.code != code or self.bound_codes.get(record.problem, code) != code

    def forget_bound(self, problem: str) -> None:
        """Forget a problem's bound, so that it is certified anew."""
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
        """An answer below a bound that any solve of its problem has proven is none: failed."""
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


class Journal:
    """Reads a folder of segments, each of them once.

    Parameters
    ----------
    folder : Path
        Where the segments are.

    Attributes
    ----------
    damaged : dict of str to str
        What is said of the segments that were left out, by file name.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = Ledger()
        self.damaged: dict[str, str] = {}
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
        self.damaged = {}
        with entries:
            names = sorted(
                entry.name
                for entry in entries
                if entry.name.endswith(SUFFIX) and entry.name not in self._seen
            )
        for name in names:
            try:
                self.ledger.add(read_segment(self.folder / name))
            except DamagedSegmentError as error:
                self.damaged[name] = str(error)
                continue
            self._seen.add(name)
        return self.ledger

    def set_aside(self) -> dict[str, Path]:
        """Set the damaged segments aside: where each of them is now, by file name.

        Raises
        ------
        OSError
            If the disk does not take it.
        """
        kept = {name: set_aside(self.folder / name) for name in self.damaged}
        self.damaged.clear()
        return kept

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


def _checked(content: bytes) -> bytes:
    """The lines of a segment behind its head, once they are found to be those written."""
    if not content:
        return content
    head, _, lines = content.partition(b"\n")
    said = json.loads(head)
    if said["kind"] != _HEAD:
        return content
    if zlib.crc32(lines) != said["crc32"]:
        raise _ChecksumError("its checksum is another")
    return lines


def _finite(content: Any) -> Any:
    """The content with infinite and missing numbers as texts that ``float`` reads."""
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return str(content)
    return content
