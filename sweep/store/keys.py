"""Arrays of keys: a cell's, solve's or problem's key takes 20 bytes, as a `str` it takes 90."""

import struct
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Keys = NDArray[np.bytes_]
Rows = NDArray[np.int32]
"""Row numbers; -1 where there is no row."""

KEY = np.dtype("S20")
"""The type of `sweep.experiment.canonical.digest`, encoded."""

_MIN_UNSORTED = 2**12
_UNSORTED_SHARE = 32
"""A `Lookup` is sorted again when more than 1/32 of its keys, and at least 4096, are unsorted.

An unsorted key lies in a dict, which takes ten times the memory.
"""
_CHUNK = 2**16
"""Keys searched together: their arrays fit into the processor's cache, six times as fast."""


def _mark(first: Any, second: Any, third: Any) -> Any:
    """A 32-bit hash of the three parts of a key; the parts are numbers or arrays."""
    mixed = first ^ second * 0x9E3779B97F4A7C15 ^ third * 0xC2B2AE3D27D4EB4F
    return (mixed & 0xFFFFFFFFFFFFFFFF) >> 32


def _marks(keys: Keys) -> NDArray[np.uint32]:
    parts = np.ascontiguousarray(keys, KEY).view([("1", "<u8"), ("2", "<u8"), ("3", "<u4")])
    marks: NDArray[np.uint64] = _mark(parts["1"], parts["2"], parts["3"].astype(np.uint64))
    return marks.astype(np.uint32)


class KeyIndex:
    """Finds the positions of keys in an array.

    Keys are searched by sorted 32-bit hashes, which is ten times as fast as by the keys themselves.

    Parameters
    ----------
    keys : numpy.ndarray
        The array to search.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys, marks = keys, _marks(keys)
        self._order = np.argsort(marks, kind="stable").astype(np.int32)
        self._sorted = marks[self._order]

    def positions(self, wanted: ArrayLike) -> Rows:
        """The last position of every key, -1 for keys that the array does not hold."""
        keys = np.asarray(wanted, dtype=np.bytes_)
        positions = np.full(len(keys), -1, dtype=np.int32)
        for start in range(0, len(keys), _CHUNK):
            part = slice(start, start + _CHUNK)
            self._search(keys[part], positions[part])
        return positions

    def _search(self, keys: Keys, positions: Rows) -> None:
        """Write the last position of every key that is found into ``positions``."""
        marks = _marks(keys)
        by_mark = np.argsort(marks)  # searchsorted is several times as fast in order
        at = np.empty(len(keys), dtype=np.int64)
        at[by_mark] = self._sorted.searchsorted(marks[by_mark], "right") - 1
        remaining = np.arange(len(keys))
        while len(remaining := remaining[at[remaining] >= 0]):
            remaining = remaining[self._sorted[at[remaining]] == marks[remaining]]
            here = self._order[at[remaining]]
            found = self._keys[here] == keys[remaining]
            positions[remaining[found]] = here[found]
            remaining = remaining[~found]
            at[remaining] -= 1

    def position(self, key: bytes) -> int:
        """The last position of one key, -1 if there is none; faster than `positions` for one."""
        mark = np.uint32(_mark(*struct.unpack("<QQI", key[:20].ljust(20, b"\0"))))
        at = int(self._sorted.searchsorted(mark, "right")) - 1
        while at >= 0 and self._sorted[at] == mark:
            position = int(self._order[at])
            if self._keys[position] == key:
                return position
            at -= 1
        return -1


def texts(keys: Keys) -> list[str]:
    """The keys as strings."""
    ids: list[str] = keys.astype(np.str_).tolist()
    return ids


def numbered(keys: ArrayLike) -> Rows:
    """Equal keys get equal numbers, counted from 0 in order of first appearance."""
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
    """Finds the last row of a key in a growing column.

    Parameters
    ----------
    column : KeyColumn
        The column. Call `added` after each key that is appended to it.
    """

    def __init__(self, column: KeyColumn) -> None:
        self._column = column
        self._index = KeyIndex(column.values)
        self._unsorted: dict[bytes, int] = {}

    def added(self, key: bytes) -> None:
        """Register the key in the column's last row."""
        self._unsorted[key] = len(self._column) - 1
        if len(self._unsorted) > max(_MIN_UNSORTED, len(self._column) // _UNSORTED_SHARE):
            self._sort()

    def row(self, key: bytes) -> int:
        """The last row of a key, -1 if there is none."""
        return self._unsorted[key] if key in self._unsorted else self._index.position(key)

    def rows(self, keys: ArrayLike) -> Rows:
        """The last row of every key, -1 where there is none."""
        if self._unsorted:
            self._sort()
        return self._index.positions(keys)

    def _sort(self) -> None:
        self._index = KeyIndex(self._column.values)
        self._unsorted.clear()
