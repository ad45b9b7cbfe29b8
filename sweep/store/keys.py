"""Keys of cells, solves and problems in columns: 20 bytes each, where a text takes 90."""

import struct
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Keys = NDArray[np.bytes_]
Rows = NDArray[np.int32]
"""Numbers of rows; -1 where there is none."""

KEY = np.dtype("S20")
"""What `sweep.experiment.canonical.digest` makes."""

_MOST_UNSORTED = 2**12
_UNSORTED_SHARE = 32
"""Of the keys of a large column one in so many may be unsorted; these take ten times the memory."""
_SOUGHT_AT_ONCE = 2**16


def _mark(first: Any, second: Any, third: Any) -> Any:
    """A mark of 32 bits for the three parts of a key, numbers or arrays of them."""
    mixed = first ^ second * 0x9E3779B97F4A7C15 ^ third * 0xC2B2AE3D27D4EB4F
    return (mixed & 0xFFFFFFFFFFFFFFFF) >> 32


def _mark_of(key: bytes) -> np.uint32:
    return np.uint32(_mark(*struct.unpack("<QQI", key[:20].ljust(20, b"\0"))))


def _marks(keys: Keys) -> NDArray[np.uint32]:
    held = np.ascontiguousarray(keys.astype(KEY, copy=False))
    parts = held.view([("1", "<u8"), ("2", "<u8"), ("3", "<u4")])
    marks: NDArray[np.uint64] = _mark(parts["1"], parts["2"], parts["3"].astype(np.uint64))
    return marks.astype(np.uint32)


class Places:
    """The places of keys among others, found ten times as fast by sorted marks of 32 bits.

    Parameters
    ----------
    keys : numpy.ndarray
        The others.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys, marks = keys, _marks(keys)
        self._order = np.argsort(marks, kind="stable").astype(np.int32)
        self._sorted = marks[self._order]

    def of(self, wanted: ArrayLike) -> Rows:
        """The last place of every key, -1 where there is none."""
        keys = np.asarray(wanted, dtype=np.bytes_)
        places = np.full(len(keys), -1, dtype=np.int32)
        for start in range(0, len(keys), _SOUGHT_AT_ONCE):
            part = slice(start, start + _SOUGHT_AT_ONCE)
            self._seek(keys[part], places[part])
        return places

    def _seek(self, keys: Keys, places: Rows) -> None:
        marks = _marks(keys)
        by_mark = np.argsort(marks)
        at = np.empty(len(keys), dtype=np.int64)
        at[by_mark] = self._sorted.searchsorted(marks[by_mark], "right") - 1
        left = np.arange(len(keys))
        while len(left := left[at[left] >= 0]):
            left = left[self._sorted[at[left]] == marks[left]]
            here = self._order[at[left]]
            found = self._keys[here] == keys[left]
            places[left[found]] = here[found]
            left = left[~found]
            at[left] -= 1

    def of_one(self, key: bytes) -> int:
        """The last place of a key, -1 if there is none."""
        mark = _mark_of(key)
        at = int(self._sorted.searchsorted(mark, "right")) - 1
        while at >= 0 and self._sorted[at] == mark:
            place = int(self._order[at])
            if self._keys[place] == key:
                return place
            at -= 1
        return -1


def texts(keys: Keys) -> list[str]:
    """The keys as texts."""
    ids: list[str] = keys.astype(np.str_).tolist()
    return ids


def numbered(keys: ArrayLike) -> Rows:
    """The number of every key, by the order in which they come first."""
    _, first, number = np.unique(np.asarray(keys), return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int32)
    rank[np.argsort(first)] = np.arange(len(first))
    numbers: Rows = rank[number]
    return numbers


class KeyColumn:
    """A growing column of keys."""

    def __init__(self, held: Keys | None = None) -> None:
        self._held = np.empty(0, KEY) if held is None else held
        self._count = len(self._held)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row: int) -> str:
        return bytes(self.values[row]).decode()

    @property
    def values(self) -> Keys:
        """All keys."""
        return self._held[: self._count]

    def append(self, key: bytes) -> None:
        """Add a key."""
        if self._count == len(self._held):
            longer = np.empty(1024 + self._count + self._count // 16, KEY)
            longer[: self._count] = self._held
            self._held = longer
        self._held[self._count] = key
        self._count += 1


class Lookup:
    """The last row of every key of a growing column.

    Parameters
    ----------
    column : KeyColumn
        The column; `noted` has to be called for every key that is added.
    """

    def __init__(self, column: KeyColumn) -> None:
        self._column = column
        self._places = Places(column.values)
        self._unsorted: dict[bytes, int] = {}
        self._asked: ArrayLike = ()
        self._found: Rows = np.empty(0, np.int32)

    def noted(self, key: bytes) -> None:
        """Note the key that was added last."""
        self._unsorted[key] = len(self._column) - 1
        self._asked, self._found = (), self._found[:0]
        if len(self._unsorted) > max(_MOST_UNSORTED, len(self._column) // _UNSORTED_SHARE):
            self._sort()

    def row(self, key: bytes) -> int:
        """The last row of a key, -1 if there is none."""
        return self._unsorted[key] if key in self._unsorted else self._places.of_one(key)

    def rows(self, keys: ArrayLike) -> Rows:
        """The last row of every key, -1 where there is none; the same keys are asked for often."""
        if self._unsorted:
            self._sort()
        if keys is not self._asked:
            self._found, self._asked = self._places.of(keys), keys
        return self._found

    def _sort(self) -> None:
        self._places = Places(self._column.values)
        self._unsorted.clear()
