"""Neighbouring databases: the pairs that a mechanism must make indistinguishable.

- ``add-remove``: one record is added or removed, so the histogram x changes by 1 in one domain
  cell. The papers use this relation.
- ``replace-one``: one record changes its value, that is, moves from a domain cell j to another cell
  i, so x changes by the difference e_i - e_j of unit vectors. The number of records is then public.
  A record may move between any two cells, within blocks of consecutive cells (for instance the
  cells of one state), or between the two cells of listed pairs.

Two domain cells between which a record may move are called neighbouring cells.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from numbers import Integral

import numpy as np
import scipy
from numpy.typing import NDArray

from solvers.errors import OptionError
from workloads.operators import Array

Pairs = NDArray[np.intp]
"""Indices of two domain cells in each row, shape (number of pairs, 2)."""

_EXPECTED = (
    "expected 'add-remove', 'replace-one', {within: SIZES} (blocks of consecutive cells that "
    "records stay in: one size for all, or a list) or {pairs: [[i, j], ...]} (cells counted from 0)"
)
_CHUNK_ENTRIES = 2**22
"""Entries of distances or differences that are computed at a time: 32 MB."""


@dataclass(frozen=True)
class Neighbours:
    """The relation that determines which pairs of databases are neighbours.

    Attributes
    ----------
    relation : {"add-remove", "replace-one"}
        Whether neighbours differ by adding or removing one record, or by replacing one.
    within : tuple of int, optional
        Sizes of the blocks of consecutive cells within which a record may move. A single size
        applies to all blocks.
    pairs : tuple of tuple of int, optional
        The pairs of cells between which a record may move; default: any two cells of a block.
    """

    relation: str
    within: tuple[int, ...] | None = None
    pairs: tuple[tuple[int, int], ...] | None = None

    @cached_property
    def add_remove(self) -> bool:
        """Whether the relation is ``"add-remove"``."""
        return self.relation == "add-remove"

    @cached_property
    def title(self) -> str:
        """The relation in words, for messages and for the labels of results."""
        if self.within is not None:
            one_size = len(set(self.within)) == 1
            sizes = str(self.within[0]) if one_size else ", ".join(map(str, self.within))
            return f"{self.relation} within blocks of {sizes}"
        if self.pairs is not None:
            return f"{self.relation} between {len(self.pairs)} pairs of cells"
        return self.relation

    def content(self) -> str | dict[str, list[int]] | dict[str, list[list[int]]]:
        """Return the relation as JSON-compatible data, from which `as_neighbours` restores it."""
        if self.within is not None:
            return {"within": list(self.within)}
        if self.pairs is not None:
            return {"pairs": [list(pair) for pair in self.pairs]}
        return self.relation

    def check(self, d: int) -> None:
        """Raise OptionError if the blocks or pairs do not fit a domain of d cells."""
        outside = [list(pair) for pair in self.pairs or () if max(pair) >= d]
        if outside:
            said = f"pair {outside[0]} on {d} cells; expected cells from 0 to {d - 1}"
        elif self.within is not None and sum(self.sizes(d)) != d:
            cells = f"of {d} cells" if len(self.within) > 1 else f"that divide {d}"
            said = f"within {list(self.within)} on {d} cells; expected sizes {cells}"
        else:
            return
        raise OptionError(f"neighbours: {said}", "neighbours")

    def sizes(self, d: int) -> tuple[int, ...]:
        """Return the sizes of the blocks of d cells; any two cells of a block are neighbouring."""
        sizes = self.within or (d,)
        return sizes * (d // sizes[0]) if len(sizes) == 1 else sizes

    def blocks(self, d: int) -> list[slice]:
        """Return the blocks as slices of the d cells."""
        sizes = self.sizes(d)
        ends = accumulate(sizes)
        return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]

    def count(self, d: int) -> int:
        """Return the number of pairs of neighbouring cells."""
        if self.pairs is not None:
            return len(self.pairs)
        return sum(size * (size - 1) // 2 for size in self.sizes(d))

    def all_pairs(self, d: int) -> Pairs:
        """Return every pair of neighbouring cells, listed once."""
        if self.pairs is not None:
            return np.array(self.pairs, dtype=np.intp)
        indices = [
            block.start + np.column_stack(np.triu_indices(block.stop - block.start, 1))
            for block in self.blocks(d)
        ]
        return np.asarray(np.concatenate(indices), dtype=np.intp)

    def components(self, d: int) -> NDArray[np.intp]:
        """Return a label for every cell, shape (d,); cells connected by moves have equal labels."""
        if self.pairs is None:
            sizes = self.sizes(d)
            return np.repeat(np.arange(len(sizes)), sizes)
        first, second = self.all_pairs(d).T
        graph = scipy.sparse.coo_array((np.ones(len(first)), (first, second)), shape=(d, d))
        return np.asarray(
            scipy.sparse.csgraph.connected_components(graph, directed=False)[1], dtype=np.intp
        )

    def partners(self, strategy: Array) -> tuple[Array, NDArray[np.intp]]:
        """For each cell, find the neighbouring cell whose strategy column is farthest away.

        Parameters
        ----------
        strategy : numpy.ndarray, shape (k, d)
            The strategy B, with columns b_i.

        Returns
        -------
        tuple of numpy.ndarray
            For every cell i, the largest squared distance ``‖b_i - b_j‖²`` to a neighbouring cell
            j; and the index of this cell j. Both have shape (d,). A cell without neighbouring cells
            has distance 0 and its own index.
        """
        d = strategy.shape[1]
        distance, partner = np.zeros(d), np.arange(d)
        if self.pairs is None:
            for block in self.blocks(d):
                distance[block], nearest = _farthest(strategy[:, block])
                partner[block] = block.start + nearest
            return distance, partner
        apart = [np.square(part).sum(axis=0) for part in self.differences(strategy)]
        both = np.concatenate([*apart, *apart])
        order, pairs = np.argsort(both, kind="stable"), self.all_pairs(d)
        cells, others = np.concatenate([pairs, pairs[:, ::-1]])[order].T
        # the last value assigned to a cell remains, which is the largest
        distance[cells], partner[cells] = both[order], others
        return distance, partner

    def farthest_pairs(self, strategy: Array, least: float, most: int) -> Pairs:
        """Find the pairs of cells in the same block whose strategy columns are farthest apart.

        The result is empty if the relation lists its pairs.

        Parameters
        ----------
        least : float
            Only pairs of cells with a larger squared distance are returned.
        most : int
            Largest number of pairs to return.
        """
        pairs, apart = [np.zeros((0, 2), dtype=np.intp)], [np.zeros(0)]
        blocks = [] if self.pairs is not None else self.blocks(strategy.shape[1])
        for block in blocks:
            for rows, distances in _distances(strategy[:, block]):
                first, second = np.nonzero(np.triu(distances, rows + 1) > least)
                pairs.append(block.start + np.column_stack([first + rows, second]))
                apart.append(distances[first, second])
        far = np.concatenate(apart)
        order = np.argsort(-far, kind="stable")[:most]
        return np.asarray(np.concatenate(pairs)[order], dtype=np.intp)

    def differences(self, matrix: Array) -> Iterator[Array]:
        """Yield the column differences w_i - w_j of all pairs, in chunks of shape (m, pairs)."""
        pairs, width = self.all_pairs(matrix.shape[1]), max(_CHUNK_ENTRIES // len(matrix), 1)
        for start in range(0, len(pairs), width):
            first, second = pairs[start : start + width].T
            yield matrix[:, first] - matrix[:, second]


ADD_REMOVE = Neighbours("add-remove")
REPLACE_ONE = Neighbours("replace-one")


Written = str | Mapping[str, object] | Neighbours
"""A relation as written in an experiment or passed to a function."""


def as_neighbours(written: object) -> Neighbours:
    """Convert the written form of a relation to `Neighbours`.

    Parameters
    ----------
    written : str, Mapping or Neighbours
        ``"add-remove"``, ``"replace-one"``, ``{"within": 16}``, ``{"within": [8, 8, 16]}`` or
        ``{"pairs": [[0, 1], [1, 2]]}``.

    Raises
    ------
    OptionError
        If ``written`` has none of these forms.
    """
    if isinstance(written, Neighbours):
        return written
    for known in (ADD_REMOVE, REPLACE_ONE):
        if written == known.relation:
            return known
    if isinstance(written, Mapping) and set(written) == {"within"}:
        sizes = written["within"]
        listed = list(sizes) if isinstance(sizes, Sequence | np.ndarray) else [sizes]
        if listed and all(_is_count(size, 1) for size in listed):
            return Neighbours("replace-one", within=tuple(int(size) for size in listed))
    if isinstance(written, Mapping) and set(written) == {"pairs"}:
        pairs = written["pairs"]
        if isinstance(pairs, Sequence | np.ndarray) and len(pairs) and all(map(_is_pair, pairs)):
            ordered = {(int(min(pair)), int(max(pair))) for pair in pairs}
            return Neighbours("replace-one", pairs=tuple(sorted(ordered)))
    raise OptionError(f"neighbours: {written!r}; {_EXPECTED}", "neighbours")


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def _is_pair(pair: object) -> bool:
    if not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
        return False
    return all(_is_count(cell, 0) for cell in pair) and bool(pair[0] != pair[1])


def _farthest(columns: Array) -> tuple[Array, NDArray[np.intp]]:
    """For each column, the squared distance of the farthest other column, and its index."""
    n = columns.shape[1]
    distance, partner = np.zeros(n), np.zeros(n, dtype=np.intp)
    for start, apart in _distances(columns):
        here = slice(start, start + len(apart))
        partner[here] = apart.argmax(axis=1)
        rest = columns[:, here] - columns[:, partner[here]]
        distance[here] = np.square(rest).sum(axis=0)
    return distance, partner


def _distances(columns: Array) -> Iterator[tuple[int, Array]]:
    """Yield the matrix of squared distances between columns in chunks of rows.

    Each item is the index of the chunk's first row, and the rows of the chunk.
    """
    centred = columns - columns.mean(axis=1, keepdims=True)
    norms = np.square(centred).sum(axis=0)
    width = max(_CHUNK_ENTRIES // len(norms), 1)
    for start in range(0, len(norms), width):
        here = slice(start, start + width)
        yield start, norms[here, None] + norms - 2 * centred[:, here].T @ centred
