"""The journal's records: outcomes of cells, certified bounds, and tombstones."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar

import numpy as np


class Status(IntEnum):
    """State of a cell; the values are the dataset's ``flag_values``."""

    ABSENT = 0
    PENDING = 1
    OK = 2
    NOT_APPLICABLE = 3
    FAILED = 4
    TIMEOUT = 5
    LOST = 6

    @property
    def label(self) -> str:
        """The status's name in conditions and datasets, such as ``not_applicable``."""
        return self.name.lower()


FINAL = (Status.OK, Status.NOT_APPLICABLE, Status.FAILED, Status.TIMEOUT)
"""The statuses of cells that ``sweep run`` does not solve again."""
TROUBLED = (Status.FAILED, Status.TIMEOUT, Status.LOST)
"""The statuses of cells that ``sweep rerun`` solves again if it has no condition."""
_LONGEST_REASON = 120


class SolveCode(str):
    """The identity of a solve's code (`sweep.store.code`): a text of 20 hexadecimal digits.

    Eight digits are of the code that certifies bounds, six of the code that solves, and six of the
    modules' sources.
    """

    __slots__ = ()

    @property
    def certifier(self) -> "SolveCode":
        """The identity of the code that certifies the solve's lower bound."""
        return SolveCode(self[:8])


REVISED = np.dtype("S14")
"""The data type of the part of a `SolveCode` whose change makes the solve's result stale."""
UNKNOWN = SolveCode()
"""The identity of code that is not known."""
NO_CELL = ("", "", "")
"""The keys of a record that describes the outcome of a solve, before its cells are filled in."""


@dataclass(frozen=True)
class CellRecord:
    """The outcome of one cell.

    Attributes
    ----------
    cell, solve, problem : str
        The cell's id, and the keys of its solve and of its problem.
    status : Status
        How the attempt ended.
    attempt : int
        Number of the attempt, from 1; attempts lost with their worker are not counted.
    host : str
        The machine that solved the cell.
    started : float
        The time at which the solve started, in seconds since 1970, UTC; 0 if unknown. If the cell
        killed workers, the time at which the run gave up on the cell.
    runtime_s, cpu_s : float, optional
        Wall-clock and processor seconds of the solve.
    peak_memory_bytes : int, optional
        Rise of the process's resident memory during the solve.
    numbers : Mapping[str, float]
        Numbers that the solution reports, by the name of their variable.
    notes : Mapping[str, object]
        All other results of the solution, JSON-like.
    curve : Mapping, optional
        The solution's privacy budget curve, if the Gaussian closed form does not apply.
    error : str
        The error in one line; empty if there was none.
    traceback : str
        The full traceback; empty if there was none.
    code : SolveCode
        Identity of the code that solved the cell (`sweep.store.code.Codes.of_solve`).
    versions : str
        The versions of Python, numpy and scipy that solved the cell.
    deaths : int
        Number of workers that died in one run while they were solving only this cell.
    """

    kind: ClassVar = "cell"
    cell: str
    solve: str
    problem: str
    status: Status
    attempt: int = 1
    host: str = ""
    started: float = 0.0
    runtime_s: float | None = None
    cpu_s: float | None = None
    peak_memory_bytes: int | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, object] = field(default_factory=dict)
    curve: Mapping[str, object] | None = None
    error: str = ""
    traceback: str = ""
    code: SolveCode = UNKNOWN
    versions: str = ""
    deaths: int = 0

    @property
    def reason(self) -> str:
        """Why the cell failed, timed out or was lost: the status and the start of the error."""
        text = textwrap.shorten(self.error, _LONGEST_REASON, placeholder=" ...")
        return f"{self.status.label}: {text}" if text else self.status.label


@dataclass(frozen=True)
class BoundRecord:
    """A certified lower bound on the squared privacy cost of one problem.

    Attributes
    ----------
    problem : str
        The problem's key.
    lower_bound : float, optional
        The bound; None if it could not be computed. If there is also an ``error``, the bound is
        looser than requested.
    runtime_s : float
        Wall-clock seconds of the computation.
    error, traceback : str
        The error in one line and its full traceback; empty if there was none.
    code : str
        Identity of the code that computed the bound (a solve's ``code.certifier``).
    """

    kind: ClassVar = "bound"
    problem: str
    lower_bound: float | None = None
    runtime_s: float = 0.0
    error: str = ""
    traceback: str = ""
    code: str = ""


@dataclass(frozen=True)
class ForgottenRecord:
    """A tombstone: it invalidates all earlier records of a cell.

    Attributes
    ----------
    cell : str
        The cell's id.
    """

    kind: ClassVar = "forgotten"
    cell: str


Record = CellRecord | BoundRecord | ForgottenRecord

_KINDS: Mapping[str, type[Record]] = {
    record.kind: record for record in (CellRecord, BoundRecord, ForgottenRecord)
}


def to_json(record: Record) -> dict[str, object]:
    """Return the record as JSON-like content, without empty fields."""
    content: dict[str, object] = {"kind": record.kind}
    for name, value in vars(record).items():
        if value not in (None, "", {}) and (name, value) != ("deaths", 0):
            content[name] = value.label if isinstance(value, Status) else value
    return content


def from_json(content: Mapping[str, Any]) -> Record:
    """Return the record with this JSON-like content, ignoring unknown keys."""
    kind = _KINDS[content["kind"]]
    known = {name: content[name] for name in kind.__match_args__ if name in content}
    if "status" in known:
        known["status"] = Status[known["status"].upper()]
        known["code"] = SolveCode(known.get("code", ""))
    return kind(**known)
