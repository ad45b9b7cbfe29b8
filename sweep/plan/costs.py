"""Estimates of the cost of a solve, made before anything is solved.

A mechanism declares its work in floating-point operations as a function of the workload's shape
(``Mechanism.work``). Not all operations take the same time: eigendecompositions are slower than
matrix products, and the number of iterations varies. ``make calibrate``
(``benchmarks/calibrate.py``) solves a few workloads with every mechanism on one thread, and stores
the ratio of measured to declared work, with machine and date, in ``calibration.json``. For a
mechanism that was never measured, the ratio is taken as 1.
"""

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import solvers
import workloads
from solvers import Work
from solvers.mechanism import SECONDS_PER_FLOP
from solvers.problem import memory
from solvers.problem.neighbours import Neighbours
from sweep.experiment.canonical import Spec
from sweep.grid.cells import Cell
from sweep.grid.expansion import build_workload
from sweep.plan.tasks import Cost
from sweep.store.code import Codes
from workloads import QueryGraph, Workload
from workloads.operators import Drawn, Explicit

_OVERHEAD_SECONDS = 1e-3
"""Seconds of a solve besides its arithmetic.

IP on four prefixes takes a quarter of a millisecond on a fast core, besides its workload and its
record. Without this, the smallest solves would seem to cost nothing.
"""
_LONGEST_SECONDS = 86400.0
"""Largest expected duration of a solve, a day: the total of a plan stays finite."""

_REFUSED_FLOPS = 1e10
"""Number of operations assumed for a solve that needs more memory than this machine has.

A worker with more memory may be able to do the solve. The operations are assumed to take a second,
long enough for the solve to be a task of its own."""

_FUNCTION_FLOPS = 5e8
"""Least number of operations assumed for a solve with a user's function or a plug-in.

They are assumed to take 50 ms, so that ten such solves fill a task."""

CALIBRATION_FILE = Path(__file__).with_name("calibration.json")


@cache
def read_calibration() -> Mapping[str, float]:
    """Return the ratio of measured to declared CPU seconds of a solve, by mechanism.

    Declared work is converted to seconds at the speed of matrix products. Mechanisms that were
    never measured are missing.
    """
    factors: dict[str, float] = json.loads(CALIBRATION_FILE.read_text(encoding="utf-8"))["factors"]
    return factors


@dataclass
class Costs:
    """A cache of workload shapes, of the costs of solves, and of the identities of their code.

    To compute a cost, the workload is built (as an operator in most families) and discarded when
    the next workload is built. Seeds do not change a cost, so the replicates of a cell share one
    entry. The ``time_limit`` applies to mechanisms without a limit of their own.

    Attributes
    ----------
    shapes : dict[str, (int, int)]
        Shapes of the workloads that were built, by name and parameters as text: (m, d) for m
        queries on d domain cells, or (n, n) for a query graph with n answers.
    """

    time_limit: float | None = None
    codes: Codes = field(default_factory=Codes)
    shapes: dict[str, tuple[int, int]] = field(default_factory=dict)
    _works: dict[tuple[str, str, Neighbours], Work] = field(default_factory=dict)
    _last: tuple[str, Workload | QueryGraph | None] = "", None

    def of(self, mechanism: Spec, cell: Cell) -> Cost:
        """Return the expected cost of a mechanism on a cell's problem.

        The cost's ``bytes`` is infinite if it exceeds the largest float, and 0 if the workload
        cannot be built.
        """
        given = ((k, v) for k, v in cell.workload.params.items() if k != "seed" and v is not None)
        workload = f"{cell.workload.name}({', '.join(f'{k}={v}' for k, v in given)})"
        key = (f"{mechanism.name} {mechanism.params}", workload, cell.neighbours)
        if key not in self._works:
            if self._last[0] != workload:
                self._last = workload, None  # stays None if the workload cannot be built
                with suppress(workloads.WorkloadError):
                    self._last = workload, build_workload(cell.workload)
            if (built := self._last[1]) is not None:
                self.shapes[workload] = built.shape
            self._works[key] = _estimate_work(mechanism, built, cell.neighbours)
        work, own_limit = self._works[key], mechanism.params.get("time_limit")
        limit = own_limit if isinstance(own_limit, int | float) else self.time_limit
        seconds = work.flops * SECONDS_PER_FLOP
        if limit is not None and "time_limit" in solvers.all_mechanisms()[mechanism.name].params():
            seconds = min(seconds, limit)
        return Cost(min(_OVERHEAD_SECONDS + seconds, _LONGEST_SECONDS), work.bytes, limit)


def _estimate_work(
    mechanism: Spec, workload: Workload | QueryGraph | None, neighbours: Neighbours
) -> Work:
    if workload is None:
        return Work(flops=math.inf, bytes=0.0)
    try:
        declared = solvers.expected_work(mechanism.name, workload, mechanism.params, neighbours)
        refused = memory.shortage(declared.bytes)
    except OverflowError:
        return Work(flops=math.inf, bytes=math.inf)
    solver = solvers.all_mechanisms()[mechanism.name]
    flops = declared.flops * read_calibration().get(mechanism.name, 1.0)
    if refused:
        flops = _REFUSED_FLOPS
    elif solver.foreign or solver.runs_code:
        flops = max(flops, _FUNCTION_FLOPS)
    workload_bytes = 0  # memory of the workload if it is stored as a matrix
    if isinstance(workload, Workload) and isinstance(workload.operator, Explicit | Drawn):
        workload_bytes = workload.operator.bytes
    return Work(flops, declared.bytes + workload_bytes)
