"""Cells in columns: a hundred thousand of them are two arrays and their families."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.grid.cell import Cell
from sweep.grid.family import Family


class Cells(Sequence[Cell]):
    """Cells in columns: each made when it is asked for, from its family and its replicate.

    Parameters
    ----------
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
    """Distinct cells by their ids."""

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


def numbered(keys: Iterable[str]) -> NDArray[np.int64]:
    """The number of every key, by the order in which they come first."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)
