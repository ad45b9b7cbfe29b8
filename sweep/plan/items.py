"""The work of a run: solves, each with the cells that it serves, and bounds to be proved."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from solvers.neighbours import ADD_REMOVE, Neighbours
from sweep.grid.specs import MechanismSpec, Spec, WorkloadSpec
from sweep.store import code


@dataclass(frozen=True)
class CellTask:
    """What a worker needs to know about a cell that a solve serves; attempts count from 1."""

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


class Items(Sequence[_Item]):
    """Solves or bounds in columns; single ones are made on demand."""

    def __init__(
        self,
        seconds: ArrayLike,
        workload_keys: ArrayLike,
        kinds: Sequence[str],
        make: Callable[[int], _Item],
        chains: Sequence[str] | None = None,
    ) -> None:
        self.seconds = np.asarray(seconds, dtype=np.float64)
        self.workload_keys, self.kinds = np.asarray(workload_keys, dtype=np.bytes_), kinds
        self.chains, self._make = chains, make

    @classmethod
    def of(cls, items: "Sequence[_Item]") -> "Items[_Item]":
        """These items; themselves if they are in columns already."""
        if isinstance(items, Items):
            return items
        chains = [item.chain if isinstance(item, Solve) else "" for item in items]
        chained = chains if any(chains) else None
        keys = [item.workload_key for item in items]
        seconds = [item.seconds for item in items]
        return cls(seconds, keys, [kind(item) for item in items], items.__getitem__, chained)

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
            np.concatenate([first.seconds, second.seconds]),
            np.concatenate([first.workload_keys, second.workload_keys]),
            [*first.kinds, *second.kinds],
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
