"""Cells: points of a grid, each with an identity that depends only on its content."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.problem.neighbours import ADD_REMOVE, Neighbours
from sweep.experiment.canonical import Scalar, canonical, digest_of
from sweep.experiment.files import identity
from sweep.store.keys import KEY, KeyIndex, Keys, Rows, numbered
from workloads import targets
from workloads.family import Kind


@dataclass(frozen=True)
class Spec:
    """A workload family or a targets rule by name, with all its parameters, JSON-like."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)

    def content(self) -> dict[str, Any]:
        """The JSON-like content that is hashed into the identity."""
        return {"name": self.name, "params": identity(self.params)}


@dataclass(frozen=True)
class WorkloadSpec(Spec):
    """A workload; its kind follows from its family's name and is not part of the identity."""

    kind: Kind = "matrix"


@dataclass(frozen=True)
class MechanismSpec:
    """A mechanism by name, with all its options, preset and defaults included, JSON-like.

    Attributes
    ----------
    label : str
        The mechanism's label on the ``mechanism`` axis; not part of the identity.
    when_uniform : MechanismSpec, optional
        The mechanism that this one equals by definition if all targets are equal, such as CA for
        wCA-I. One solve then serves both.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    label: str = field(default="", compare=False)
    when_uniform: "MechanismSpec | None" = field(default=None, compare=False, repr=False)

    @property
    def shown(self) -> str:
        """The mechanism's name in messages."""
        return self.label or self.name

    def content(self) -> dict[str, Any]:
        """The JSON-like content that is hashed into the identity."""
        return {"name": self.name, "options": identity(self.options)}


_Spec = TypeVar("_Spec", bound=Spec)

REPLICATE = "replicate"
"""The axis of repetitions."""

_SEED = "\0seed"
"""Placeholder for a seed: no text of an experiment contains a NUL."""


@dataclass(frozen=True)
class Cell:
    """One point of a grid.

    Attributes
    ----------
    coords : Mapping[str, Scalar]
        The cell's label along every axis of its grid; along ``mechanism``, the mechanism's label.
    mechanism : MechanismSpec
        The mechanism that the experiment names; `solved_mechanism` is the one that is run.
    replicate : int
        Number of the repetition, from 0.
    simulate : int
        Number of noise vectors to draw from the mechanism; 0 for none.
    neighbours : Neighbours
        Which databases are neighbours, so that the mechanism must make them indistinguishable. Part
        of the identity unless it is add-remove.
    """

    group: str
    coords: Mapping[str, Scalar]
    workload: WorkloadSpec
    targets: Spec
    mechanism: MechanismSpec
    replicate: int = 0
    simulate: int = 0
    neighbours: Neighbours = ADD_REMOVE

    @cached_property
    def id(self) -> str:
        """The cell's identity: the same in every run, whatever else is in the grid."""
        return CellFamily(self).id(self.replicate)

    @cached_property
    def solved_mechanism(self) -> MechanismSpec:
        """The mechanism that is run: ``when_uniform`` if all targets are equal."""
        other = self.mechanism.when_uniform
        uniform = other is not None and targets.rules()[self.targets.name].uniform
        return other if other is not None and uniform else self.mechanism

    @property
    def relation(self) -> str:
        """The relation of neighbouring databases, in words."""
        if self.workload.kind == "graph":
            return "adjacent answers of the query graph"
        return self.neighbours.title


class CellFamily:
    """Cells that differ only in their replicate, whose number is added to the seeds of specs.

    Their keys are digests of canonical JSON, which is written once for all replicates.
    """

    def __init__(self, first: Cell) -> None:
        self.first = first
        self.is_random = "seed" in first.workload.params or "seed" in first.targets.params
        self._workload, self._targets = _written(first.workload), _written(first.targets)
        relation, solved = first.neighbours, first.solved_mechanism
        written = "" if relation.add_remove else f",{canonical({'neighbours': relation.content()})}"
        self._relation = written
        own = self._mechanism = canonical(first.mechanism.content())
        self._solved = own if solved is first.mechanism else canonical(solved.content())

    @property
    def content(self) -> str:
        """A text that is equal for families with the same cells."""
        return f"{self._problem(0)},{self._mechanism},{self.first.simulate}"

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

    def id(self, replicate: int) -> str:
        """The id of a replicate's cell."""
        simulate = self.first.simulate
        return digest_of(f"[{self._problem(replicate)},{self._mechanism},{replicate},{simulate}]")

    def solve_key(self, replicate: int) -> str:
        """A key that is equal for cells that one solve serves."""
        return digest_of(f"[{self._problem(replicate)},{self._solved},{replicate}]")

    def problem_key(self, replicate: int) -> str:
        """A key that is equal for cells with the same workload, targets and neighbours."""
        return digest_of(f"[{self._problem(replicate)}]")

    def workload_key(self, replicate: int) -> str:
        """A key that is equal for cells with the same workload."""
        return digest_of(self._workload(replicate - self.first.replicate))

    def _problem(self, replicate: int) -> str:
        further = replicate - self.first.replicate
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


class Cells(Sequence[Cell]):
    """Cells as two columns: the index of each cell's family, and its replicate.

    Single cells are created on demand.
    """

    def __init__(
        self, families: Sequence[CellFamily], family: ArrayLike, replicate: ArrayLike
    ) -> None:
        self.families = tuple(families)
        self.family = np.asarray(family, dtype=np.int32)
        self.replicate = np.asarray(replicate, dtype=np.int32)

    @classmethod
    def joined(cls, parts: "Iterable[Cells]") -> "Cells":
        """The distinct cells of all parts, in order of occurrence, each from its last part."""
        listed = list(parts)
        if len(listed) == 1:
            return listed[0]
        starts = np.cumsum([0, *(len(part.families) for part in listed)])
        families = [family for part in listed for family in part.families]
        family = [part.family + start for part, start in zip(listed, starts, strict=False)]
        whole = cls(
            families, np.concatenate(family), np.concatenate([part.replicate for part in listed])
        )
        if len({family.content for family in families}) == len(families):
            return whole
        first = numbered(whole.ids)
        last = np.empty(first.max(initial=-1) + 1, dtype=np.int64)
        last[first] = np.arange(len(whole))
        return whole.take(last)

    def take(self, numbers: ArrayLike) -> "Cells":
        """Some of the cells, by number or mask; these cells themselves if a mask selects all."""
        chosen = np.asarray(numbers)
        if chosen.dtype == bool and chosen.all():
            return self
        if not chosen.size:
            chosen = chosen.astype(np.int64)
        return Cells(self.families, self.family[chosen], self.replicate[chosen])

    def __len__(self) -> int:
        return len(self.family)

    @overload
    def __getitem__(self, at: int) -> Cell: ...
    @overload
    def __getitem__(self, at: slice) -> "Cells": ...
    def __getitem__(self, at: int | slice) -> "Cell | Cells":
        if isinstance(at, slice):
            return Cells(self.families, self.family[at], self.replicate[at])
        family: CellFamily = self.families[self.family[at]]
        return family.member(int(self.replicate[at]))

    @cached_property
    def ids(self) -> Keys:
        """Every cell's id."""
        return self.keys(CellFamily.id)

    def keys(self, key: Callable[[CellFamily, int], str]) -> Keys:
        """A key of every cell: `CellFamily.solve_key`, for instance."""
        members = zip(self.family.tolist(), self.replicate.tolist(), strict=True)
        keys = (key(self.families[family], replicate).encode() for family, replicate in members)
        return np.fromiter(keys, KEY, len(self))

    @cached_property
    def problems(self) -> tuple[Keys, NDArray[np.int32]]:
        """The distinct problem keys, and for every cell the index of its own."""
        if any(family.is_random for family in self.used):
            keys, number = np.unique(self.keys(CellFamily.problem_key), return_inverse=True)
            return keys, number.astype(np.int32)
        keys, of_family = np.unique(
            np.array([family.problem_key(0) for family in self.families], KEY),
            return_inverse=True,
        )
        return keys, of_family.astype(np.int32)[self.family]

    def places(self, ids: ArrayLike) -> Rows:
        """The index of the last cell with each id; -1 if there is none."""
        return self._index.positions(ids)

    def of_id(self, id_: str) -> Cell:
        """The last cell with that id; raises KeyError if there is none."""
        (place,) = self.places([id_])
        if place < 0:
            raise KeyError(id_)
        return self[int(place)]

    @property
    def used(self) -> list[CellFamily]:
        """The families of these cells."""
        return [self.families[number] for number in np.flatnonzero(np.bincount(self.family))]

    def by_family(self, value: Callable[[Cell], bool | float]) -> NDArray[Any]:
        """A value for every cell, computed once for each family."""
        used, at = np.unique(self.family, return_inverse=True)
        return np.array([value(self.families[number].first) for number in used])[at]

    @cached_property
    def _index(self) -> KeyIndex:
        return KeyIndex(self.ids)
