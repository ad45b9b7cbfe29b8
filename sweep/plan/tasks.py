"""The work of a run: solves and bounds, packed into tasks for workers.

Cheap items go into blocks that share workloads, expensive ones alone. Items and tasks are made on
demand, so that a run of a million cells holds only columns of numbers.
"""

import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.problem.neighbours import ADD_REMOVE, Neighbours
from sweep.grid.cells import MechanismSpec, Spec, WorkloadSpec
from sweep.store.keys import KEY, Keys, numbered

LARGEST_BLOCK = 100
LEAST_TASKS = 16
TASKS_PER_THREAD = 16
BLOCK_SECONDS = 0.5


@dataclass(frozen=True)
class CellTask:
    """A cell that a solve serves, with the number of noise vectors to simulate; attempts from 1."""

    id: str
    simulate: int = 0
    attempt: int = 1


@dataclass(frozen=True)
class Solve:
    """One solve, by the ``solved_mechanism`` of the cells that it serves.

    Attributes
    ----------
    key, problem, workload_key : str
        The ``solve_key``, ``problem_key`` and ``workload_key`` of its cells.
    chain : str
        Equal for solves that run one after the other, each starting from the dual weights of
        the one before; empty for a solve on its own.
    time_limit : float, optional
        Seconds that it may take: the mechanism's own limit, else the experiment's; None for no
        limit.
    code : str
        Identity of the code that has to do it (`sweep.store.code.Codes`); empty if any will do.
    has_result : bool
        Whether a cell is ``ok`` already; its stored arrays are kept if this solve is stopped.
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
    code: str = ""
    has_result: bool = False


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
    code: str = ""


Item = Solve | Bound
_Item = TypeVar("_Item", bound=Item, covariant=True)


class Items(Sequence[_Item]):
    """Solves or bounds, made on demand.

    Parameters
    ----------
    seconds : array_like of float
        Expected duration of each.
    workload_keys : callable
        Returns the key of each one's workload.
    make : callable
        Makes one, given its number.
    chains : sequence of str, optional
        The chain of each; None if no item belongs to one.
    """

    def __init__(
        self,
        seconds: ArrayLike,
        workload_keys: Callable[[], Keys],
        make: Callable[[int], _Item],
        chains: Sequence[str] | None = None,
    ) -> None:
        self.seconds: NDArray[np.float64] = np.asarray(seconds, dtype=np.float64)
        self.workload_keys, self.chains, self._make = workload_keys, chains, make

    @classmethod
    def of(cls, items: "Sequence[_Item]") -> "Items[_Item]":
        """These items; themselves if they are in columns already."""
        if isinstance(items, Items):
            return items
        chains = [item.chain if isinstance(item, Solve) else "" for item in items]

        def workload_keys() -> Keys:
            return np.array([item.workload_key for item in items], dtype=KEY)

        seconds = [item.seconds for item in items]
        return cls(seconds, workload_keys, items.__getitem__, chains if any(chains) else None)

    @classmethod
    def joined(cls, items: "Sequence[_Item]", others: "Sequence[_Item]") -> "Items[_Item]":
        """The items of both, one after the other."""
        first, second = cls.of(items), cls.of(others)
        if not len(second):
            return first
        count, make, make_further = len(first), first._make, second._make
        chains = None
        if first.chains or second.chains:
            chains = [*(first.chains or [""] * count), *(second.chains or [""] * len(second))]
        return cls(
            np.append(first.seconds, second.seconds),
            lambda: np.append(first.workload_keys(), second.workload_keys()),
            lambda number: make(number) if number < count else make_further(number - count),
            chains,
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


@dataclass(frozen=True)
class Task:
    """The unit of work of one worker: items in the order in which they are done.

    Its name is unique in the store: that of its journal segment, and its Dask key. ``earlier`` are
    the names of the tasks in which its items were attempted before.
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
        """Cell and solve of each record that it returns; "" and the problem for a bound."""
        bounds = (("", item.problem) for item in self.items if isinstance(item, Bound))
        solves = (item for item in self.items if isinstance(item, Solve))
        return frozenset([*bounds, *((cell.id, s.key) for s in solves for cell in s.cells)])

    @property
    def stem(self) -> str:
        """The name before the task was sent `again`."""
        return re.sub(r"-again\d+$", "", self.name)

    def without(self, mechanisms: Collection[str]) -> "Task":
        """The task without the solves by some mechanisms, by what messages call them."""
        if not mechanisms:
            return self
        left = [
            item
            for item in self.items
            if isinstance(item, Bound) or item.mechanism.shown not in mechanisms
        ]
        return self if len(left) == len(self.items) else replace(self, items=tuple(left))

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
        return replace(self, name=f"{self.stem}-again{len(earlier)}", earlier=earlier)


class Tasks(Sequence[Task]):
    """The tasks of a run, made on demand; a block holds the numbers of one task's items."""

    def __init__(
        self, items: Items[Item], blocks: Sequence[NDArray[np.int32]], prefix: str
    ) -> None:
        self._items, self._blocks, self._prefix = items, blocks, prefix

    @property
    def seconds(self) -> list[float]:
        """Expected duration of each."""
        seconds = self._items.seconds
        return [float(seconds[block].sum()) for block in self._blocks]

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
        items = tuple(self._items[index] for index in self._blocks[number].tolist())
        return Task(f"{self._prefix}-{number:06d}", items)


def packed(items: Sequence[Item], prefix: str, threads: int = 1) -> Tasks:
    """Cheap items in blocks that share workloads, expensive items alone, longest first.

    Blocks are small enough that there are `TASKS_PER_THREAD` of them for each of the cluster's
    threads, and `LEAST_TASKS`: estimates err, and functions of the user's have none. A chain is
    one task, in its order.
    """
    columns = Items.of(items)
    seconds, numbers = columns.seconds, np.arange(len(columns), dtype=np.int32)
    chained: dict[str, list[int]] = {}
    if columns.chains is not None:
        alone = np.array([not chain for chain in columns.chains], dtype=bool)
        for number in numbers[~alone].tolist():
            chained.setdefault(columns.chains[number], []).append(number)
        numbers = numbers[alone]
    workload = numbered(columns.workload_keys())[numbers]
    single = numbers[np.argsort(workload, kind="stable")]
    cheap = seconds[single] < BLOCK_SECONDS
    least = max(LEAST_TASKS, TASKS_PER_THREAD * threads)
    length = min(LARGEST_BLOCK, math.ceil(len(columns) / least))
    blocks = [np.array(chain, dtype=np.int32) for chain in chained.values()]
    blocks += np.split(single[~cheap], np.count_nonzero(~cheap)) if not cheap.all() else []
    blocks += _blocks(single[cheap], seconds[single[cheap]].tolist(), length)
    order = np.argsort([-seconds[block].sum() for block in blocks], kind="stable")
    return Tasks(columns, [blocks[number] for number in order.tolist()], prefix)


def _blocks(
    numbers: NDArray[np.int32], seconds: Sequence[float], length: int
) -> Iterator[NDArray[np.int32]]:
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
