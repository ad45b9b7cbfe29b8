"""Keys of cells, solves and problems in columns: 20 bytes each, where a text takes 90."""

import struct
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Keys = NDArray[np.bytes_]
Rows = NDArray[np.int64]
"""Numbers of rows; -1 where there is none."""

KEY = np.dtype("S20")
"""What `sweep.experiment.canonical.digest` makes."""

_MOST_UNSORTED = 2**16


def _mark(first: Any, second: Any, third: Any) -> Any:
    """A mark of 64 bits for the three parts of a key, numbers or arrays of them."""
    return (first ^ second * 0x9E3779B97F4A7C15 ^ third * 0xC2B2AE3D27D4EB4F) & 0xFFFFFFFFFFFFFFFF


def _mark_of(key: bytes) -> np.uint64:
    return np.uint64(_mark(*struct.unpack("<QQI", key[:20].ljust(20, b"\0"))))


def _marks(keys: Keys) -> NDArray[np.uint64]:
    held = np.ascontiguousarray(keys.astype(KEY, copy=False))
    parts = held.view([("1", "<u8"), ("2", "<u8"), ("3", "<u4")])
    marks: NDArray[np.uint64] = _mark(parts["1"], parts["2"], parts["3"].astype(np.uint64))
    return marks


class Places:
    """The places of keys among others, found ten times as fast by sorted marks of 64 bits.

    Parameters
    ----------
    keys : numpy.ndarray
        The others.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys, marks = keys, _marks(keys)
        self._order = np.argsort(marks, kind="stable")
        self._sorted = marks[self._order]

    def of(self, wanted: ArrayLike) -> Rows:
        """The last place of every key, -1 where there is none."""
        keys = np.asarray(wanted, dtype=np.bytes_)
        if not len(self._keys):
            return np.full(keys.shape, -1)
        marks = _marks(keys)
        by_mark = np.argsort(marks)
        at = np.empty(len(keys), dtype=np.int64)
        at[by_mark] = self._sorted.searchsorted(marks[by_mark], "right") - 1
        places: Rows = self._order[at]
        differs = self._keys[places] != keys
        for number in np.flatnonzero(differs & (self._sorted[at] == marks)).tolist():
            places[number] = self._searched(keys[number])
            differs[number] = False
        places[differs] = -1
        return places

    def of_one(self, key: bytes) -> int:
        """The last place of a key, -1 if there is none."""
        mark = _mark_of(key)
        at = int(self._sorted.searchsorted(mark, "right")) - 1
        if at < 0 or self._sorted[at] != mark:
            return -1
        place = int(self._order[at])
        return place if self._keys[place] == key else self._searched(key)

    def _searched(self, key: bytes) -> int:
        """The place of a key whose mark is also that of another."""
        return int(max(np.flatnonzero(self._keys == key), default=-1))


def texts(keys: Keys) -> list[str]:
    """The keys as texts."""
    ids: list[str] = keys.astype(np.str_).tolist()
    return ids


def numbered(keys: ArrayLike) -> Rows:
    """The number of every key, by the order in which they come first."""
    _, first, number = np.unique(np.asarray(keys), return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[number]


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
            longer = np.empty(1024 + self._count + self._count // 4, KEY)
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
        self._found: Rows = np.empty(0, np.int64)

    def noted(self, key: bytes) -> None:
        """Note the key that was added last."""
        self._unsorted[key] = len(self._column) - 1
        self._asked = ()
        if len(self._unsorted) > _MOST_UNSORTED:
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
