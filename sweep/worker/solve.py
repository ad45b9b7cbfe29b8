"""One solve on a worker: build the workload, solve, certify and record."""

import ctypes
import math
import socket
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import scipy.linalg
import scipy.sparse  # noqa: F401 - imported now, so that no cell's run time includes an import
from pydantic_core import to_jsonable_python

import solvers
import workloads
from solvers import NotApplicableError, Problem, Solution
from solvers.dual.iteration import Deadline, Stopping
from solvers.dual.programs import Weights
from solvers.forms.solving import lower_bound
from solvers.noise.draws import simulate
from sweep.errors import StoreError
from sweep.experiment import files
from sweep.experiment.canonical import Spec
from sweep.plan.tasks import CellTask, Solve
from sweep.store import arrays, code, environment, paths
from sweep.store.folder import WorkerStore
from sweep.store.records import NO_CELL, BoundRecord, CellRecord, Record, Status
from workloads.operators import Array, Drawn

_CERTIFIED_TO = 1e-4
"""Gap to which lower bounds are proved: the papers print four digits of a ratio."""
_STOPPED = "stopped at its time limit with a feasible answer; "
_LONGER = "'sweep rerun STORE --time-limit SECONDS' allows more time"
_WEAK = (
    "stopped at its time limit with a lower bound that holds, but may be less close to the optimum "
    f"than {_CERTIFIED_TO:g}; {_LONGER}"
)
_OWN_LIMIT = "the limit is the mechanism's own time_limit, which the experiment has to raise"
_SMALL_ENTRIES = 2**24
"""Entries (128 MB) up to which a matrix is built with its workload, outside the run time."""
_TRIVIAL_SECONDS, _TRIVIAL_BYTES = 1e-2, 2**20
"""Expected seconds and bytes below which only a solve's run time is measured.

Measuring more would take as long as the solve.
"""
Built = workloads.Workload | workloads.QueryGraph
_T = TypeVar("_T")
_NUMBERS = (int, float, np.number, np.bool_)
_SENTENCES = (StoreError, solvers.SolverError, workloads.WorkloadError, workloads.TargetsError)


def measure(call: Callable[[], _T], *, trivial: bool = False) -> tuple[_T, CellRecord]:
    """Return the result of a call, and an outcome with its time and memory.

    The memory is the process's peak resident memory during the call minus its resident memory
    before the call. It is read from Linux's high-water mark, which costs next to nothing, unlike
    ``tracemalloc``; it is None if the kernel has no such mark. Before the call, the process returns
    free memory to the kernel, because memory that it kept and reused would not be counted. If part
    of the free memory cannot be returned and is enough for the call, 0 is recorded.

    For a trivial call, only the run time is measured; it also serves as processor time, and the
    memory is recorded as 0.
    """
    before = 0
    if not trivial:
        with suppress(OSError, AttributeError):  # another C library than glibc
            ctypes.CDLL(None).malloc_trim(0)
        with suppress(OSError):  # a kernel without high-water marks
            Path("/proc/self/clear_refs").write_text("5")
            before = _read_memory("VmRSS:")
    cpu, wall = 0.0 if trivial else time.process_time(), time.perf_counter()
    result = call()
    wall = time.perf_counter() - wall
    cpu = wall if trivial else time.process_time() - cpu
    peak = 0 if trivial else None
    if before:
        peak = max(_read_memory("VmHWM:") - before, 0)
    return result, CellRecord(
        *NO_CELL, Status.OK, runtime_s=wall, cpu_s=cpu, peak_memory_bytes=peak
    )


def _read_memory(entry: str) -> int:
    """Return the value of an entry of ``/proc/self/status``, in bytes."""
    return int(Path("/proc/self/status").read_text().partition(entry)[2].split()[0]) * 1024


def build(spec: Spec) -> Built:
    """Build the workload or query graph of a specification."""
    built = workloads.make(spec.name, **files.root_files(spec.params))
    if isinstance(built, workloads.Workload) and (
        built.m * built.d <= _SMALL_ENTRIES or isinstance(built.operator, Drawn)
    ):
        _ = built.matrix
    return built


def solve_and_record(
    solve: Solve,
    workload: "Future[Built]",
    worker_store: WorkerStore,
    weights: dict[str, Weights],
) -> list[Record]:
    """Do a solve; return a record for each of its cells, or for its bound if it serves no cell.

    Errors are recorded, never raised.

    Parameters
    ----------
    solve : Solve
        The solve.
    workload : Future
        The solve's workload or query graph, or the error that building it raised.
    worker_store : WorkerStore
        The store to write arrays to.
    weights : dict of str to Weights
        Dual weights of the last solve in each chain of warm starts, by chain; updated by this call.
    """
    solution, started, error = None, time.time(), workload.exception()
    try:
        if error is not None:
            outcome = _describe_failure(error)
        elif not solve.cells:
            return [_certify(solve, workload.result())]
        else:
            solution, outcome = _solve(solve, workload.result(), worker_store, weights)
    except BaseException as raised:
        outcome = _describe_failure(raised)
    if not solve.cells:
        line, text = outcome.error, outcome.traceback
        return [BoundRecord(solve.problem, error=line, traceback=text, code=solve.code)]
    outcome = replace(
        outcome,
        host=socket.gethostname(),
        started=started,
        code=solve.code,
        versions=environment.list_versions(environment.NUMERIC),
    )
    records = solve.records(outcome)
    for place, cell in enumerate(solve.cells):
        if cell.simulate and solution is not None and outcome.status is not Status.LOST:
            records[place] = _add_simulation(cell, records[place], solution)
    return [*records]


def _certify(solve: Solve, built: Built) -> BoundRecord:
    assert isinstance(built, workloads.Workload)  # `bounds_needed` asks for no other
    started, limit = time.perf_counter(), solve.cost.time_limit
    problem = Problem(built, _make_targets(solve.targets, built), solve.neighbours)
    bound = lower_bound(problem, Stopping(_CERTIFIED_TO, 100, Deadline.after(limit)))
    seconds = time.perf_counter() - started
    error = _WEAK if limit is not None and seconds >= limit else ""
    return BoundRecord(solve.problem, bound, runtime_s=seconds, error=error, code=solve.code)


def _solve(
    solve: Solve, built: Built, worker_store: WorkerStore, weights: dict[str, Weights]
) -> tuple[Solution, CellRecord]:
    """Return the solution of a solve, and the outcome that follows from it."""
    name, chosen, needed = solve.workload.name, solve.mechanism, solve.code
    if needed and (other := code.solve_difference(needed, name, chosen)):
        raise StoreError(other)
    targets = _make_targets(solve.targets, built)
    solution, cost = measure(
        lambda: run_solver(solve, built, targets, weights.get(solve.chain)),
        trivial=0.0 < solve.cost.bytes < _TRIVIAL_BYTES and solve.cost.seconds < _TRIVIAL_SECONDS,
    )
    if solve.chain and solution.weights is not None:
        weights[solve.chain] = solution.weights
    outcome = _describe_solution(solve, solution, cost)
    if not worker_store.keep or (solution.timed_out and solve.has_result):
        return solution, outcome
    store = worker_store.store.path
    if not worker_store.reachable:
        raise StoreError(
            f"keep: worker {socket.gethostname()} does not see store {str(store)!r}, so the arrays "
            "cannot be kept; put the store on a disk that the workers share, or leave 'keep' out"
        )
    try:
        labels = built.labels if isinstance(built, workloads.Workload) else ()
        arrays.write(store, solve.key, solution.arrays(), worker_store.keep, labels)
    except OSError as error:
        kept = f"its arrays cannot be kept: {paths.reason(error)}; correct this and run again"
        return solution, replace(cost, status=Status.LOST, error=kept)
    return solution, outcome


def run_solver(
    solve: Solve, built: Built, targets: Array, start: Weights | None = None
) -> Solution:
    """Call the solver; pass the solve's time limit to mechanisms with the option ``time_limit``.

    The solver starts at the dual weights ``start``, if there are any.
    """
    chosen = solve.mechanism
    options = files.root_files(chosen.params)
    accepted = solvers.all_mechanisms()[chosen.name].params()
    if solve.cost.time_limit is not None and "time_limit" in accepted:
        options["time_limit"] = solve.cost.time_limit
    if start is not None:
        options["start"] = start
    return solvers.solve(chosen.name, built, targets, neighbours=solve.neighbours, **options)


def _make_targets(spec: Spec, built: Built) -> Array:
    return workloads.targets.make(spec.name, built, **files.root_files(spec.params))


def _describe_solution(solve: Solve, solution: Solution, cost: CellRecord) -> CellRecord:
    """Return the outcome that follows from a solution and the measured cost of its solve."""
    content = solution.record()
    curve = content.pop("curve", None)
    numbers, notes = {}, dict(solution.notes)
    for name, value in content.items():
        if isinstance(value, _NUMBERS):
            if not math.isnan(value):
                numbers[name] = float(value)
        elif value is not None:
            notes[name] = value
    error, limit, took = "", solve.cost.time_limit, cost.runtime_s or 0.0
    mechanism = solvers.all_mechanisms()[solve.mechanism.name]
    if solution.timed_out:
        limited_itself = solve.mechanism.params.get("time_limit") is not None
        error = _STOPPED + (_OWN_LIMIT if limited_itself else _LONGER)
    elif limit is not None and took > limit and (mechanism.foreign or mechanism.runs_code):
        error = f"took {took:.3g} s, more than its time limit of {limit:g} s; {_LONGER}"
    plain = to_jsonable_python(
        {"notes": notes, "curve": curve},
        fallback=lambda value: (
            value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
        ),
        inf_nan_mode="constants",
    )
    status = Status.TIMEOUT if error else Status.OK
    return replace(cost, status=status, numbers=numbers, error=error, **plain)


def _add_simulation(cell: CellTask, record: CellRecord, solution: Solution) -> CellRecord:
    """Simulate the solution's noise, and return the cell's record with the results added."""
    try:
        simulated = simulate(solution, cell.simulate, int(cell.id, 16))
    except NotApplicableError as error:
        return replace(record, notes={**record.notes, "simulate": str(error)})
    except BaseException as error:
        failed = _describe_failure(error)
        return replace(record, status=failed.status, error=failed.error, traceback=failed.traceback)
    numbers = {name: float(value) for name, value in simulated.items()}
    return replace(record, numbers={**record.numbers, **numbers})


def _describe_failure(error: BaseException) -> CellRecord:
    """Return the outcome of a solve that raised an error, even if it is ``SystemExit``.

    Dask would treat ``SystemExit`` and ``KeyboardInterrupt`` as the end of the worker. A real
    Ctrl-C never gets here: it reaches the main thread, and cells are solved in other threads.
    """
    inapplicable = isinstance(error, NotApplicableError)
    kind, text = type(error).__name__, "".join(traceback.format_exception(error))
    try:
        message = str(error).strip() or kind
    except BaseException:
        message = "its message cannot be read: its __str__ raises"
    line = message if isinstance(error, _SENTENCES) else f"{kind}: {message}"
    return CellRecord(
        *NO_CELL,
        Status.NOT_APPLICABLE if inapplicable else Status.FAILED,
        error=line.splitlines()[-1],
        traceback="" if inapplicable else text,
    )
