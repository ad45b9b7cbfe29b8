"""The records that count, by the cell or the solve that they are of."""

from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from sweep.store.columns import Columns
from sweep.store.keys import Places, Rows, texts
from sweep.store.records import CellRecord


class Records(Mapping[str, CellRecord]):
    """Records by the cell or the solve that they are of, each made when it is asked for.

    Parameters
    ----------
    columns : Columns
        The records.
    name : str
        The column of the keys.
    rows : numpy.ndarray
        Those that count; of several of one key the last.

    """

    def __init__(self, columns: Columns, name: str, rows: Rows) -> None:
        self._columns, self._rows = columns, rows
        self._held = columns.keys(name)[rows]

    @cached_property
    def _places(self) -> Places:
        return Places(self._held)

    def rows(self, keys: ArrayLike) -> Rows:
        """The row of every key, -1 where there is none."""
        at = self._places.of(keys)
        return np.where(at < 0, -1, self._rows[at]) if len(self._rows) else at

    def __getitem__(self, key: str) -> CellRecord:
        (row,) = self.rows([key.encode()])
        if row < 0:
            raise KeyError(key)
        return self._columns.record(int(row))

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(texts(self._held)))

    def __len__(self) -> int:
        return len(np.unique(self._held))
