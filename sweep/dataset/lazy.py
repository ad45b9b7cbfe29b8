"""Arrays that are made when they are asked for, so that a dataset is never in memory as a whole."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from xarray.backends import BackendArray
from xarray.core.indexing import (
    ExplicitIndexer,
    IndexingSupport,
    LazilyIndexedArray,
    explicit_indexing_adapter,
)


class _LazyArray(BackendArray):
    def __init__(
        self, shape: tuple[int, ...], dtype: DTypeLike, make: Callable[[], NDArray[Any]]
    ) -> None:
        self.shape, self.dtype, self._make = shape, np.dtype(dtype), make

    def __getitem__(self, key: ExplicitIndexer) -> Any:
        return explicit_indexing_adapter(key, self.shape, IndexingSupport.BASIC, self._part)

    def _part(self, key: tuple[Any, ...]) -> NDArray[Any]:
        part: NDArray[Any] = np.asarray(self._make()[key], dtype=self.dtype)
        return part


def array(shape: tuple[int, ...], dtype: DTypeLike, make: Callable[[], NDArray[Any]]) -> Any:
    """What xarray takes for an array of that shape and type, made anew whenever it is read."""
    return LazilyIndexedArray(_LazyArray(shape, dtype, make))
