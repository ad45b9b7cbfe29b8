"""What runs on a worker for one item of a task: build, solve, certify, record."""

import socket
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import solvers
import workloads
from solvers import NotApplicableError, Problem, Solution, certificate, simulate
from solvers.dual import Weights
from sweep import files, keeping, measure
from sweep.cells import Spec
from sweep.errors import StoreError
from sweep.graph import Bound, CellTask, Item, Solve
from sweep.outcome import BoundRecord, CellRecord, Record, Status
from sweep.place import Place

_CERTIFIED_TO = 1e-4
_STOPPED = (
    "stopped at its time limit with a feasible answer; "
    "'sweep rerun STORE --time-limit SECONDS' gives it longer"
)
_SMALL_ENTRIES = 2**24
_SENTENCES = (StoreError, solvers.SolverError, workloads.WorkloadError, workloads.TargetsError)


@dataclass(frozen=True)
class Unbuilt:
    """A workload that could not be built: why."""

    status: str
    error: str
    traceback: str


Built = Any
"""A workload, a query graph, or `Unbuilt`."""


def build(spec: Spec) -> Built:
    """Build a workload; never raises."""
    try:
        files.check_unchanged(spec.params)
        made = workloads.make(spec.name, **spec.params)
        if isinstance(made, workloads.Workload) and made.m * made.d <= _SMALL_ENTRIES:
            _ = made.matrix
    except Exception as error:
        return Unbuilt(*_trouble(error))
    return made


def outcomes(item: Item, built: Built, place: Place, weights: dict[str, Weights]) -> list[Record]:
    """The records of one item; never raises.

    Parameters
    ----------
    item : Solve or Bound
        What to do.
    built : Workload, QueryGraph or Unbuilt
        Its workload.
    place : Place
        Where arrays are kept.
    weights : dict of str to Weights
        Dual weights of the last solve in every chain; updated.

    Returns
    -------
    list of Record
    """
    if isinstance(item, Bound):
        return [_certified(item, built, place.time_limit)]
    return list(_solved(item, built, place, weights))


def _certified(item: Bound, built: Built, time_limit: float | None) -> BoundRecord:
    started = time.perf_counter()
    if isinstance(built, Unbuilt):
        return BoundRecord(item.problem, error=built.error, traceback=built.traceback)
    try:
        targets = _targets(item.targets, built)
        bound = certificate.certify(
            Problem(built, targets), tol=_CERTIFIED_TO, time_limit=time_limit
        )
    except Exception as error:
        _, message, text = _trouble(error)
        return BoundRecord(item.problem, error=message, traceback=text)
    return BoundRecord(item.problem, bound, time.perf_counter() - started)


def _solved(
    item: Solve, built: Built, place: Place, weights: dict[str, Weights]
) -> Iterator[CellRecord]:
    """One record for every cell of a solve; its dual weights are left for the next in its chain."""
    blank = CellRecord(
        cell="",
        solve=item.key,
        problem=item.problem,
        status=Status.PENDING.label,
        host=socket.gethostname(),
        started=time.time(),
    )
    if isinstance(built, Unbuilt):
        broken = replace(blank, status=built.status, error=built.error, traceback=built.traceback)
        yield from (_of(cell, broken) for cell in item.cells)
        return
    try:
        targets = _targets(item.targets, built)
        solution, cost = measure.measured(
            lambda: run_solver(item, built, targets, place.time_limit, weights.get(item.chain))
        )
        if item.chain and solution.weights is not None:
            weights[item.chain] = solution.weights
        shared = replace(blank, **_facts(solution, cost))
        if place.keep:
            place.check_reachable()
            keeping.write(Path(place.store), item.key, solution.arrays(), place.keep)
    except Exception as error:
        status, message, text = _trouble(error)
        broken = replace(blank, status=status, error=message, traceback=text)
        yield from (_of(cell, broken) for cell in item.cells)
        return
    yield from (_of(cell, _simulated(cell, shared, solution)) for cell in item.cells)


def run_solver(
    item: Solve,
    built: Built,
    targets: Any,
    time_limit: float | None,
    start: Weights | None = None,
) -> Solution:
    """Solve; the time limit reaches the methods that take one and were given none."""
    files.check_unchanged(item.method.options)
    options = dict(item.method.options)
    takes = solvers.methods()[item.method.name].options
    if time_limit is not None and "time_limit" in takes and options.get("time_limit") is None:
        options["time_limit"] = time_limit
    if start is not None:
        options["start"] = start
    return solvers.solve(item.method.name, built, targets, **options)


def _targets(spec: Spec, built: Built) -> Any:
    files.check_unchanged(spec.params)
    return workloads.targets.make(spec.name, built, **spec.params)


def _facts(solution: Solution, cost: measure.Cost) -> dict[str, Any]:
    content = solution.record()
    curve = content.pop("curve", None)
    numbers = {name: _number(value) for name, value in content.items()}
    return {
        "status": (Status.TIMEOUT if solution.timed_out else Status.OK).label,
        "runtime_s": cost.runtime_s,
        "cpu_s": cost.cpu_s,
        "peak_memory_bytes": cost.peak_memory_bytes,
        "numbers": {n: v for n, v in numbers.items() if v is not None and not np.isnan(v)},
        "notes": _plain({**solution.notes, **_texts(content)}),
        "curve": _plain(curve),
        "error": _STOPPED if solution.timed_out else "",
    }


def _simulated(cell: CellTask, record: CellRecord, solution: Solution) -> CellRecord:
    if not cell.simulate:
        return record
    try:
        found = simulate.simulate(solution, cell.simulate, int(cell.id, 16))
    except NotApplicableError as error:
        return replace(record, notes={**record.notes, "simulate": str(error)})
    except Exception as error:
        _, message, text = _trouble(error)
        return replace(record, status=Status.FAILED.label, error=message, traceback=text)
    numbers = {name: float(value) for name, value in found.items()}
    return replace(record, numbers={**record.numbers, **numbers})


def _of(cell: CellTask, record: CellRecord) -> CellRecord:
    return replace(record, cell=cell.id, attempt=cell.attempt)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, bool | int | float | np.number | np.bool_) else None


def _texts(content: Mapping[str, Any]) -> dict[str, Any]:
    return {n: v for n, v in content.items() if v is not None and _number(v) is None}


def _plain(content: Any) -> Any:
    """As JSON holds it."""
    if isinstance(content, Mapping):
        return {str(name): _plain(value) for name, value in content.items()}
    if isinstance(content, np.ndarray):
        return _plain(content.tolist())
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    if isinstance(content, np.generic):
        return content.item()
    return content if isinstance(content, str | int | float | None) else str(content)


def _trouble(error: Exception) -> tuple[str, str, str]:
    inapplicable = isinstance(error, NotApplicableError)
    status = Status.NOT_APPLICABLE if inapplicable else Status.FAILED
    message = str(error).strip() or type(error).__name__
    known = isinstance(error, _SENTENCES)
    line = message if known else f"{type(error).__name__}: {message}"
    text = "".join(traceback.format_exception(error))
    return status.label, line.splitlines()[-1], "" if inapplicable else text
