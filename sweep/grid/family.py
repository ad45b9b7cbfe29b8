"""Cells that differ in their replicate alone, and their identities all at once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from typing import TypeVar

from sweep.experiment.canonical import canonical, digest_of
from sweep.grid.cell import Cell
from sweep.grid.specs import Spec

_Spec = TypeVar("_Spec", bound=Spec)

REPLICATE = "replicate"
"""The axis along which repetitions lie."""

_SEED = "\0seed"
"""Stands for a seed: no text of an experiment holds a NUL."""


class Family:
    """Cells that differ in their replicate alone: the seeds of random specs grow with it."""

    def __init__(self, first: Cell) -> None:
        self.first = first
        self._workload, self._targets = _written(first.workload), _written(first.targets)
        relation = first.neighbours
        held = "" if relation.add_remove else f",{canonical({'neighbours': relation.content()})}"
        self._relation, self._mechanism = held, canonical(first.mechanism.content())

    @property
    def content(self) -> str:
        """Equal for families whose cells of one replicate are the same cell."""
        start = self._problem(-self.first.replicate)
        return f"{start},{self._mechanism},{self.first.simulate}"

    @property
    def is_random(self) -> bool:
        """Whether its cells have problems of their own."""
        return self._problem(0) != self._problem(1)

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
        solved = canonical(self.first.solved_mechanism.content())
        return [
            digest_of(f"[{problem},{solved},{replicate}]")
            for replicate, problem in zip(replicates, self._problems(replicates), strict=True)
        ]

    def problem_keys(self, replicates: Sequence[int]) -> list[str]:
        """The problem keys of these replicates."""
        if not self.is_random:
            return [self.first.problem_key] * len(replicates)
        return [digest_of(f"[{problem}]") for problem in self._problems(replicates)]

    def workload_keys(self, replicates: Sequence[int]) -> list[str]:
        """The workload keys of these replicates."""
        if "seed" not in self.first.workload.params:
            return [self.first.workload_key] * len(replicates)
        return [digest_of(self._workload(one - self.first.replicate)) for one in replicates]

    def _problems(self, replicates: Sequence[int]) -> Iterator[str]:
        if not self.is_random:
            return repeat(self._problem(0), len(replicates))
        return (self._problem(replicate - self.first.replicate) for replicate in replicates)

    def _problem(self, further: int) -> str:
        return f"{self._workload(further)},{self._targets(further)}{self._relation}"


def _written(spec: Spec) -> Callable[[int], str]:
    """The canonical content of a spec as a function of what is added to its seed."""
    if "seed" not in spec.params:
        fixed = canonical(spec.content())
        return lambda further: fixed
    marked = replace(spec, params={**spec.params, "seed": _SEED})
    before, after = canonical(marked.content()).split(canonical(_SEED))
    return lambda further: f"{before}{canonical(spec.params['seed'] + further)}{after}"


def _seeded(spec: _Spec, further: int) -> _Spec:
    """The spec with what is added to its seed, if it is random."""
    if "seed" not in spec.params:
        return spec
    return replace(spec, params={**spec.params, "seed": spec.params["seed"] + further})
