"""From cells to tasks: every solve run once, cheap solves in blocks."""

import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

import solvers
import workloads
from solvers.neighbours import ADD_REMOVE, Neighbours
from solvers.reductions.differences import OnDifferences
from sweep.experiment.canonical import digest
from sweep.grid.cells import (
    Cell,
    Cells,
    CellsById,
    Grid,
    MechanismSpec,
    Spec,
    WorkloadSpec,
    numbered,
)
from sweep.plan.costs import CERTIFIER, SECONDS_PER_FLOP, Costs
from sweep.store import code
from sweep.store.ledger import Ledger
from sweep.store.records import CellRecord, Status

LARGEST_BLOCK = 100
LEAST_TASKS = 16
TASKS_PER_THREAD = 16
BLOCK_SECONDS = 0.5
_OVERHEAD_SECONDS = 1e-3
_LONGEST_SECONDS = 86400.0
_KEPT_FAMILIES = 1024


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


def kind(item: Item) -> str:
    """Items of one kind take alike more or less than planned: the mechanism, or ``certificate``."""
    return item.mechanism.name if isinstance(item, Solve) else "certificate"


_Item = TypeVar("_Item", bound=Item, covariant=True)


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


class Items(Sequence[_Item]):
    """Solves or bounds in columns: each is made when it is asked for.

    Attributes
    ----------
    seconds : numpy.ndarray
        Expected duration of each.
    workload_keys : sequence of str
        The key of each one's workload.
    kinds : sequence of str
        The `kind` of each.
    chains : sequence of str, optional
        The chain of each; None if there are no chains.
    """

    def __init__(
        self,
        seconds: ArrayLike,
        workload_keys: Sequence[str],
        kinds: Sequence[str],
        make: Callable[[int], _Item],
        chains: Sequence[str] | None = None,
    ) -> None:
        self.seconds = np.asarray(seconds, dtype=np.float64)
        self.workload_keys, self.kinds = workload_keys, kinds
        self.chains, self._make = chains, make

    @classmethod
    def of(cls, items: "Sequence[_Item]") -> "Items[_Item]":
        """These items; themselves if they are in columns already."""
        if isinstance(items, Items):
            return items
        chains = [item.chain if isinstance(item, Solve) else "" for item in items]
        keys = [item.workload_key for item in items]
        seconds = [item.seconds for item in items]
        return cls(seconds, keys, [kind(item) for item in items], items.__getitem__, chains)

    @classmethod
    def joined(cls, first: "Items[_Item]", second: "Items[_Item]") -> "Items[_Item]":
        """The items of both, one after the other."""
        count = len(first)
        chains = [*(first.chains or [""] * count), *(second.chains or [""] * len(second))]
        return cls(
            np.concatenate([first.seconds, second.seconds]),
            [*first.workload_keys, *second.workload_keys],
            [*first.kinds, *second.kinds],
            lambda number: first[number] if number < count else second[number - count],
            chains if first.chains or second.chains else None,
        )

    def __len__(self) -> int:
        return len(self.seconds)

    @overload
    def __getitem__(self, at: int) -> _Item: ...
    @overload
    def __getitem__(self, at: slice) -> list[_Item]: ...
    def __getitem__(self, at: int | slice) -> _Item | list[_Item]:
        if isinstance(at, slice):
            return [self._make(number) for number in range(*at.indices(len(self)))]
        return self._make(range(len(self))[at])


class Tasks(Sequence[Task]):
    """Tasks, each made when it is asked for.

    Parameters
    ----------
    items : Items
        All solves and bounds.
    blocks : sequence of numpy.ndarray
        For each task, the numbers of its items.
    prefix : str
        Beginning of all names.
    """

    def __init__(
        self, items: Items[Item], blocks: Sequence[NDArray[np.int64]], prefix: str
    ) -> None:
        self._items, self._blocks, self._prefix = items, blocks, prefix

    @property
    def seconds(self) -> list[float]:
        """Expected duration of each."""
        return [float(self._items.seconds[block].sum()) for block in self._blocks]

    @property
    def items(self) -> int:
        """Number of all items."""
        return len(self._items)

    @property
    def kinds(self) -> Iterator[tuple[str, float]]:
        """Kind and expected duration of every item."""
        return zip(self._items.kinds, self._items.seconds.tolist(), strict=True)

    def __len__(self) -> int:
        return len(self._blocks)

    @overload
    def __getitem__(self, at: int) -> Task: ...
    @overload
    def __getitem__(self, at: slice) -> list[Task]: ...
    def __getitem__(self, at: int | slice) -> Task | list[Task]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        number = range(len(self))[at]
        items = tuple(self._items[one] for one in self._blocks[number].tolist())
        return Task(f"{self._prefix}-{number:06d}", items)


def distinct(grids: Iterable[Grid]) -> CellsById:
    """The cells of all grids, by id; a cell that two grids share counts once."""
    return CellsById(Cells.joined(grid.cells for grid in grids))


def solves(
    cells: Iterable[Cell],
    ledger: Ledger,
    costs: Costs,
    along: str | None = None,
) -> Items[Solve]:
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
    sequence of Solve
        In the order of the cells.
    """
    columns, codes = Cells.of(cells), code.Codes()
    key_of_cell = numbered(columns.solve_keys)
    order = np.argsort(key_of_cell, kind="stable")
    first = np.flatnonzero(np.diff(key_of_cell[order], prepend=-1))
    ends = [*first[1:].tolist(), len(order)]
    firsts = columns if len(first) == len(columns) else columns.take(order[first])
    chains = None if along is None else [_chain(cell, along) for cell in firsts]

    @lru_cache(_KEPT_FAMILIES)
    def shared(family: int) -> dict[str, Any]:
        """What the solves of a family have in common."""
        cell = firsts.families[family].first
        return {
            "mechanism": cell.solved_mechanism,
            "seconds": _seconds(cell.solved_mechanism, cell, costs),
            "time_limit": _time_limit(cell.solved_mechanism, costs),
            "bytes": _bytes(cell.solved_mechanism, cell, costs),
            "neighbours": cell.neighbours,
            "code": code_of(cell, codes),
        }

    def made(number: int) -> Solve:
        cell, served = firsts[number], order[first[number] : ends[number]].tolist()
        return Solve(
            key=firsts.solve_keys[number],
            problem=firsts.problem_keys[number],
            workload_key=firsts.workload_keys[number],
            workload=cell.workload,
            targets=cell.targets,
            cells=tuple(
                CellTask(
                    columns.ids[one],
                    columns.families[columns.family[one]].first.simulate,
                    ledger.attempts(columns.ids[one]) + 1,
                )
                for one in served
            ),
            chain="" if chains is None else chains[number],
            **shared(int(firsts.family[number])),
        )

    seconds = firsts.by_family(lambda cell: _seconds(cell.solved_mechanism, cell, costs))
    names = [family.first.solved_mechanism.name for family in firsts.families]
    kinds = [names[family] for family in firsts.family.tolist()]
    return Items(seconds, firsts.workload_keys, kinds, made, chains)


def bounds(cells: Iterable[Cell], ledger: Ledger, costs: Costs) -> list[Bound]:
    """The certificates that were not attempted yet and that no solve will bring.

    A problem needs one if its workload is a query matrix and none of its mechanisms certifies
    itself, or those that do have failed.
    """
    columns, codes = Cells.of(cells), code.Codes()
    problem = numbered(columns.problem_keys)
    hopeful = np.isin(ledger.statuses(ledger.rows(columns.ids)), [Status.PENDING, Status.OK])
    brought = np.bincount(problem, hopeful & columns.by_family(_certifies)) > 0
    _, first = np.unique(problem, return_index=True)
    return [
        Bound(
            problem=key,
            workload_key=cell.workload_key,
            workload=cell.workload,
            targets=cell.targets,
            seconds=_seconds(CERTIFIER, cell, costs),
            time_limit=_time_limit(CERTIFIER, costs),
            bytes=_bytes(CERTIFIER, cell, costs),
            neighbours=cell.neighbours,
            code=codes.of_bound(cell.workload.name),
        )
        for number in first[~brought].tolist()
        for key in [columns.problem_keys[number]]
        if key not in ledger.bounds and key not in ledger.bound_errors
        for cell in [columns[number]]
        if cell.workload.kind == "matrix"
    ]


def code_of(cell: Cell, codes: code.Codes) -> str:
    """The hash of the code that solves a cell now."""
    mechanism = cell.solved_mechanism
    return codes.of_solve(cell.workload.name, mechanism.name, mechanism.options)


def reusable(cells: Iterable[Cell], ledger: Ledger) -> list[CellRecord]:
    """Records for the cells whose solve the present code has already run for another cell."""
    columns, codes, solved = Cells.of(cells), code.Codes(), ledger.solved
    if not solved:
        return []
    return [
        replace(solved[key], cell=cell.id)
        for number, key in enumerate(columns.solve_keys)
        if key in solved
        for cell in [columns[number]]
        if cell.simulate == 0 and solved[key].code == code_of(cell, codes)
    ]


def tasks(items: Sequence[Item], prefix: str, threads: int = 1) -> Tasks:
    """Cheap items in blocks that share workloads, expensive items alone, longest first.

    Blocks are small enough that there are `TASKS_PER_THREAD` of them for each of the cluster's
    threads, and `LEAST_TASKS`: estimates err, and functions of the user's have none. A chain is
    one task, in its order.
    """
    columns = Items.of(items)
    numbers = np.arange(len(columns))
    chained: dict[str, list[int]] = {}
    if columns.chains is not None:
        alone = np.array([not chain for chain in columns.chains], dtype=bool)
        for number in numbers[~alone].tolist():
            chained.setdefault(columns.chains[number], []).append(number)
        numbers = numbers[alone]
    workload = numbered(columns.workload_keys)[numbers]
    single = numbers[np.argsort(workload, kind="stable")]
    cheap = columns.seconds[single] < BLOCK_SECONDS
    least = max(LEAST_TASKS, TASKS_PER_THREAD * threads)
    length = min(LARGEST_BLOCK, math.ceil(len(columns) / least))
    blocks = [np.array(chain) for chain in chained.values()]
    blocks += np.split(single[~cheap], np.count_nonzero(~cheap)) if not cheap.all() else []
    blocks += _blocks(single[cheap], columns.seconds[single[cheap]].tolist(), length)
    seconds = [columns.seconds[block].sum() for block in blocks]
    order = np.argsort(-np.array(seconds), kind="stable")
    return Tasks(columns, [blocks[number] for number in order.tolist()], prefix)


def _blocks(
    numbers: NDArray[np.int64], seconds: Sequence[float], length: int
) -> Iterator[NDArray[np.int64]]:
    """Consecutive items together up to a length and a duration."""
    start, together = 0, 0.0
    for place, own in enumerate(seconds):
        full = place - start == length or together + own > BLOCK_SECONDS
        if place > start and full:
            yield numbers[start:place]
            start, together = place, 0.0
        together += own
    if len(numbers):
        yield numbers[start:]


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


def _certifies(cell: Cell) -> bool:
    """Whether a solve of a cell proves a bound on its problem."""
    mechanism = solvers.all_mechanisms()[cell.solved_mechanism.name]
    concerned = cell.neighbours.add_remove or mechanism.form(OnDifferences) is not None
    return concerned and mechanism.certifies(cell.solved_mechanism.options)
