"""Arrays of the keys of cells, solves and problems; a key takes 20 bytes, a `str` about 90."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Keys = NDArray[np.bytes_]
Rows = NDArray[np.int32]
"""Positions in an array, such as the rows of a ledger or the numbers of cells."""

KEY = np.dtype("S20")
"""The array type of a key, which `sweep.experiment.canonical.digest` returns as text."""
_SPLIT = np.dtype([("beginning", ">u8"), ("rest", "V12")])


def _beginnings(keys: Keys) -> NDArray[np.uint64]:
    """The first eight bytes of every key, as a number."""
    return np.ascontiguousarray(keys, KEY).view(_SPLIT)["beginning"].astype(np.uint64)


class KeyIndex:
    """Finds the positions of keys in an array.

    Keys are searched by their first eight bytes as numbers, which is several times as fast as
    searching the keys themselves.

    Parameters
    ----------
    keys : numpy.ndarray
        The array to search.
    among : numpy.ndarray, optional
        The positions to search; by default all.

    Attributes
    ----------
    order : numpy.ndarray
        The positions that are searched, sorted by the first eight bytes of their keys.
    """

    def __init__(self, keys: Keys, among: Rows | None = None) -> None:
        among = np.arange(len(keys), dtype=np.int32) if among is None else among
        beginnings = _beginnings(keys[among])
        order = np.argsort(beginnings, kind="stable")
        self._keys, self.order, self._sorted = keys, among[order], beginnings[order]

    @property
    def last(self) -> Rows:
        """For every position in the array, the last position of the same key.

        Correct only if all positions are searched.
        """
        same = (
            np.diff(self._sorted, prepend=self._sorted[:1] + 1, append=self._sorted[-1:] + 1) == 0
        )
        shared = self.order[same[1:] | same[:-1]]
        last = np.arange(len(self._keys), dtype=np.int32)
        last[shared] = self.positions(self._keys[shared])
        return last

    def positions(self, wanted: ArrayLike) -> Rows:
        """The last position of every wanted key; -1 for keys that the array does not have."""
        keys = np.asarray(wanted, dtype=np.bytes_)
        positions = np.full(len(keys), -1, dtype=np.int32)
        beginnings = _beginnings(keys)
        remaining = np.argsort(beginnings)  # searchsorted is several times as fast on sorted values
        at = self._sorted.searchsorted(beginnings[remaining], "right") - 1
        while len(remaining):
            remaining, at = remaining[at >= 0], at[at >= 0]
            same = self._sorted[at] == beginnings[remaining]
            remaining, at = remaining[same], at[same]
            here = self.order[at]
            found = self._keys[here] == keys[remaining]
            positions[remaining[found]] = here[found]
            # keys with the same beginning are adjacent
            remaining, at = remaining[~found], at[~found] - 1
        return positions


def texts(keys: Keys) -> list[str]:
    """The keys as strings."""
    ids: list[str] = keys.astype(np.str_).tolist()
    return ids


def numbered(keys: ArrayLike) -> Rows:
    """The number of every key: distinct keys are numbered from 0 in order of first appearance."""
    _, first, number = np.unique(np.asarray(keys), return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int32)
    rank[np.argsort(first)] = np.arange(len(first))
    numbers: Rows = rank[number]
    return numbers
