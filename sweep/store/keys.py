"""Arrays of the keys that identify cells, solves and problems.

A key takes 20 bytes in an array; as a `str` it would take about 90.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Keys = NDArray[np.bytes_]
Column = NDArray[Any]
"""An array of values of any type, one for each row or cell."""
Rows = NDArray[np.int32]
"""An array of positions, such as row numbers of the ledger or numbers of cells."""

KEY = np.dtype("S20")
"""The data type of arrays of keys; `sweep.experiment.canonical.digest` returns a key as text."""


class KeyIndex:
    """Finds the positions of keys in an array."""

    def __init__(self, keys: Keys) -> None:
        self._keys, self._order = keys, np.argsort(keys, kind="stable").astype(np.int32)

    @property
    def last(self) -> Rows:
        """For every position in the array, the last position with the same key."""
        # the sort is stable, so each run of equal keys ends with the key's last position
        ascending = self._keys[self._order]
        ends = np.flatnonzero(np.append(ascending[1:] != ascending[:-1], True))
        last = np.empty_like(self._order)
        last[self._order] = np.repeat(self._order[ends], np.diff(ends, prepend=-1))
        return last

    def positions(self, wanted: ArrayLike) -> Rows:
        """Return every wanted key's last position in the array; -1 if the key is not there."""
        keys = np.asarray(wanted, dtype=np.bytes_)
        positions = np.full(len(keys), -1, dtype=np.int32)
        # searchsorted is several times as fast on sorted values
        ascending = np.argsort(keys, kind="stable")
        after = self._keys.searchsorted(keys[ascending], "right", sorter=self._order)
        ascending, after = ascending[after > 0], after[after > 0]
        # the last key that is not above the wanted one; it is the wanted one if that is there
        candidates = self._order[after - 1]
        equal = self._keys[candidates] == keys[ascending]
        positions[ascending[equal]] = candidates[equal]
        return positions


def to_texts(keys: Keys) -> list[str]:
    """Return the keys as strings."""
    ids: list[str] = keys.astype(np.str_).tolist()
    return ids


def number_keys(keys: ArrayLike) -> Rows:
    """Number the distinct keys from 0 in order of first appearance; return every key's number."""
    # np.unique numbers the keys in ascending order; `rank` maps that to the order of appearance
    _, first, number = np.unique(np.asarray(keys), return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int32)
    rank[np.argsort(first)] = np.arange(len(first))
    numbers: Rows = rank[number]
    return numbers
