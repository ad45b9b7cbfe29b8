"""A lease: only one process can create it, and renews it as a sign of life.

Another run that finds it silent for long, or left by a process of this machine that has ended,
takes it over.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from sweep.store.holder import STALE_SECONDS, Holder, ourselves, taken_over
from sweep.store.location import Location

LEASE = "lease"

_JOIN_SECONDS = 10.0
"""For the last sign of life, on a disk or a network that may not answer any more."""

Check = Callable[[], None]


class Lease(Protocol):
    """A lease on a store, on a disk or in an object store."""

    def take(self, own: Holder) -> None:
        """Create it, or replace one whose holder is dead; raises StoreError if it lives."""

    def renew(self, own: Holder) -> bool:
        """Give a sign of life; false if another process has it now, an error if nobody has."""
        ...

    def give_back(self, own: Holder) -> None:
        """Remove it, unless another process has it now."""

    def user(self) -> str | None:
        """Its living holder, in words; None if there is none."""
        ...


@contextmanager
def kept(folder: Location, lease: Lease, beat_seconds: float) -> Iterator[Check]:
    """Hold a lease on a folder, renewed at intervals.

    Yields
    ------
    callable
        Raises a StoreError once another run has taken it over.

    Raises
    ------
    StoreError
        If another run holds it.
    OSError
        If it cannot be written.
    """
    own = ourselves(folder)
    lease.take(own)
    ended, lost = threading.Event(), threading.Event()

    def keep() -> None:
        seen = _now()
        while not lost.is_set() and not ended.wait(beat_seconds):
            try:
                ours = lease.renew(own)
            except FileNotFoundError:  # removed by hand; or taken over during a long silence
                ours = _now() - seen < STALE_SECONDS
            except OSError:
                continue
            if ours:
                seen = _now()
            else:
                lost.set()

    beat = threading.Thread(target=keep, daemon=True)
    beat.start()

    def check() -> None:
        if lost.is_set():
            raise taken_over(folder, lease.user())

    try:
        yield check
    finally:
        ended.set()
        beat.join(_JOIN_SECONDS)
        lease.give_back(own)


def _now() -> float:
    """Seconds by a clock that also counts while the machine is suspended, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def living(holder: Holder | None, silent_s: float, *, copied: bool = False) -> str | None:
    """The living holder of a lease in words; None if it is dead. The lease may be unreadable.

    A process that is seen to run may be silent, since it may have been stopped. Not so if the
    lease is a copy, which came here with a copy of the store: that has no signs of life.
    """
    if holder is None:
        return "another run" if silent_s < STALE_SECONDS else None
    runs = holder.runs()
    if runs and not copied:
        return str(holder)
    if runs is False or silent_s >= STALE_SECONDS:
        return None
    return (
        f"{holder} (silent for {max(silent_s, 0.0):.0f} s; its lease ends at {STALE_SECONDS:.0f} s)"
    )
