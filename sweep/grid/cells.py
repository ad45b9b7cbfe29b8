"""Cells in columns: a million of them take two arrays of numbers, their families and keys."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.grid.cell import Cell, CellFamily
from sweep.store.keys import KEY, Keys, Places, Rows, numbered

_HASHED_AT_ONCE = 2**14


class Cells(Sequence[Cell]):
    """Cells in columns: the number of every cell's family, and its replicate.

    Single ones are made on demand.
    """

    def __init__(
        self, families: Sequence[CellFamily], family: ArrayLike, replicate: ArrayLike
    ) -> None:
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
        return cls([CellFamily(cell) for cell in listed], np.arange(len(listed)), replicates)

    @classmethod
    def joined(cls, parts: "Iterable[Cells]") -> "Cells":
        """The distinct cells of several, ordered by first occurrence, each as it comes last."""
        held = list(parts)
        if len(held) == 1:
            return held[0]
        starts = np.cumsum([0, *(len(part.families) for part in held)])
        families = [family for part in held for family in part.families]
        family = [part.family + start for part, start in zip(held, starts, strict=False)]
        whole = cls(
            families, np.concatenate(family), np.concatenate([part.replicate for part in held])
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
        return self._keys(CellFamily.ids)

    @property
    def solve_keys(self) -> Keys:
        """Every cell's solve key, hashed anew: they are seldom needed all at once."""
        return self._keys(CellFamily.solve_keys)

    @property
    def workload_keys(self) -> Keys:
        """Every cell's workload key, hashed anew."""
        return self._keys(CellFamily.workload_keys)

    @cached_property
    def problems(self) -> tuple[Keys, NDArray[np.int32]]:
        """The distinct problem keys, and the number of every cell's among them."""
        if any(family.is_random for family in self.used):
            keys, number = np.unique(self._keys(CellFamily.problem_keys), return_inverse=True)
            return keys, number.astype(np.int32)
        keys, of_family = np.unique(
            np.array([family.first.problem_key for family in self.families], KEY),
            return_inverse=True,
        )
        return keys, of_family.astype(np.int32)[self.family]

    def places(self, ids: ArrayLike) -> Rows:
        """The number of the last cell of every id, -1 where there is none."""
        return self._places.of(ids)

    def of_id(self, id_: str) -> Cell:
        """The last cell of an id; KeyError if there is none."""
        (place,) = self.places([id_])
        if place < 0:
            raise KeyError(id_)
        return self[int(place)]

    @property
    def used(self) -> list[CellFamily]:
        """The families of its cells."""
        return [self.families[number] for number in np.flatnonzero(np.bincount(self.family))]

    def by_family(self, value: Callable[[Cell], bool | float]) -> NDArray[Any]:
        """A value for every cell, computed once for each family."""
        used, at = np.unique(self.family, return_inverse=True)
        return np.array([value(self.families[number].first) for number in used])[at]

    @cached_property
    def _places(self) -> Places:
        return Places(self.ids)

    def _keys(self, of: Callable[[CellFamily, Sequence[int]], list[str]]) -> Keys:
        keys = np.empty(len(self), KEY)
        order = np.argsort(self.family, kind="stable")
        used, starts = np.unique(self.family[order], return_index=True)
        for number, members in zip(used, np.split(order, starts[1:]), strict=False):
            for start in range(0, len(members), _HASHED_AT_ONCE):
                some = members[start : start + _HASHED_AT_ONCE]
                keys[some] = of(self.families[number], self.replicate[some].tolist())
        return keys
