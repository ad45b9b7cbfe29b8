"""Workloads that the command itself makes, to check and to plan them.

A function of the user's is interrupted here once it has taken too long. Workers make it, too, where
a time limit ends it from outside.
"""

import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import workloads
from sweep.grid.specs import WorkloadSpec
from workloads import QueryGraph, Workload

_LONGEST_CALL_SECONDS = 20.0


class _InterruptedError(BaseException):
    """No `Exception`, since functions catch these."""


def made(spec: WorkloadSpec) -> Workload | QueryGraph | None:
    """The workload of a specification; None if a function of the user's takes too long.

    Raises
    ------
    WorkloadError
        If it cannot be made.

    Warns
    -----
    UserWarning
        If it takes too long.
    """
    if not workloads.families()[spec.name].runs_code:
        return workloads.make(spec.name, **spec.params)
    try:
        with _interrupted_after(_LONGEST_CALL_SECONDS):
            return workloads.make(spec.name, **spec.params)
    except _InterruptedError:
        warnings.warn(
            f"workload {spec.name!r} with {spec.params} was not made within "
            f"{_LONGEST_CALL_SECONDS:g} s: it is neither checked nor estimated before it runs",
            stacklevel=2,
        )
        return None


@contextmanager
def _interrupted_after(seconds: float) -> Iterator[None]:
    """Interrupt the block after that time, in the main thread and unless C code runs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise _InterruptedError

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before or signal.SIG_DFL)
