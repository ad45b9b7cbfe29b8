"""Keys of cells, solves and problems in columns: twenty bytes each, where a text takes ninety."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Keys = NDArray[np.bytes_]
Rows = NDArray[np.int64]
"""Numbers of rows; -1 where there is none."""

KEY = np.dtype("S20")
"""What `sweep.experiment.canonical.digest` makes."""

_MOST_UNSORTED = 2**16


def places(keys: Keys, wanted: ArrayLike, order: Rows | None = None) -> Rows:
    """The last place of every wanted key among the keys, -1 where there is none.

    Parameters
    ----------
    keys : numpy.ndarray
        The keys.
    wanted : array-like of bytes
        Those to find.
    order : numpy.ndarray, optional
        What sorts the keys, equal ones as they come, if that is known.
    """
    looked_for = np.asarray(wanted, dtype=np.bytes_)
    if not len(keys):
        return np.full(looked_for.shape, -1)
    sorter = np.argsort(keys, kind="stable") if order is None else order
    found: Rows = sorter[np.searchsorted(keys, looked_for, side="right", sorter=sorter) - 1]
    return np.where(keys[found] == looked_for, found, -1)


def texts(keys: Keys) -> list[str]:
    """The keys as texts."""
    found: list[str] = keys.astype(np.str_).tolist()
    return found


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
        self._order = np.argsort(column.values, kind="stable")
        self._unsorted: dict[bytes, int] = {}
        self._asked: ArrayLike = ()
        self._found: Rows = np.empty(0, np.int64)

    def noted(self, key: bytes) -> None:
        """Take in the key that was added last."""
        self._unsorted[key] = len(self._column) - 1
        self._asked = ()
        if len(self._unsorted) > _MOST_UNSORTED:
            self._sort()

    def row(self, key: bytes) -> int:
        """The last row of a key, -1 if there is none."""
        if key in self._unsorted:
            return self._unsorted[key]
        order = self._order
        keys = self._column.values[: len(order)]
        at = int(keys.searchsorted(key, "right", order)) - 1
        return int(order[at]) if at >= 0 and keys[order[at]] == key else -1

    def rows(self, keys: ArrayLike) -> Rows:
        """The last row of every key, -1 where there is none; the same keys are asked for often."""
        if self._unsorted:
            self._sort()
        if keys is not self._asked:
            self._found = places(self._column.values, keys, self._order)
            self._asked = keys
        return self._found

    def _sort(self) -> None:
        self._order = np.argsort(self._column.values, kind="stable")
        self._unsorted.clear()
