"""From cells to tasks: every workload built once, every solve run once, cheap solves in blocks."""

import inspect
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import solvers
import workloads
from solvers.neighbours import ADD_REMOVE, Neighbours
from solvers.reductions.differences import OnDifferences
from sweep.experiment.canonical import digest
from sweep.grid.cells import Cell, Grid, MechanismSpec, Spec, WorkloadSpec
from sweep.plan.costs import CERTIFIER, SECONDS_PER_FLOP, Costs
from sweep.store import code
from sweep.store.ledger import Ledger
from sweep.store.records import CellRecord, Status

LARGEST_BLOCK = 100
LEAST_TASKS = 16
BLOCK_SECONDS = 0.5
_OVERHEAD_SECONDS = 1e-3
_LONGEST_SECONDS = 86400.0


@dataclass(frozen=True)
class CellTask:
    """A cell that a solve serves: what the worker needs to know of it.

    Attributes
    ----------
    id : str
        The cell's id.
    simulate : int
        Number of noise vectors to draw.
    attempt : int
        Number of this attempt, from 1.
    """

    id: str
    simulate: int = 0
    attempt: int = 1


@dataclass(frozen=True)
class Solve:
    """One solve, and the cells that it serves.

    Attributes
    ----------
    key, problem, workload_key : str
        The ``solve_key``, ``problem_key`` and ``workload_key`` of its cells.
    workload : WorkloadSpec
        The queries.
    targets : Spec
        The rule that gives every query its variance target.
    mechanism : MechanismSpec
        The mechanism that is run: the ``solved_mechanism`` of its cells.
    cells : tuple of CellTask
        The cells that get the result.
    seconds : float
        Expected duration in seconds.
    chain : str
        Equal for solves that run one after the other, each starting from the dual weights of
        the one before; empty for a solve on its own.
    time_limit : float, optional
        Seconds that it may take: the mechanism's own limit, else the experiment's; None for no
        limit.
    bytes : float
        Expected peak memory.
    neighbours : Neighbours
        Which databases must not be told apart.
    code : str
        Hash of the code that has to do it (`sweep.store.code.Codes`).
    """

    key: str
    problem: str
    workload_key: str
    workload: WorkloadSpec
    targets: Spec
    mechanism: MechanismSpec
    cells: tuple[CellTask, ...]
    seconds: float = 0.0
    chain: str = ""
    time_limit: float | None = None
    bytes: float = 0.0
    neighbours: Neighbours = ADD_REMOVE
    code: str = field(default_factory=code.digest)


@dataclass(frozen=True)
class Bound:
    """A certificate to compute for one problem; attributes as in `Solve`."""

    problem: str
    workload_key: str
    workload: WorkloadSpec
    targets: Spec
    seconds: float = 0.0
    time_limit: float | None = None
    bytes: float = 0.0
    neighbours: Neighbours = ADD_REMOVE
    code: str = field(default_factory=code.digest)


Item = Solve | Bound


@dataclass(frozen=True)
class Task:
    """The unit of work that one worker does at a time.

    Attributes
    ----------
    name : str
        Unique in the store: the name of its journal segment and its Dask key.
    items : tuple of Item
        The solves and bounds, in the order in which they are done.
    earlier : tuple of str
        Names of the tasks in which its items were attempted before.
    """

    name: str
    items: tuple[Item, ...]
    earlier: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Expected duration in seconds."""
        return sum(item.seconds for item in self.items)

    @property
    def bytes(self) -> float:
        """Expected peak memory."""
        return max((item.bytes for item in self.items), default=0.0)

    @property
    def cells(self) -> tuple[CellTask, ...]:
        """All cells that it serves."""
        return tuple(cell for item in self.items if isinstance(item, Solve) for cell in item.cells)

    @property
    def expected_results(self) -> frozenset[tuple[str, str]]:
        """For each record that it returns: cell and solve; for a bound, "" and the problem."""
        bounds = (("", item.problem) for item in self.items if isinstance(item, Bound))
        solves = (item for item in self.items if isinstance(item, Solve))
        return frozenset([*bounds, *((cell.id, s.key) for s in solves for cell in s.cells)])

    @property
    def workloads(self) -> Mapping[str, WorkloadSpec]:
        """The workloads that it needs, by key."""
        return {item.workload_key: item.workload for item in self.items}

    def alone(self) -> "tuple[Task, ...]":
        """The same work, one item to a task."""
        earlier = (*self.earlier, self.name)
        return tuple(
            Task(f"{self.name}-{number:04d}", (item,), earlier)
            for number, item in enumerate(self.items)
        )

    def again(self) -> "Task":
        """The same work under a new name."""
        earlier = (*self.earlier, self.name)
        stem = re.sub(r"-again\d+$", "", self.name)
        return replace(self, name=f"{stem}-again{len(earlier)}", earlier=earlier)


def distinct(grids: Iterable[Grid]) -> dict[str, Cell]:
    """The cells of all grids, by id; a cell that two grids share counts once."""
    return {cell.id: cell for grid in grids for cell in grid.cells}


def solves(
    cells: Iterable[Cell],
    ledger: Ledger,
    costs: Costs,
    along: str | None = None,
) -> list[Solve]:
    """One solve for every solve key.

    Parameters
    ----------
    cells : iterable of Cell
        Distinct cells.
    ledger : Ledger
        The number of earlier attempts of each cell.
    costs : Costs
        The expected duration of each solve.
    along : str, optional
        The axis along which solves are chained.

    Returns
    -------
    list of Solve
        In the order of the cells.
    """
    shared: dict[str, list[Cell]] = {}
    codes = code.Codes()
    for cell in cells:
        shared.setdefault(cell.solve_key, []).append(cell)
    return [
        Solve(
            key=key,
            problem=first.problem_key,
            workload_key=first.workload_key,
            workload=first.workload,
            targets=first.targets,
            mechanism=first.solved_mechanism,
            cells=tuple(CellTask(c.id, c.simulate, ledger.attempts(c.id) + 1) for c in served),
            seconds=_seconds(first.solved_mechanism, first, costs),
            chain=_chain(first, along),
            time_limit=_time_limit(first.solved_mechanism, costs),
            bytes=_bytes(first.solved_mechanism, first, costs),
            neighbours=first.neighbours,
            code=code_of(first, codes),
        )
        for key, served in shared.items()
        for first in served[:1]
    ]


def bounds(cells: Iterable[Cell], ledger: Ledger, costs: Costs) -> list[Bound]:
    """The certificates that were not attempted yet and that no solve will bring.

    A problem needs one if its workload is a query matrix and none of its mechanisms certifies
    itself, or those that do have failed.
    """
    by_problem: dict[str, list[Cell]] = {}
    codes = code.Codes()
    for cell in cells:
        by_problem.setdefault(cell.problem_key, []).append(cell)
    return [
        Bound(
            problem=key,
            workload_key=first.workload_key,
            workload=first.workload,
            targets=first.targets,
            seconds=_seconds(CERTIFIER, first, costs),
            time_limit=_time_limit(CERTIFIER, costs),
            bytes=_bytes(CERTIFIER, first, costs),
            neighbours=first.neighbours,
            code=codes.of_bound(first.workload.name),
        )
        for key, same_problem in by_problem.items()
        for first in same_problem[:1]
        if key not in ledger.bounds
        and key not in ledger.bound_errors
        and first.workload.kind == "matrix"
        and not any(_brings_bound(cell, ledger) for cell in same_problem)
    ]


def code_of(cell: Cell, codes: code.Codes) -> str:
    """The hash of the code that solves a cell now."""
    mechanism = cell.solved_mechanism
    return codes.of_solve(cell.workload.name, mechanism.name, mechanism.options)


def reusable(cells: Iterable[Cell], ledger: Ledger) -> list[CellRecord]:
    """Records for the cells whose solve the present code has already run for another cell."""
    codes = code.Codes()
    return [
        replace(ledger.solved[cell.solve_key], cell=cell.id)
        for cell in cells
        if cell.simulate == 0
        and cell.solve_key in ledger.solved
        and ledger.solved[cell.solve_key].code == code_of(cell, codes)
    ]


def tasks(items: Sequence[Item], prefix: str) -> list[Task]:
    """Cheap items in blocks that share workloads, expensive items alone, longest first.

    Blocks are small enough that there are `LEAST_TASKS` of them: estimates err, and there are
    several workers. A chain is one task, in its order.
    """
    by_workload: dict[str, list[Item]] = {}
    chains: dict[str, list[Item]] = {}
    for item in items:
        if isinstance(item, Solve) and item.chain:
            chains.setdefault(item.chain, []).append(item)
        else:
            by_workload.setdefault(item.workload_key, []).append(item)
    length = min(LARGEST_BLOCK, math.ceil(len(items) / LEAST_TASKS))
    single = _blocks((item for shared in by_workload.values() for item in shared), length)
    blocks = sorted([*map(tuple, chains.values()), *single], key=_longest_first)
    return [Task(f"{prefix}-{number:06d}", block) for number, block in enumerate(blocks)]


def shared_workloads(planned: Iterable[Task]) -> dict[str, WorkloadSpec]:
    """The workloads that more than one task needs, by key; each is built by a separate task.

    Not those of a user's function under a time limit: only within the tasks that need them is
    their building watched.
    """
    specs: dict[str, WorkloadSpec] = {}
    uses: Counter[str] = Counter()
    for task in planned:
        watched = {item.workload_key for item in task.items if item.time_limit is not None}
        for key, spec in task.workloads.items():
            if not (key in watched and _runs_code(spec)):
                specs[key] = spec
                uses[key] += 1
    return {key: specs[key] for key, count in uses.items() if count > 1}


def _runs_code(spec: WorkloadSpec) -> bool:
    return workloads.families()[spec.name].runs_code


def _blocks(items: Iterable[Item], length: int) -> Iterator[tuple[Item, ...]]:
    block: list[Item] = []
    seconds = 0.0
    for item in items:
        if item.seconds >= BLOCK_SECONDS:
            yield (item,)
            continue
        if block and (len(block) == length or seconds + item.seconds > BLOCK_SECONDS):
            yield tuple(block)
            block, seconds = [], 0.0
        block.append(item)
        seconds += item.seconds
    if block:
        yield tuple(block)


def _longest_first(block: tuple[Item, ...]) -> float:
    return -sum(item.seconds for item in block)


def _seconds(mechanism: MechanismSpec, cell: Cell, costs: Costs) -> float:
    try:
        work = costs.work(mechanism, cell.workload, cell.neighbours)
    except workloads.WorkloadError:
        return _LONGEST_SECONDS
    seconds, limit = work.flops * SECONDS_PER_FLOP, _time_limit(mechanism, costs)
    if limit is not None and takes_time_limit(mechanism.name):
        seconds = min(seconds, limit)
    return min(_OVERHEAD_SECONDS + seconds, _LONGEST_SECONDS)


def _bytes(mechanism: MechanismSpec, cell: Cell, costs: Costs) -> float:
    try:
        return costs.work(mechanism, cell.workload, cell.neighbours).bytes
    except workloads.WorkloadError:
        return 0.0


def _time_limit(mechanism: MechanismSpec, costs: Costs) -> float | None:
    own: float | None = mechanism.options.get("time_limit")
    return costs.time_limit if own is None else own


def takes_time_limit(mechanism: str) -> bool:
    """Whether a mechanism has an option ``time_limit``."""
    known = solvers.all_mechanisms()[mechanism]
    return any("time_limit" in _parameters(f) for f in (known.solve, known.solve_graph) if f)


@cache
def _parameters(function: Callable[..., object]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


def _chain(cell: Cell, along: str | None) -> str:
    mechanism = solvers.all_mechanisms()[cell.solved_mechanism.name]
    if along not in cell.coords or not mechanism.takes_start:
        return ""
    return digest([cell.group, {name: at for name, at in cell.coords.items() if name != along}])


def _brings_bound(cell: Cell, ledger: Ledger) -> bool:
    mechanism = solvers.all_mechanisms()[cell.solved_mechanism.name]
    hopeful = ledger.status(cell.id) in (Status.PENDING, Status.OK)
    concerned = cell.neighbours.add_remove or mechanism.form(OnDifferences) is not None
    return hopeful and concerned and mechanism.certifies(cell.solved_mechanism.options)
