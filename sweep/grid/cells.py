"""Cells: the points of a grid, each with an identity that depends on its content alone."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import repeat
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solvers.neighbours import ADD_REMOVE, Neighbours
from sweep.experiment.canonical import Scalar, canonical, digest, digest_of
from sweep.experiment.files import identity
from workloads.family import Kind

_Spec = TypeVar("_Spec", bound="Spec")
REPLICATE = "replicate"
"""The axis along which repetitions lie."""

_SEED = "\0seed"
"""Stands for a seed: no text of an experiment holds a NUL."""


@dataclass(frozen=True)
class Spec:
    """A workload family or a targets rule by name, with all its parameters.

    Attributes
    ----------
    name : str
        A name of `workloads.families` or `workloads.targets.rules`.
    params : Mapping[str, Any]
        Every parameter, defaults included, JSON-like.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)

    def content(self) -> dict[str, Any]:
        """The JSON-like content that the identity is a hash of."""
        return {"name": self.name, "params": identity(self.params)}


@dataclass(frozen=True)
class WorkloadSpec(Spec):
    """A workload family by name, with all its parameters.

    Attributes
    ----------
    kind : {"matrix", "graph"}
        Whether it makes a query matrix or a query graph. It follows from the name, so it is not
        part of the identity.
    """

    kind: Kind = "matrix"


@dataclass(frozen=True)
class MechanismSpec:
    """A mechanism by name, with all its options.

    Attributes
    ----------
    name : str
        A name of `solvers.mechanisms`.
    options : Mapping[str, Any]
        Every option, preset and defaults included, JSON-like.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def content(self) -> dict[str, Any]:
        """The JSON-like content that the identity is a hash of."""
        return {"name": self.name, "options": identity(self.options)}


@dataclass(frozen=True)
class Cell:
    """One point of a grid.

    Attributes
    ----------
    group : str
        The group of the grid that it belongs to.
    coords : Mapping[str, Scalar]
        Its label along every axis of its grid; along ``mechanism``, the mechanism's label.
    workload : WorkloadSpec
        The queries.
    targets : Spec
        The rule that gives every query its variance target.
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
        """The cell's identity: the same in every run, whatever else the grid holds."""
        return digest([*self._problem(), self.mechanism.content(), self.replicate, self.simulate])

    @property
    def relation(self) -> str:
        """Which databases are neighbours, in words."""
        if self.workload.kind == "graph":
            return "adjacent answers of the query graph"
        return self.neighbours.title

    @cached_property
    def workload_key(self) -> str:
        """Equal for cells that share a workload."""
        return digest(self.workload.content())

    @cached_property
    def problem_key(self) -> str:
        """Equal for cells that share a workload and its targets."""
        return digest(self._problem())

    @cached_property
    def solve_key(self) -> str:
        """Equal for cells that one solve serves."""
        return digest([*self._problem(), self.solved_mechanism.content(), self.replicate])

    def _problem(self) -> list[Any]:
        known = [self.workload.content(), self.targets.content()]
        if self.neighbours.add_remove:
            return known
        return [*known, {"neighbours": self.neighbours.content()}]


class Family:
    """Cells that differ in their replicate alone: the seeds of random specs grow with it.

    Parameters
    ----------
    first : Cell
        One of them.
    """

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


class Cells(Sequence[Cell]):
    """Cells in columns: each made when it is asked for, from its family and its replicate.

    Parameters
    ----------
    families : sequence of Family
        The families.
    family, replicate : array-like of int
        For every cell, the number of its family and its replicate.
    """

    def __init__(self, families: Sequence[Family], family: ArrayLike, replicate: ArrayLike) -> None:
        self.families = tuple(families)
        self.family = np.asarray(family, dtype=np.int32)
        self.replicate = np.asarray(replicate, dtype=np.int32)

    @classmethod
    def of(cls, cells: "Iterable[Cell]") -> "Cells":
        """These cells; themselves if they are in columns already."""
        if isinstance(cells, Cells):
            return cells
        listed = list(cells)
        replicates = [cell.replicate for cell in listed]
        return cls([Family(cell) for cell in listed], np.arange(len(listed)), replicates)

    @classmethod
    def joined(cls, parts: "Iterable[Cells]") -> "Cells":
        """The distinct cells of several, each where it comes first, as it comes last."""
        held = list(parts)
        if len(held) == 1:
            return held[0]
        starts = np.cumsum([0, *(len(one.families) for one in held)])
        families = [family for one in held for family in one.families]
        family = [one.family + start for one, start in zip(held, starts, strict=False)]
        whole = cls(
            families, np.concatenate(family), np.concatenate([one.replicate for one in held])
        )
        if len({one.content for one in families}) == len(families):
            return whole
        return whole.take(list(whole.number.values()))

    def take(self, numbers: ArrayLike) -> "Cells":
        """Some of them, by number or by a mask; themselves if a mask leaves none out."""
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
        family: Family = self.families[self.family[at]]
        return family.member(int(self.replicate[at]))

    @cached_property
    def ids(self) -> list[str]:
        """Every cell's id."""
        return self._keys(Family.ids)

    @cached_property
    def solve_keys(self) -> list[str]:
        """Every cell's solve key."""
        return self._keys(Family.solve_keys)

    @cached_property
    def problem_keys(self) -> list[str]:
        """Every cell's problem key."""
        return self._keys(Family.problem_keys)

    @cached_property
    def workload_keys(self) -> list[str]:
        """Every cell's workload key."""
        return self._keys(Family.workload_keys)

    @cached_property
    def number(self) -> dict[str, int]:
        """The number of the last cell of every id, in the order of the first."""
        return {id_: number for number, id_ in enumerate(self.ids)}

    @property
    def used(self) -> list[Family]:
        """The families that it has cells of."""
        return [self.families[number] for number in np.flatnonzero(np.bincount(self.family))]

    def by_family(self, value: Callable[[Cell], bool | float]) -> NDArray[Any]:
        """For every cell, what is the same in its family."""
        used, at = np.unique(self.family, return_inverse=True)
        return np.array([value(self.families[number].first) for number in used])[at]

    def _keys(self, of: Callable[[Family, Sequence[int]], list[str]]) -> list[str]:
        order = np.argsort(self.family, kind="stable")
        used, starts = np.unique(self.family[order], return_index=True)
        found = np.empty(len(self), dtype=object)
        for number, members in zip(used, np.split(order, starts[1:]), strict=False):
            keys = of(self.families[number], self.replicate[members].tolist())
            found[members] = keys
        return list(found.tolist())


class CellsById(Mapping[str, Cell]):
    """Distinct cells by their ids.

    Attributes
    ----------
    columns : Cells
        The cells.
    """

    def __init__(self, columns: Cells) -> None:
        self.columns = columns

    def __getitem__(self, id_: str) -> Cell:
        return self.columns[self.columns.number[id_]]

    def __contains__(self, id_: object) -> bool:
        return id_ in self.columns.number

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns.ids)

    def __len__(self) -> int:
        return len(self.columns)


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


@dataclass(frozen=True)
class Axis:
    """One dimension of a grid.

    Attributes
    ----------
    name : str
        The dimension's name, for instance ``d``.
    values : tuple of Scalar
        The labels along it, distinct, in order.
    companions : Mapping[str, tuple of Scalar]
        Further coordinates along it (zipped axes), each as long as ``values``.
    """

    name: str
    values: tuple[Scalar, ...]
    companions: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Grid:
    """The cells of one group of an experiment, and the axes that they lie on.

    Attributes
    ----------
    group : str
        The group's name, which is also that of its node in the data tree.
    axes : tuple of Axis
        The dimensions, ``mechanism`` last.
    scalars : Mapping[str, Scalar]
        Coordinates without a dimension: the parameters that all cells share.
    cells : Cells
        Some or all points of the product of the axes.
    """

    group: str
    axes: tuple[Axis, ...]
    scalars: Mapping[str, Scalar]
    cells: Cells

    @property
    def relations(self) -> str:
        """Which databases are neighbours, in words; several where it is an axis."""
        return "; ".join(dict.fromkeys(one.first.relation for one in self.cells.used))


def positions_of(cells: Cells, axes: Sequence[Axis]) -> NDArray[np.int64]:
    """The place of every cell on the axes, as if these were one."""
    place = np.zeros(len(cells), dtype=np.int64)
    for axis in axes:
        index = {value: number for number, value in enumerate(axis.values)}
        if axis.name == REPLICATE:
            here = np.array([index.get(one, 0) for one in cells.replicate.tolist()])
        else:
            at = [index[family.first.coords[axis.name]] for family in cells.families]
            here = np.array(at)[cells.family]
        place = place * len(axis.values) + here
    return place


def numbered(keys: Iterable[str]) -> NDArray[np.int64]:
    """The number of every key, by the order in which they come first."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)
