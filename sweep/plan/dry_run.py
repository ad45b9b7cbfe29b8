"""Dry runs: what a store already has, what a run would do, and how long it would take."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from timeit import Timer

import numpy as np

from solvers.mechanism import SECONDS_PER_FLOP
from sweep.experiment.schema import Experiment
from sweep.grid.expansion import expand
from sweep.grid.grids import unite_cells
from sweep.plan import solves, tasks
from sweep.plan.costs import Costs
from sweep.state.stored import StoredExperiment, compare_code, count_statuses, select_unfinished
from sweep.store.folder import is_occupied, open_
from sweep.store.journal import Journal
from sweep.store.ledger import Ledger
from sweep.store.paths import Location, locate
from workloads.operators import LARGEST_MATRIX_BYTES

_CALIBRATION_SIZE = 384
"""Rows of the matrices whose product is timed: 3 ms on a fast core.

The overhead of the call is then negligible, and the three matrices of 1.2 MB fit into the cache.
"""
_START_SECONDS = 5.0
"""Seconds until a local cluster is ready: its processes start and import numpy, scipy and Dask."""


@dataclass(frozen=True)
class Plan:
    """The remaining work of a run, with its expected duration and memory.

    Attributes
    ----------
    statuses : Mapping[str, int]
        Number of cells by status; cells without a record are ``pending``.
    solves, bounds, tasks : int
        Number of solves, certificates and tasks that remain to be done.
    largest, largest_shape, built : str, (int, int), bool
        The workload with the largest matrix; the shape (m, d) of that matrix; and whether the
        matrix fits into memory (if not, only a solve that uses the workload's structure is
        possible).
    worker_bytes : float
        Largest expected peak memory of a remaining solve, in bytes; infinite if it exceeds the
        largest float.
    seconds : float
        Expected duration with ``workers`` workers, each as fast as a processor of this machine.
    time_limit : float, optional
        The experiment's time limit for one solve, in seconds.
    of_other_code : int
        Number of stored cells that were solved, or whose problem was certified, by other code; a
        run keeps their results.
    without_reference : tuple of str
        Groups without the reference mechanism, which therefore have no variance ratios.
    """

    groups: Mapping[str, Mapping[str, int]]
    cells: int
    statuses: Mapping[str, int]
    solves: int
    bounds: int
    tasks: int
    largest: str
    largest_shape: tuple[int, int]
    built: bool
    worker_bytes: float
    seconds: float
    workers: int
    of_other_code: int = 0
    without_reference: tuple[str, ...] = ()
    neighbours: str = ""
    time_limit: float | None = None


def plan(
    experiment: Experiment,
    store: str | Location | None = None,
    *,
    allow_code: bool = False,
    workers: int | None = None,
) -> Plan:
    """Plan the run of an experiment without solving anything.

    Parameters
    ----------
    store : str, Path or ObjectPath, optional
        The store in which the experiment would be run; it need not exist.
    workers : int, optional
        Number of simultaneous tasks; by default one for each processor of this machine.

    Raises
    ------
    ExperimentError
        If the experiment is not valid, or names a function and ``allow_code`` is false.
    StoreError
        If the folder exists but is not a store, or belongs to another experiment.
    """
    grids = expand(experiment, allow_code=allow_code)
    cells = unite_cells(grids)
    ledger, costs = Ledger(), Costs(experiment.time_limit)
    if store is not None and is_occupied(place := locate(store)):
        stored = StoredExperiment(experiment, grids, open_(place))
        stored.check_kinship()
        ledger = Journal(stored.store.journal).refresh()
    todo = select_unfinished(cells, ledger)
    reused = [record.cell.encode() for record in solves.reuse_records(todo, ledger)]
    remaining = todo.take(~np.isin(todo.ids, reused))
    solving = solves.list_solves(remaining, ledger, costs, experiment.warm_start)
    proving = solves.list_proofs(cells, ledger, costs)
    work = solving + proving
    lengths = [float(work.seconds[block].sum()) for block in tasks.pack_tasks(work)]
    for cell in cells.used:
        costs.of(cell.solved, cell)  # also records the shape of its workload
    sizes = costs.shapes or {"none": (0, 0)}
    largest = max(sizes, key=lambda workload: math.prod(sizes[workload]))
    at_once, seconds = workers or os.cpu_count() or 1, 0.0
    if lengths:
        least = max(max(lengths), sum(lengths) / at_once)  # the longest tasks come first
        seconds = _START_SECONDS + least * measure_seconds_per_flop() / SECONDS_PER_FLOP
    return Plan(
        groups={grid.group: {axis.name: len(axis.values) for axis in grid.axes} for grid in grids},
        cells=len(cells),
        statuses=count_statuses(cells.ids, ledger),
        solves=len(solving),
        bounds=len(proving),
        tasks=len(lengths),
        largest=largest,
        largest_shape=sizes[largest],
        built=8 * math.prod(sizes[largest]) <= LARGEST_MATRIX_BYTES,
        worker_bytes=max((costs.of(c.solved, c).bytes for c in remaining.used), default=0.0),
        seconds=seconds,
        workers=at_once,
        of_other_code=int(compare_code(cells, ledger)[0].sum()),
        without_reference=tuple(
            grid.group
            for grid in grids
            if grid.cells[0].kind == "matrix"
            if experiment.reference not in {cell.coords["mechanism"] for cell in grid.cells.used}
        ),
        neighbours="; ".join(dict.fromkeys(grid.relations for grid in grids)),
        time_limit=experiment.time_limit,
    )


def measure_seconds_per_flop() -> float:
    """Measure the seconds per floating-point operation of a matrix product on one processor."""
    from threadpoolctl import threadpool_limits

    matrix = np.random.default_rng(0).standard_normal((_CALIBRATION_SIZE,) * 2)
    with threadpool_limits(limits=1):
        count, elapsed = Timer(lambda: matrix @ matrix).autorange()
    return elapsed / (count * 2.0 * _CALIBRATION_SIZE**3)
