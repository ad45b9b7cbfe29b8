"""One item of a task on a worker: build, solve, certify and record."""

import ctypes
import math
import socket
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse  # noqa: F401 - imported at first use, both would count as time of a cell

import solvers
import workloads
from solvers import NotApplicableError, Problem, Solution
from solvers.dual.programs import Weights
from solvers.forms import reduction
from solvers.noise.draws import simulate
from sweep.errors import StoreError
from sweep.experiment import files
from sweep.grid.cells import Spec, WorkloadSpec
from sweep.plan.tasks import Bound, CellTask, Item, Solve
from sweep.store import arrays, code, places
from sweep.store.records import BoundRecord, CellRecord, Record, Status
from sweep.store.worker_store import WorkerStore
from workloads.operators import Drawn

_CERTIFIED_TO = 1e-4
_STOPPED = "stopped at its time limit with a feasible answer; "
_LONGER = "'sweep rerun STORE --time-limit SECONDS' allows more time"
_WEAK = (
    "stopped at its time limit with a lower bound that holds, but may be less close to the optimum "
    f"than {_CERTIFIED_TO:g}; {_LONGER}"
)
_OWN_LIMIT = "the limit is the mechanism's own time_limit, which the experiment has to raise"
_SMALL_ENTRIES = 2**24
_TRIVIAL_SECONDS, _TRIVIAL_BYTES = 1e-2, 2**20
"""Expected cost of a trivial solve, at most: to measure more than its run time takes as long."""
_RESET, _STATUS = "/proc/self/clear_refs", "/proc/self/status"
_SENTENCES = (StoreError, solvers.SolverError, workloads.WorkloadError, workloads.TargetsError)


@dataclass(frozen=True)
class Cost:
    """Time and memory that a call took.

    Attributes
    ----------
    runtime_s, cpu_s : float
        Wall-clock seconds, and processor seconds of all threads of the process.
    peak_memory_bytes : int, optional
        The highest resident memory of the process during the call, less that before it.
        Linux keeps this high-water mark, so that reading it costs next to nothing, unlike
        ``tracemalloc``. Free memory is returned to the kernel first, so that using it counts;
        memory that cannot be returned does not count, so small calls show 0. None where the
        kernel keeps no such mark.
    """

    runtime_s: float
    cpu_s: float
    peak_memory_bytes: int | None


def measured(call: Callable[[], Any], *, trivial: bool = False) -> tuple[Any, Cost]:
    """The result of a call, and its cost.

    Of a trivial call only the run time is measured, which is its processor time too; it takes no
    memory worth mentioning.
    """
    if trivial:
        wall = time.perf_counter()
        result = call()
        wall = time.perf_counter() - wall
        return result, Cost(wall, wall, 0)
    before = _reset_peak()
    cpu, wall = time.process_time(), time.perf_counter()
    result = call()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = None if before is None else max(_status(b"VmHWM:") - before, 0)
    return result, Cost(wall, cpu, peak)


@cache
def _trimmer() -> Callable[[int], Any] | None:
    """The ``malloc_trim`` of glibc; None with another C library."""
    try:
        trim: Callable[[int], Any] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return trim


def _reset_peak() -> int | None:
    """Free memory, reset the kernel's high-water mark, and return the resident bytes."""
    trim = _trimmer()
    if trim is not None:
        trim(0)
    try:
        with open(_RESET, "wb", buffering=0) as marks:
            marks.write(b"5")
    except OSError:
        return None
    return _status(b"VmRSS:")


def _status(entry: bytes) -> int:
    """An entry of the process's status, in bytes; unbuffered, since trivial cells wait for it."""
    with open(_STATUS, "rb", buffering=0) as stream:
        return int(stream.readall().partition(entry)[2].split(None, 1)[0]) * 1024


@dataclass(frozen=True)
class Failure:
    """An error of a solve, or of building its workload, as its cells record it."""

    status: Status
    error: str
    traceback: str


Built = Any
"""A workload, a query graph or a `Failure`."""


def build(spec: WorkloadSpec) -> Built:
    """Build a workload; never raises.

    Parameters
    ----------
    spec : WorkloadSpec
        The workload.
    """
    try:
        built = workloads.make(spec.name, **files.at_hand(spec.params))
        if isinstance(built, workloads.Workload) and (
            built.m * built.d <= _SMALL_ENTRIES or isinstance(built.operator, Drawn)
        ):
            _ = built.matrix
    except BaseException as error:
        return _failure(error)
    return built


@dataclass
class TaskState:
    """What the items of one task share.

    Attributes
    ----------
    weights : dict of str to Weights
        Dual weights of the last solve in every chain.
    differences : dict of (str, str, str) to str
        How this worker's code of a solve differs from the command's, by hash, workload and
        mechanism: looking for it takes longer than a trivial solve.
    """

    weights: dict[str, Weights] = field(default_factory=dict)
    differences: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def difference(self, item: Solve) -> str:
        """How this worker's code of a solve differs, in a sentence; empty if it does not."""
        workload, mechanism = item.workload.name, item.mechanism
        key = item.code, workload, mechanism.name
        if item.code and key not in self.differences:
            self.differences[key] = code.solve_difference(
                item.code, workload, mechanism.name, mechanism.options
            )
        return self.differences.get(key, "")


def outcomes(item: Item, built: Built, view: WorkerStore, state: TaskState) -> list[Record]:
    """The records of one item; never raises.

    Parameters
    ----------
    item : Solve or Bound
        The item.
    built : Workload, QueryGraph or Failure
        Its workload.
    view : WorkerStore
        The store to write arrays to.
    state : TaskState
        Updated in place.
    """
    if isinstance(item, Bound):
        return [replace(_certified(item, built), code=item.code)]
    return list(_solved(item, built, view, state))


def _certified(item: Bound, built: Built) -> BoundRecord:
    started = time.perf_counter()
    if isinstance(built, Failure):
        return BoundRecord(item.problem, error=built.error, traceback=built.traceback)
    try:
        targets = _targets(item.targets, built)
        bound = reduction.lower_bound(
            Problem(built, targets, item.neighbours), tol=_CERTIFIED_TO, time_limit=item.time_limit
        )
    except BaseException as error:
        failure = _failure(error)
        return BoundRecord(item.problem, error=failure.error, traceback=failure.traceback)
    seconds = time.perf_counter() - started
    stopped = item.time_limit is not None and seconds >= item.time_limit
    return BoundRecord(item.problem, bound, seconds, _WEAK if stopped else "")


def _solved(item: Solve, built: Built, view: WorkerStore, state: TaskState) -> Iterator[CellRecord]:
    """One record for every cell of a solve; leaves its dual weights for the next in the chain."""
    common: dict[str, Any] = {
        "solve": item.key,
        "problem": item.problem,
        "host": socket.gethostname(),
        "started": time.time(),
        "code": item.code,
        "versions": code.versions_of_numbers(),
    }
    solution: Solution | None = None
    if isinstance(built, Failure):
        facts = vars(built)
    else:
        try:
            solution, facts = _attempt(item, built, view, state)
        except BaseException as error:
            facts = vars(_failure(error))
    for cell in item.cells:
        record = CellRecord(cell=cell.id, attempt=cell.attempt, **common, **facts)
        if solution is not None and cell.simulate and record.status is not Status.LOST:
            record = _simulated(cell, record, solution)
        yield record


def _attempt(
    item: Solve, built: Built, view: WorkerStore, state: TaskState
) -> tuple[Solution, dict[str, Any]]:
    """The solution, and the fields that it gives its records."""
    if difference := state.difference(item):
        raise StoreError(difference)
    targets = _targets(item.targets, built)
    solution, cost = measured(
        lambda: run_solver(item, built, targets, state.weights.get(item.chain)),
        trivial=0.0 < item.bytes < _TRIVIAL_BYTES and item.seconds < _TRIVIAL_SECONDS,
    )
    if item.chain and solution.weights is not None:
        state.weights[item.chain] = solution.weights
    facts = _facts(item, solution, cost)
    if not view.keep or (solution.timed_out and item.has_result):
        return solution, facts
    view.check_reachable()
    try:
        labels = built.labels if isinstance(built, workloads.Workload) else ()
        arrays.write(view.place, item.key, solution.arrays(), view.keep, labels)
    except OSError as error:
        reason, remedy = places.reason(error), places.remedy(error)
        kept = f"its arrays cannot be kept: {reason}; {remedy} and run again"
        lost = {"status": Status.LOST, "numbers": {}, "notes": {}, "curve": None, "error": kept}
        return solution, facts | lost
    return solution, facts


def run_solver(item: Solve, built: Built, targets: Any, start: Weights | None = None) -> Solution:
    """Solve; the time limit is passed to mechanisms that take one."""
    chosen = item.mechanism
    options = files.at_hand(item.mechanism.options)
    limited = solvers.all_mechanisms()[item.mechanism.name].takes_time_limit
    if limited and item.time_limit is not None:
        options["time_limit"] = item.time_limit
    if start is not None:
        options["start"] = start
    return solvers.solve(chosen.name, built, targets, neighbours=item.neighbours, **options)


def _targets(spec: Spec, built: Built) -> Any:
    return workloads.targets.make(spec.name, built, **files.at_hand(spec.params))


def _facts(item: Solve, solution: Solution, cost: Cost) -> dict[str, Any]:
    """Fields of the records of a solve, from its solution and cost."""
    content = solution.record()
    curve = content.pop("curve", None)
    numbers, notes = {}, dict(solution.notes)
    for name, value in content.items():
        if isinstance(value, bool | int | float | np.number | np.bool_):
            if not math.isnan(value):
                numbers[name] = float(value)
        elif value is not None:
            notes[name] = value
    error, limit = "", item.time_limit
    known = solvers.all_mechanisms()[item.mechanism.name]
    if solution.timed_out:
        own = item.mechanism.options.get("time_limit") is not None
        error = _STOPPED + (_OWN_LIMIT if own else _LONGER)
    elif limit is not None and cost.runtime_s > limit and (known.foreign or known.runs_code):
        error = f"took {cost.runtime_s:.3g} s, more than its time limit of {limit:g} s; {_LONGER}"
    return {
        "status": Status.TIMEOUT if error else Status.OK,
        "runtime_s": cost.runtime_s,
        "cpu_s": cost.cpu_s,
        "peak_memory_bytes": cost.peak_memory_bytes,
        "numbers": numbers,
        "notes": _plain(notes),
        "curve": _plain(curve),
        "error": error,
    }


def _simulated(cell: CellTask, record: CellRecord, solution: Solution) -> CellRecord:
    """The record with the errors of simulated noise."""
    try:
        simulated = simulate(solution, cell.simulate, int(cell.id, 16))
    except NotApplicableError as error:
        return replace(record, notes={**record.notes, "simulate": str(error)})
    except BaseException as error:
        failure = _failure(error)
        return replace(
            record, status=Status.FAILED, error=failure.error, traceback=failure.traceback
        )
    numbers = {name: float(value) for name, value in simulated.items()}
    return replace(record, numbers={**record.numbers, **numbers})


def _plain(content: Any) -> Any:
    """The content as types that JSON can represent."""
    if content is None or isinstance(content, str | int | float):
        return content
    if isinstance(content, Mapping):
        return {str(name): _plain(value) for name, value in content.items()}
    if isinstance(content, np.ndarray):
        return _plain(content.tolist())
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    if isinstance(content, np.generic):
        return content.item()
    return str(content)


def _failure(error: BaseException) -> Failure:
    """The failure for an error of a cell's code, even ``SystemExit``.

    Dask would treat ``SystemExit`` and ``KeyboardInterrupt`` as the end of the worker. A real
    Ctrl-C never gets here: it reaches the main thread, and cells are solved in other threads.
    """
    inapplicable = isinstance(error, NotApplicableError)
    status = Status.NOT_APPLICABLE if inapplicable else Status.FAILED
    kind = type(error).__name__
    try:
        message = str(error).strip() or kind
        text = "".join(traceback.format_exception(error))
    except BaseException:
        message = "its message cannot be read: its __str__ raises"
        text = "".join([*traceback.format_tb(error.__traceback__), f"{kind}: {message}\n"])
    line = message if isinstance(error, _SENTENCES) else f"{kind}: {message}"
    return Failure(status, line.splitlines()[-1], "" if inapplicable else text)
