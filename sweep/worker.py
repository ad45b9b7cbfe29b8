"""What runs on a worker: solve the items of one task, write one journal segment."""

import json
import os
import socket
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import solvers
import workloads
from solvers import NotApplicableError, Problem, certificate, simulate
from solvers.dual import Weights
from sweep import files, journal, keeping, measure
from sweep.cells import Spec
from sweep.errors import StoreError
from sweep.graph import Bound, CellTask, Item, Solve, Task
from sweep.outcome import BoundRecord, CellRecord, Record, Status

_CERTIFIED_TO = 1e-4
_STOPPED = (
    "stopped at its time limit with a feasible answer; "
    "'sweep rerun STORE --time-limit SECONDS' gives it longer"
)
_PATIENCE = 2.0
_GRACE_SECONDS = 30.0
_SMALL_ENTRIES = 2**24
_SENTENCES = (StoreError, solvers.SolverError, workloads.WorkloadError, workloads.TargetsError)


@dataclass(frozen=True)
class Place:
    """Where a worker writes, and what it is told about every solve.

    Attributes
    ----------
    store : str
        The store's folder, on a disk that the workers share with the driver.
    identity : str
        The store's identity; a folder without it is left alone.
    keep : tuple of str
        Which arrays to store.
    time_limit : float, optional
        Seconds for one solve, for methods that take a limit.
    """

    store: str
    identity: str
    keep: tuple[str, ...] = ()
    time_limit: float | None = None

    @property
    def journal(self) -> Path:
        """The journal's folder."""
        return Path(self.store) / "journal"

    @property
    def reachable(self) -> bool:
        """Whether the store is on a disk of this machine."""
        try:
            content = json.loads((Path(self.store) / "store.json").read_text(encoding="utf-8"))
        except OSError:
            return False
        return bool(content["identity"] == self.identity)


@dataclass(frozen=True)
class Done:
    """What a task hands back.

    Attributes
    ----------
    name : str
        The task's name.
    records : tuple of Record
        Its outcomes.
    written : bool
        Whether the worker has put them into the journal.
    """

    name: str
    records: tuple[Record, ...]
    written: bool


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


def perform(task: Task, place: Place, built: Mapping[str, Built]) -> Done:
    """Do a task: every item solved, every outcome recorded, nothing raised.

    Parameters
    ----------
    task : Task
        What to do.
    place : Place
        Where to write.
    built : Mapping of str to workload
        The workloads that were built elsewhere, by key; the others are built here.

    Returns
    -------
    Done
        Done before, if a journal segment says so: a task that Dask runs again because a
        worker was lost is not solved again.
    """
    earlier = done_before(task, place)
    if earlier is not None:
        return earlier
    reachable = place.reachable
    known: dict[str, Built] = dict(built)
    records: list[Record] = _left_behind(task, place) if reachable else []
    finished = {record.cell for record in records if isinstance(record, CellRecord)}
    weights: dict[str, Any] = {}
    with threadpool_limits(limits=_threads()):
        for item in task.items:
            if isinstance(item, Solve) and all(cell.id in finished for cell in item.cells):
                continue
            if item.workload_key not in known:
                known[item.workload_key] = build(item.workload)
            with _watched(item, task, place, records if reachable else None):
                records += _outcomes(item, known[item.workload_key], place, weights)
    return Done(task.name, tuple(records), reachable and _written(place, task.name, records))


def done_before(task: Task, place: Place) -> Done | None:
    """What a task handed back when it was done, if the journal has it."""
    segment = place.journal / (task.name + journal.SUFFIX)
    if not place.reachable or not segment.exists():
        return None
    return Done(task.name, tuple(journal.read_segment(segment)), written=True)


def _outcomes(item: Item, built: Built, place: Place, weights: dict[str, Any]) -> list[Record]:
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
    item: Solve, built: Built, place: Place, weights: dict[str, Any]
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
        if item.chain and isinstance(getattr(solution, "weights", None), Weights):
            weights[item.chain] = solution.weights
        shared = replace(blank, **_facts(solution, cost))
        if place.keep:
            _check_reachable(place)
            keeping.write(Path(place.store), item.key, solution.arrays(), place.keep)
    except Exception as error:
        status, message, text = _trouble(error)
        broken = replace(blank, status=status, error=message, traceback=text)
        yield from (_of(cell, broken) for cell in item.cells)
        return
    yield from (_of(cell, _simulated(cell, shared, solution)) for cell in item.cells)


def _check_reachable(place: Place) -> None:
    if not place.reachable:
        raise StoreError(
            f"keep: worker {socket.gethostname()} does not see store {place.store!r}, so the "
            "arrays cannot be kept; put the store on a disk that the workers share, or leave "
            "'keep' out"
        )


def run_solver(
    item: Solve,
    built: Built,
    targets: Any,
    time_limit: float | None,
    start: Weights | None = None,
) -> Any:
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


def _facts(solution: Any, cost: measure.Cost) -> dict[str, Any]:
    content = dict(solution.record())
    curve = content.pop("curve", None)
    numbers = {name: _number(value) for name, value in content.items()}
    return {
        "status": (Status.TIMEOUT if solution.timed_out else Status.OK).label,
        "runtime_s": cost.runtime_s,
        "cpu_s": cost.cpu_s,
        "peak_memory_bytes": cost.peak_memory_bytes,
        "numbers": {n: v for n, v in numbers.items() if v is not None and not np.isnan(v)},
        "notes": _plain({**(solution.notes or {}), **_texts(content)}),
        "curve": _plain(curve),
        "error": _STOPPED if solution.timed_out else "",
    }


def _simulated(cell: CellTask, record: CellRecord, solution: Any) -> CellRecord:
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


def _threads() -> int:
    from distributed import get_worker

    try:
        return int(get_worker().state.nthreads)
    except ValueError:
        return 1


def _written(place: Place, name: str, records: list[Record]) -> bool:
    try:
        journal.write_segment(place.journal, name, records)
    except OSError:
        return False
    return True


def _left_behind(task: Task, place: Place) -> list[Record]:
    """What the watchdog of an earlier try of this task wrote."""
    parts = sorted(place.journal.glob(f"{task.name}+*{journal.SUFFIX}"))
    return list(journal.read_segment(parts[-1])) if parts else []


@contextmanager
def _watched(item: Item, task: Task, place: Place, records: list[Record] | None) -> Iterator[None]:
    """End the worker's process if a solve does not listen to its time limit.

    Dask has no time limit for a task; the Nanny starts a new process. Before that the cells
    are recorded as ``timeout``, without numbers, and the task goes on behind them.
    """
    if place.time_limit is None or records is None or not _has_nanny():
        yield
        return
    seconds = _PATIENCE * place.time_limit + _GRACE_SECONDS
    earlier = list(records)

    def end() -> None:
        message = f"did not stop within {seconds:g} s; its worker was ended"
        served = item.cells if isinstance(item, Solve) else ()
        late = [
            CellRecord(
                cell.id,
                item.key,
                item.problem,
                Status.TIMEOUT.label,
                cell.attempt,
                socket.gethostname(),
                time.time() - seconds,
                error=message,
            )
            for cell in served
            if isinstance(item, Solve)
        ]
        _written(place, f"{task.name}+{len(earlier):06d}", [*earlier, *late])
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _has_nanny() -> bool:
    from distributed import get_worker

    try:
        return get_worker().nanny is not None
    except ValueError:
        return False
