"""Cells, which are the points of a grid; a cell's identity depends only on its content."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

import workloads
from solvers.problem.neighbours import ADD_REMOVE, Neighbours
from sweep.experiment.canonical import Scalar, Spec, canonical, digest
from sweep.experiment.document import Location
from sweep.experiment.files import identify
from sweep.store.keys import KEY, KeyIndex, Keys
from workloads.family import Kind

REPLICATE = "replicate"
"""The name of the axis of repetitions."""

_SEEDS = ("\0workload", "\0targets")
"""Placeholders in JSON for the seeds of the workload and the targets. They are unique, because no
text of an experiment contains a NUL."""

KeyKind = Literal["id", "solve", "problem", "workload"]
"""The kinds of keys of a cell. ``id`` is the cell's own key. Cells that share a solve, a problem
(workload, targets and neighbours) or a workload have the same key of that kind."""


@dataclass(frozen=True)
class Cell:
    """One point of a grid.

    Attributes
    ----------
    coords : Mapping[str, Scalar]
        The cell's label along every axis of its grid; along ``mechanism``, the mechanism's label.
    mechanism, solved : Spec
        The mechanism that the experiment names, and the mechanism that is run. They differ only if
        their results are equal by definition: if all targets are equal, wCA-I is CA. One solve then
        serves the cells of both mechanisms.
    replicate : int
        Index of the repetition, from 0. The seeds of the workload and the targets increase with it.
    simulate : int
        Number of noise vectors to draw from the mechanism; 0 for none.
    neighbours : Neighbours
        Which databases are neighbours; the mechanism must make neighbours hard to distinguish. The
        cell's identity includes this relation, unless it is add-remove.
    location : Location
        Location of the cell's block in the experiment, for error messages.
    """

    group: str
    coords: Mapping[str, Scalar]
    workload: Spec
    targets: Spec
    mechanism: Spec
    solved: Spec
    replicate: int = 0
    simulate: int = 0
    neighbours: Neighbours = ADD_REMOVE
    location: Location = field(default=Location(""), repr=False, compare=False)

    @property
    def id(self) -> str:
        """The cell's identity, which is the same in every run and in every grid."""
        return self.key("id", self.replicate)

    @property
    def kind(self) -> Kind:
        """The kind of the workload: ``"matrix"`` (of queries) or ``"graph"`` (of answers)."""
        return workloads.families()[self.workload.name].kind

    def key(self, kind: KeyKind, replicate: int) -> str:
        """Return the cell's key of this kind in a given replicate: a digest of canonical JSON."""
        workload, targets, mechanism, solved = self._written
        match kind:
            case "workload":
                text = workload
            case "problem":
                text = f"[{workload},{targets}]"
            case "solve":
                text = f"[{workload},{targets},{solved},{replicate}]"
            case "id":
                text = f"[{workload},{targets},{mechanism},{replicate},{self.simulate}]"
        for mark, seed in self._seeds:
            text = text.replace(mark, str(seed + replicate))
        return digest(text)

    @cached_property
    def _seeds(self) -> list[tuple[str, int]]:
        """The placeholders that the texts of random workloads and targets have in place of seeds.

        Each is paired with the seed in replicate 0.
        """
        pairs = zip(_SEEDS, (self.workload.seed, self.targets.seed), strict=True)
        return [(mark, seed - self.replicate) for mark, seed in pairs if seed is not None]

    @cached_property
    def _written(self) -> tuple[str, str, str, str]:
        """JSON texts of the workload, the targets with the neighbours, `mechanism`, and `solved`.

        Placeholders for the seeds make the texts the same for all replicates.
        """
        texts = []
        for spec, key, seed in (
            (self.workload, "params", _SEEDS[0]),
            (self.targets, "params", _SEEDS[1]),
            (self.mechanism, "options", None),
            (self.solved, "options", None),
        ):
            params = {name: identify(value) for name, value in spec.params.items()}
            if seed and "seed" in params:
                params["seed"] = seed
            text = canonical({"name": spec.name, key: params})
            texts.append(text.replace(canonical(seed), seed) if seed else text)
        workload, targets, mechanism, solved = texts
        if not self.neighbours.add_remove:
            targets += f",{canonical({'neighbours': self.neighbours.content()})}"
        return workload, targets, mechanism, solved


class Cells:
    """A sequence of cells, stored as two columns: each cell's replicate and its family's index.

    A family consists of cells that differ only in their replicate and seeds. It is stored as one of
    these cells; the others are created on demand.
    """

    def __init__(self, families: Sequence[Cell], family: ArrayLike, replicate: ArrayLike) -> None:
        self.families = tuple(families)
        self.family = np.asarray(family, dtype=np.int32)
        self.replicate = np.asarray(replicate, dtype=np.int32)

    @classmethod
    def concatenated(cls, parts: "Sequence[Cells]") -> "Cells":
        """Return the cells of all parts, one part after another."""
        starts = np.cumsum([0, *(len(part.families) for part in parts)])
        families = [family for part in parts for family in part.families]
        numbers = [part.family + start for part, start in zip(parts, starts, strict=False)]
        replicates = [part.replicate for part in parts]
        return cls(families, np.concatenate(numbers), np.concatenate(replicates))

    @property
    def families_differ(self) -> bool:
        """Whether no cell belongs to two families."""
        return len({family.key("id", 0) for family in self.families}) == len(self.families)

    def take(self, chosen: NDArray[np.integer] | NDArray[np.bool_]) -> "Cells":
        """Return the cells at these indices, or the cells that a mask selects.

        If the mask selects all cells, return `self`.
        """
        if chosen.dtype == bool and chosen.all():
            return self
        return Cells(self.families, self.family[chosen], self.replicate[chosen])

    def __len__(self) -> int:
        return len(self.family)

    def __iter__(self) -> Iterator[Cell]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, at: int) -> Cell:
        cell: Cell = self.families[self.family[at]]
        replicate = int(self.replicate[at])
        further = replicate - cell.replicate
        if not further:
            return cell
        coords = {**cell.coords, REPLICATE: replicate} if REPLICATE in cell.coords else cell.coords
        workload, targets = (
            spec
            if spec.seed is None
            else replace(spec, params={**spec.params, "seed": spec.seed + further})
            for spec in (cell.workload, cell.targets)
        )
        made = replace(cell, coords=coords, workload=workload, targets=targets, replicate=replicate)
        # the same in all replicates
        made.__dict__.update(_written=cell._written, _seeds=cell._seeds)
        return made

    @cached_property
    def ids(self) -> Keys:
        """The ids of all cells, in order."""
        return self.keys("id")

    def keys(self, kind: KeyKind) -> Keys:
        """Return every cell's key of the given kind."""
        if kind in ("problem", "workload") and not any(family._seeds for family in self.used):
            return self.by_family(lambda cell: cell.key(kind, 0)).astype(KEY)
        members = zip(self.family.tolist(), self.replicate.tolist(), strict=True)
        keys = (
            self.families[family].key(kind, replicate).encode() for family, replicate in members
        )
        return np.fromiter(keys, KEY, len(self))

    @cached_property
    def problems(self) -> tuple[Keys, NDArray[np.int32]]:
        """The distinct problem keys, and for every cell the index of its problem's key."""
        keys, number = np.unique(self.keys("problem"), return_inverse=True)
        return keys, number.astype(np.int32)

    @cached_property
    def index(self) -> KeyIndex:
        """Finds the index of a cell by its id; if several cells share the id, the last index."""
        return KeyIndex(self.ids)

    def of_id(self, id_: str) -> Cell:
        """Return the last cell with this id; raise KeyError if there is none."""
        (position,) = self.index.positions([id_])
        if position < 0:
            raise KeyError(id_)
        return self[int(position)]

    @property
    def used(self) -> list[Cell]:
        """One cell of each family to which these cells belong."""
        return [self.families[number] for number in np.flatnonzero(np.bincount(self.family))]

    def by_family(self, value: Callable[[Cell], bool | float | bytes | str]) -> NDArray[Any]:
        """Return an array with a value for every cell; ``value`` is called once for each family."""
        used, number_of = np.unique(self.family, return_inverse=True)
        return np.array([value(self.families[number]) for number in used])[number_of]
