"""Solves and bounds packed into tasks: cheap ones in blocks, expensive ones alone."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from numpy.typing import NDArray

from sweep.plan.items import Bound, CellTask, Estimate, Item, Items, Solve
from sweep.store.keys import numbered

LARGEST_BLOCK = 100
LEAST_TASKS = 16
TASKS_PER_THREAD = 16
BLOCK_SECONDS = 0.5


@dataclass(frozen=True)
class Task:
    """The unit of work that one worker does at a time: items in the order in which they are done.

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
        """The name that it had before it was sent `again`."""
        return re.sub(r"-again\d+$", "", self.name)

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
    """The tasks of a run, made on demand; a block has the numbers of the items of one."""

    def __init__(
        self, items: Items[Item], blocks: Sequence[NDArray[np.int32]], prefix: str
    ) -> None:
        self._items, self._blocks, self._prefix = items, blocks, prefix

    @property
    def seconds(self) -> list[float]:
        """Expected duration of each."""
        seconds = self._items.seconds
        return [float(seconds[block].sum()) for block in self._blocks]

    @property
    def items(self) -> int:
        """Number of all items."""
        return len(self._items)

    @property
    def estimates(self) -> Iterator[Estimate]:
        """What is expected of every item."""
        return self._items.estimates

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
    workload = numbered(columns.workload_keys)[numbers]
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
