"""The expected cost of a solve, before anything is solved.

A mechanism declares its work in floating-point operations, as a function of the workload's shape
(``Mechanism.work``). Their true price differs: eigendecompositions are slower than matrix products,
and the number of iterations varies. ``make calibrate`` (``benchmarks/calibrate.py``) solves a few
workloads by every mechanism on one thread and writes measured over declared work, with the machine
and the date, to ``calibration.json``. A mechanism that was never measured has factor 1.
"""

import json
import math
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path

import solvers
import workloads
from solvers import Work
from solvers.problem import memory
from solvers.problem.neighbours import ADD_REMOVE, Neighbours
from sweep.experiment.canonical import digest
from sweep.grid.cells import Cell, MechanismSpec, WorkloadSpec
from sweep.grid.expansion import build_workload
from workloads import QueryGraph, Workload
from workloads.operators import Drawn, Explicit

SECONDS_PER_FLOP = 1e-10
"""Ten gigaflops, as one core reaches today; ``sweep plan`` measures those of its machine."""

_OVERHEAD_SECONDS = 1e-3
_LONGEST_SECONDS = 86400.0

CERTIFIER = MechanismSpec("optimal")
"""The mechanism whose cost bounds that of a certificate."""

_REFUSED_FLOPS = 1e10
"""Assumed work of a solve that needs more memory than this machine has. It is refused here at once,
but a larger worker may do it: at one second it gets a task of its own."""

_KEPT_WORKLOADS = 8

CALIBRATION_FILE = Path(__file__).with_name("calibration.json")


@cache
def calibration() -> Mapping[str, float]:
    """Measured over declared CPU seconds of solves, by mechanism.

    Declared work is priced as matrix products. Mechanisms that were never measured are missing.
    """
    factors: dict[str, float] = json.loads(CALIBRATION_FILE.read_text(encoding="utf-8"))["factors"]
    return factors


class Costs:
    """Shapes of workloads and the work of solves, each computed once.

    Finding them takes the workload itself, as an operator in most families: it is built, and
    dropped again. Seeds do not change a cost, so the replicates of a cell share one entry. The time
    limit holds for mechanisms that take one and were given none.
    """

    def __init__(self, time_limit: float | None = None) -> None:
        self.time_limit = time_limit
        self._shapes: dict[str, tuple[int, int]] = {}
        self._works: dict[tuple[str, str, Neighbours], Work] = {}
        self._specs: dict[str, WorkloadSpec] = {}
        self._made = lru_cache(maxsize=_KEPT_WORKLOADS)(
            lambda key: build_workload(self._specs[key])
        )

    def shape(self, spec: WorkloadSpec) -> tuple[int, int]:
        """The shape of a query matrix, (m, d), or of a noise matrix on a query graph, (n, n).

        Raises
        ------
        WorkloadError
            If it cannot be built.
        """
        key = self._key(spec)
        if key not in self._shapes:
            rows, columns = self._workload(key).shape
            self._shapes[key] = (int(rows), int(columns))
        return self._shapes[key]

    def work(
        self, mechanism: MechanismSpec, spec: WorkloadSpec, neighbours: Neighbours = ADD_REMOVE
    ) -> Work:
        """The work of one solve; infinite where it does not fit a float.

        Raises
        ------
        WorkloadError
            If the workload cannot be built.
        """
        key = (digest(mechanism.content()), self._key(spec), neighbours)
        if key not in self._works:
            self._works[key] = _work(mechanism, self._workload(key[1]), neighbours)
        return self._works[key]

    def seconds(self, mechanism: MechanismSpec, cell: Cell) -> float:
        """How long a mechanism is expected to take for a cell's problem."""
        try:
            flops = self.work(mechanism, cell.workload, cell.neighbours).flops
        except workloads.WorkloadError:
            return _LONGEST_SECONDS
        seconds, limit = flops * SECONDS_PER_FLOP, self.limit(mechanism)
        if limit is not None and solvers.all_mechanisms()[mechanism.name].takes_time_limit:
            seconds = min(seconds, limit)
        return min(_OVERHEAD_SECONDS + seconds, _LONGEST_SECONDS)

    def bytes(self, mechanism: MechanismSpec, cell: Cell) -> float:
        """The peak memory that a mechanism is expected to need for a cell's problem."""
        try:
            return self.work(mechanism, cell.workload, cell.neighbours).bytes
        except workloads.WorkloadError:
            return 0.0

    def limit(self, mechanism: MechanismSpec) -> float | None:
        """Seconds that a mechanism may take: its own limit, else the experiment's."""
        own: float | None = mechanism.options.get("time_limit")
        return self.time_limit if own is None else own

    def _key(self, spec: WorkloadSpec) -> str:
        params = {name: value for name, value in spec.params.items() if name != "seed"}
        key = digest([spec.name, params])
        self._specs.setdefault(key, spec)
        return key

    def _workload(self, key: str) -> Workload | QueryGraph:
        workload = self._made(key)
        if workload is None:
            raise workloads.WorkloadError(f"{self._specs[key].params} was not made in time")
        return workload


def _work(
    mechanism: MechanismSpec, workload: Workload | QueryGraph, neighbours: Neighbours
) -> Work:
    try:
        declared = solvers.expected_work(mechanism.name, workload, mechanism.options, neighbours)
        refused = memory.shortage(declared.bytes)
    except OverflowError:
        return Work(flops=math.inf, bytes=math.inf)
    factor = calibration().get(mechanism.name, 1.0)
    flops = _REFUSED_FLOPS if refused else declared.flops * factor
    held = 0  # memory that the workload itself takes, where it is a matrix
    if isinstance(workload, Workload) and isinstance(workload.operator, Explicit | Drawn):
        held = workload.operator.bytes
    return Work(flops, declared.bytes + held)
