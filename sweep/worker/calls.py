"""Calls as bytes, which the scheduler passes on without deserialising them."""

import zlib
from collections.abc import Callable
from typing import Any

from distributed import protocol

_pickle: Any = protocol.pickle


def serialised(function: Callable[..., Any], *args: Any) -> bytes:
    """A call of a function, to be `run` on a worker."""
    return zlib.compress(_pickle.dumps((function, args)), level=1)


def run(parcel: bytes) -> Any:
    """What the call returns."""
    function, args = _pickle.loads(zlib.decompress(parcel))
    return function(*args)
