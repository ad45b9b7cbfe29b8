"""Calls as bytes: the scheduler passes them on without making objects of what is in them."""

import zlib
from collections.abc import Callable
from typing import Any

from distributed.protocol import pickle


def packed(function: Callable[..., Any], *about: Any) -> bytes:
    """A call of a function, to be `opened` on a worker."""
    content = pickle.dumps((function, about))  # type: ignore[no-untyped-call]
    return zlib.compress(content, level=1)


def opened(parcel: bytes) -> Any:
    """What the call returns."""
    content = zlib.decompress(parcel)
    function, about = pickle.loads(content)  # type: ignore[no-untyped-call]
    return function(*about)
