"""A cell: one point of a grid, with an identity that depends on its content alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from typing import TypeVar

from solvers.problem.neighbours import ADD_REMOVE, Neighbours
from sweep.experiment.canonical import Scalar, canonical, digest_of
from sweep.grid.specs import MechanismSpec, Spec, WorkloadSpec

_Spec = TypeVar("_Spec", bound=Spec)

REPLICATE = "replicate"
"""The axis along which repetitions lie."""

_SEED = "\0seed"
"""Stands for a seed: no text of an experiment holds a NUL."""


@dataclass(frozen=True)
class Cell:
    """One point of a grid.

    Attributes
    ----------
    coords : Mapping[str, Scalar]
        Its label along every axis of its grid; along ``mechanism``, the mechanism's label.
    mechanism : MechanismSpec
        The mechanism that the experiment names; its label is not part of the identity.
    solved_mechanism : MechanismSpec
        The mechanism that is run. It differs from ``mechanism`` where both are the same by
        definition (wCA-I with equal targets is CA), so that one solve serves both.
    replicate : int
        Number of the repetition, from 0.
    simulate : int
        Number of noise vectors to draw from the mechanism; 0 for none.
    neighbours : Neighbours
        Which databases the mechanism must not tell apart. Part of the identity where it is not
        add-remove.
    """

    group: str
    coords: Mapping[str, Scalar]
    workload: WorkloadSpec
    targets: Spec
    mechanism: MechanismSpec
    solved_mechanism: MechanismSpec
    replicate: int = 0
    simulate: int = 0
    neighbours: Neighbours = ADD_REMOVE

    @cached_property
    def id(self) -> str:
        """The cell's identity: the same in every run, whatever else is in the grid."""
        return CellFamily(self).ids([self.replicate])[0]

    @property
    def relation(self) -> str:
        """Which databases are neighbours, in words."""
        if self.workload.kind == "graph":
            return "adjacent answers of the query graph"
        return self.neighbours.title

    @cached_property
    def workload_key(self) -> str:
        """Equal for cells that share a workload."""
        return CellFamily(self).workload_keys([self.replicate])[0]

    @cached_property
    def problem_key(self) -> str:
        """Equal for cells that share a workload and its targets."""
        return CellFamily(self).problem_keys([self.replicate])[0]

    @cached_property
    def solve_key(self) -> str:
        """Equal for cells that one solve serves."""
        return CellFamily(self).solve_keys([self.replicate])[0]


class CellFamily:
    """Cells that differ only in their replicate, which is added to the seeds of random specs.

    Its keys are digests of canonical JSON, written once for all replicates.
    """

    def __init__(self, first: Cell) -> None:
        self.first = first
        self._workload, self._targets = _written(first.workload), _written(first.targets)
        relation = first.neighbours
        held = "" if relation.add_remove else f",{canonical({'neighbours': relation.content()})}"
        self._relation = held

    @cached_property
    def _mechanism(self) -> str:
        return canonical(self.first.mechanism.content())

    @cached_property
    def _solved_mechanism(self) -> str:
        return canonical(self.first.solved_mechanism.content())

    @property
    def content(self) -> str:
        """Equal for families whose cells of one replicate are the same cell."""
        start = self._problem(-self.first.replicate)
        return f"{start},{self._mechanism},{self.first.simulate}"

    @property
    def is_random(self) -> bool:
        """Whether its cells have problems of their own."""
        return any("seed" in spec.params for spec in (self.first.workload, self.first.targets))

    def member(self, replicate: int) -> Cell:
        """The cell of a replicate."""
        first, further = self.first, replicate - self.first.replicate
        if not further:
            return first
        labels = {REPLICATE: replicate} if REPLICATE in first.coords else {}
        return replace(
            first,
            coords={**first.coords, **labels},
            workload=_seeded(first.workload, further),
            targets=_seeded(first.targets, further),
            replicate=replicate,
        )

    def ids(self, replicates: Sequence[int]) -> list[str]:
        """The ids of these replicates."""
        simulate = self.first.simulate
        return [
            digest_of(f"[{problem},{self._mechanism},{replicate},{simulate}]")
            for replicate, problem in zip(replicates, self._problems(replicates), strict=True)
        ]

    def solve_keys(self, replicates: Sequence[int]) -> list[str]:
        """The solve keys of these replicates."""
        return [
            digest_of(f"[{problem},{self._solved_mechanism},{replicate}]")
            for replicate, problem in zip(replicates, self._problems(replicates), strict=True)
        ]

    def problem_keys(self, replicates: Sequence[int]) -> list[str]:
        """The problem keys of these replicates."""
        if not self.is_random:
            return [digest_of(f"[{self._problem(0)}]")] * len(replicates)
        return [digest_of(f"[{problem}]") for problem in self._problems(replicates)]

    def workload_keys(self, replicates: Sequence[int]) -> list[str]:
        """The workload keys of these replicates."""
        if "seed" not in self.first.workload.params:
            return [digest_of(self._workload(0))] * len(replicates)
        return [digest_of(self._workload(number - self.first.replicate)) for number in replicates]

    def _problems(self, replicates: Sequence[int]) -> Iterator[str]:
        if not self.is_random:
            return repeat(self._problem(0), len(replicates))
        return (self._problem(replicate - self.first.replicate) for replicate in replicates)

    def _problem(self, further: int) -> str:
        return f"{self._workload(further)},{self._targets(further)}{self._relation}"


def _written(spec: Spec) -> Callable[[int], str]:
    """The canonical content of a spec as a function of the offset of its seed."""
    if "seed" not in spec.params:
        fixed = canonical(spec.content())
        return lambda further: fixed
    marked = replace(spec, params={**spec.params, "seed": _SEED})
    before, after = canonical(marked.content()).split(canonical(_SEED))
    return lambda further: f"{before}{canonical(spec.params['seed'] + further)}{after}"


def _seeded(spec: _Spec, further: int) -> _Spec:
    """The spec with an offset added to its seed, if it is random."""
    if "seed" not in spec.params:
        return spec
    return replace(spec, params={**spec.params, "seed": spec.params["seed"] + further})
