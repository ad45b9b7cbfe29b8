"""The work of a run: solves, packed into tasks for workers.

Cheap solves are packed into blocks that share workloads; expensive solves run alone. Solves and
tasks are created on demand, so that a run of a million cells stores only columns of numbers.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from solvers.problem.neighbours import ADD_REMOVE, Neighbours
from sweep.experiment.canonical import Spec
from sweep.store.keys import KEY, Keys, Rows, number_keys
from sweep.store.records import UNKNOWN, CellRecord, SolveCode

LARGEST_BLOCK = 100
"""Most solves of a task. Ten thousand trivial cells take 65 s one by one, because Dask needs 6 ms
for a task; 3 s by twenties and 0.7 s by hundreds, so that larger blocks would save little."""
LEAST_TASKS = 16
"""Least number of tasks, if there are as many solves: progress shows, and late workers get some."""
TASKS_PER_THREAD = 16
"""Tasks of a thread: if the last one takes twice as long as expected, the run takes 6 % longer."""
BLOCK_SECONDS = 0.5
"""Longest expected duration of several solves in a task.

The overhead of a task is then one per cent, and a lost worker repeats no more than this.
"""

CERTIFIER = Spec("optimal")
"""The mechanism of solves that serve no cell and only prove a lower bound."""


@dataclass(frozen=True)
class CellTask:
    """A cell that a solve serves: its id, and the number of the attempt, from 1.

    ``simulate`` is the number of noise vectors to draw.
    """

    id: str
    simulate: int = 0
    attempt: int = 1


@dataclass(frozen=True)
class Cost:
    """What a solve is expected to take.

    Attributes
    ----------
    seconds, bytes : float
        The expected duration in seconds, and the expected peak memory in bytes.
    time_limit : float, optional
        Time limit in seconds: the mechanism's own, otherwise the experiment's; None for no limit.
    """

    seconds: float = 0.0
    bytes: float = 0.0
    time_limit: float | None = None


@dataclass(frozen=True)
class Solve:
    """One solve; if it serves no cell, it only proves a lower bound for its problem.

    Attributes
    ----------
    key, problem, workload_key : str
        The keys of the solve, of its problem and of its workload.
    mechanism : Spec
        The mechanism that is run: the attribute ``solved`` of every cell that the solve serves.
    chain : str
        Text that is equal for solves that run one after another, each starting from the dual
        weights of the previous one; empty for an independent solve.
    code : str
        Identity of the code that must do the solve (`sweep.store.code.Codes`); empty if any code
        may.
    has_result : bool
        Whether one of the solve's cells is already ``ok``; if so, the stored arrays are kept even
        if this solve is stopped.
    """

    key: str
    problem: str
    workload_key: str
    workload: Spec
    targets: Spec
    mechanism: Spec = CERTIFIER
    cells: tuple[CellTask, ...] = ()
    cost: Cost = Cost()
    chain: str = ""
    neighbours: Neighbours = ADD_REMOVE
    code: SolveCode = UNKNOWN
    has_result: bool = False

    @property
    def subjects(self) -> frozenset[str]:
        """Ids of the cells that the solve serves or, if there are none, the key of its problem."""
        return frozenset([cell.id for cell in self.cells] or [self.problem])

    def records(self, outcome: CellRecord) -> list[CellRecord]:
        """Return a record for each cell that the solve serves: the outcome, with the cell's ids."""
        return [
            replace(outcome, cell=one.id, attempt=one.attempt, solve=self.key, problem=self.problem)
            for one in self.cells
        ]


@dataclass(frozen=True, eq=False)
class Solves:
    """A sequence of solves, stored as columns; each `Solve` is created only on demand.

    Attributes
    ----------
    seconds : numpy.ndarray
        Expected duration of each solve in seconds.
    workloads : callable
        Returns an array with the ``workload_key`` of each solve. The array is not stored, because
        it would take too much memory.
    chains : numpy.ndarray
        The ``chain`` of each solve.
    make : callable
        Creates a solve from its index.
    """

    seconds: NDArray[np.float64]
    workloads: Callable[[], Keys]
    chains: Keys
    make: Callable[[int], Solve]

    def __add__(self, more: Sequence[Solve]) -> "Solves":
        """Return these solves followed by the solves in ``more``."""
        count, keys = len(self), np.array([solve.workload_key for solve in more], KEY)
        return Solves(
            np.append(self.seconds, [solve.cost.seconds for solve in more]),
            lambda: np.append(self.workloads(), keys),
            np.append(self.chains, np.array([solve.chain for solve in more], "S")),
            lambda number: self.make(number) if number < count else more[number - count],
        )

    def __len__(self) -> int:
        return len(self.seconds)

    def task(self, name: str, numbers: Rows) -> "Task":
        """Return the task of the solves with these numbers."""
        return Task(name, tuple(self.make(number) for number in numbers.tolist()))

    def __iter__(self) -> Iterator[Solve]:
        return map(self.make, range(len(self)))


@dataclass(frozen=True)
class Task:
    """The unit of work of one worker: solves in the order in which they are run.

    A task's name is unique in the store: it names the task's journal segment and is its Dask key.
    ``earlier`` lists the names of the tasks in which the solves were attempted before, and
    ``deaths`` is the number of workers that died while they ran only this task.
    """

    name: str
    solves: tuple[Solve, ...]
    earlier: tuple[str, ...] = ()
    deaths: int = 0

    @property
    def seconds(self) -> float:
        """Expected duration in seconds."""
        return sum(solve.cost.seconds for solve in self.solves)

    @property
    def cells(self) -> int:
        """Number of cells that the task serves."""
        return sum(len(solve.cells) for solve in self.solves)

    def alone(self) -> "tuple[Task, ...]":
        """Return one task for each solve, under new names."""
        earlier = (*self.earlier, self.name)
        if len(self.solves) == 1:
            return (self.again(),)
        return tuple(
            Task(f"{self.name}-{number:04d}", (solve,), earlier)
            for number, solve in enumerate(self.solves)
        )

    def again(self) -> "Task":
        """Return the same work under a new name."""
        earlier, stem = (*self.earlier, self.name), re.sub(r"-again\d+$", "", self.name)
        return replace(self, name=f"{stem}-again{len(earlier)}", earlier=earlier)


def pack_tasks(solves: Solves, threads: int = 1) -> list[Rows]:
    """Return the numbers of the solves of every task; the longest tasks come first.

    An expensive solve is a task of its own, and a chain is one task, in the chain's order. Cheap
    solves are sorted by workload and packed into blocks. Blocks are small enough that, given enough
    solves, there are `TASKS_PER_THREAD` tasks for each of the cluster's threads, and at least
    `LEAST_TASKS` in all. With many small tasks, errors in the expected durations even out.
    """
    free = solves.chains == b""
    chain = np.where(free, -1, number_keys(solves.chains))
    workload = np.where(free, number_keys(solves.workloads()), 0)
    expensive = free & (solves.seconds >= BLOCK_SECONDS)
    order = np.lexsort((workload, expensive, chain)).astype(np.int32)
    least = max(LEAST_TASKS, TASKS_PER_THREAD * threads)
    length = min(LARGEST_BLOCK, math.ceil(len(solves) / least))
    starts, before, together = list[int](), None, 0.0
    columns = chain[order].tolist(), solves.seconds[order].tolist()
    for place, (own_chain, seconds) in enumerate(zip(*columns, strict=True)):
        room = own_chain >= 0 or (
            starts and place - starts[-1] < length and together + seconds <= BLOCK_SECONDS
        )
        if own_chain != before or not room:
            starts.append(place)
            before, together = own_chain, 0.0
        together += seconds
    blocks = [order[first:last] for first, last in pairwise([*starts, len(order)])]
    longest = np.argsort([-solves.seconds[block].sum() for block in blocks], kind="stable")
    return [blocks[number] for number in longest.tolist()]
