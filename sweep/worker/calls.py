"""Calls as bytes that any Python can read, so that one that cannot make the call says why.

Dask ends a worker that cannot import the function of a task, for instance one without this project.
"""

import pickle
import zlib
from collections.abc import Callable
from typing import Any

from distributed import protocol

_dumps: Any = protocol.pickle.dumps


class _Call:
    """Unpickled, it is what the call returns."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self._call = function, args

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._call


def serialised(function: Callable[..., Any], *args: Any) -> bytes:
    """A call of a function, which `pickle.loads` makes.

    An error of the function is returned; one that is raised says why the call cannot be made.
    """
    packed = zlib.compress(_dumps(_Call(_result, function, args)), level=1)
    return pickle.dumps(_Call(pickle.loads, _Call(zlib.decompress, packed)))


def _result(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return error
