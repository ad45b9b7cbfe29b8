"""The cost of one solve: clocks and memory measured around a call."""

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

_RESET = "/proc/self/clear_refs"
_STATUS = "/proc/self/status"


@dataclass(frozen=True)
class Cost:
    """Time and memory that a call took.

    Attributes
    ----------
    runtime_s, cpu_s : float
        Wall-clock seconds, and processor seconds of all threads of the process.
    peak_memory_bytes : int, optional
        The highest resident memory of the process during the call, less that before it.
        Linux keeps this high-water mark, so that reading it costs next to nothing, unlike
        ``tracemalloc``. Free memory is returned to the kernel first, so that using it counts;
        memory that cannot be returned does not count, so small calls show 0. None where the
        kernel keeps no such mark.
    """

    runtime_s: float
    cpu_s: float
    peak_memory_bytes: int | None


def measured(call: Callable[[], Any]) -> tuple[Any, Cost]:
    """The result of a call, and its cost."""
    _return_free_memory()
    before = _reset_peak()
    cpu, wall = time.process_time(), time.perf_counter()
    result = call()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = None if before is None else max(_status(b"VmHWM:") - before, 0)
    return result, Cost(wall, cpu, peak)


@cache
def _trimmer() -> Callable[[int], Any] | None:
    """The ``malloc_trim`` of glibc; None with another C library."""
    try:
        trim: Callable[[int], Any] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return trim


def _return_free_memory() -> None:
    """Return free memory to the kernel."""
    trim = _trimmer()
    if trim is not None:
        trim(0)


def _reset_peak() -> int | None:
    """Reset the high-water mark to the resident bytes now, and return these."""
    try:
        with open(_RESET, "wb", buffering=0) as marks:
            marks.write(b"5")
    except OSError:
        return None
    return _status(b"VmRSS:")


def _status(entry: bytes) -> int:
    """An entry of the process's status, in bytes; unbuffered, since trivial cells wait for it."""
    with open(_STATUS, "rb", buffering=0) as stream:
        return int(stream.readall().partition(entry)[2].split(None, 1)[0]) * 1024
