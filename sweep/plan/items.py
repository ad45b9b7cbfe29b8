"""The work of a run: solves, each with the cells that it serves, and bounds to be proved."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.problem.neighbours import ADD_REMOVE, Neighbours
from sweep.grid.cells import MechanismSpec, Spec, WorkloadSpec
from sweep.store import code
from sweep.store.keys import KEY, Keys


@dataclass(frozen=True)
class CellTask:
    """A cell that a solve serves: ``simulate`` vectors of noise to draw, attempts from 1."""

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
        Hash of the code that has to do it (`sweep.store.code.Codes`).
    renews : bool
        Whether one of the cells has a good result, which it keeps if this one is stopped.
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
    renews: bool = False


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
_Item = TypeVar("_Item", bound=Item, covariant=True)


def kind(item: Item) -> str:
    """What items with the same error of estimate share: the mechanism, or ``certificate``."""
    return item.mechanism.name if isinstance(item, Solve) else "certificate"


class Estimate(NamedTuple):
    """What is expected of an item: its `kind` and its duration in seconds."""

    kind: str
    seconds: float


class Items(Sequence[_Item]):
    """Solves or bounds, single ones made on demand: each takes but the number of its estimate."""

    def __init__(
        self,
        estimates: Sequence[Estimate],
        estimate: ArrayLike,
        workload_keys: Callable[[], Keys],
        make: Callable[[int], _Item],
        chains: Sequence[str] | None = None,
    ) -> None:
        self._estimates, self._estimate = estimates, np.asarray(estimate, dtype=np.int32)
        self._workload_keys, self._make, self.chains = workload_keys, make, chains

    @property
    def seconds(self) -> NDArray[np.float64]:
        """Expected duration of each."""
        seconds = [estimate.seconds for estimate in self._estimates]
        return np.array(seconds, dtype=np.float64)[self._estimate]

    @property
    def estimates(self) -> Iterator[Estimate]:
        """What is expected of each."""
        return map(self._estimates.__getitem__, self._estimate.tolist())

    @property
    def workload_keys(self) -> Keys:
        """The key of each one's workload."""
        return self._workload_keys()

    @classmethod
    def of(cls, items: "Sequence[_Item]") -> "Items[_Item]":
        """These items; themselves if they are in columns already."""
        if isinstance(items, Items):
            return items
        chains = [item.chain if isinstance(item, Solve) else "" for item in items]
        chained = chains if any(chains) else None
        estimates = [Estimate(kind(item), item.seconds) for item in items]

        def workload_keys() -> Keys:
            return np.array([item.workload_key for item in items], dtype=KEY)

        return cls(estimates, np.arange(len(items)), workload_keys, items.__getitem__, chained)

    @classmethod
    def joined(cls, items: "Sequence[_Item]", others: "Sequence[_Item]") -> "Items[_Item]":
        """The items of both, one after the other."""
        first, second = cls.of(items), cls.of(others)
        if not len(second):
            return first
        count, make, make_further = len(first), first._make, second._make
        keys, keys_further = first._workload_keys, second._workload_keys
        chains = None
        if first.chains or second.chains:
            chains = [*(first.chains or [""] * count), *(second.chains or [""] * len(second))]
        return cls(
            [*first._estimates, *second._estimates],
            np.append(first._estimate, second._estimate + len(first._estimates)),
            lambda: np.append(keys(), keys_further()),
            lambda number: make(number) if number < count else make_further(number - count),
            chains,
        )

    def __len__(self) -> int:
        return len(self._estimate)

    @overload
    def __getitem__(self, at: int) -> _Item: ...
    @overload
    def __getitem__(self, at: slice) -> list[_Item]: ...
    def __getitem__(self, at: int | slice) -> _Item | list[_Item]:
        if isinstance(at, slice):
            return [self._make(number) for number in range(*at.indices(len(self)))]
        return self._make(range(len(self))[at])
