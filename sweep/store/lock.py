"""One run at a time in a store.

By a lease on every kind of storage, never by ``flock``: on one cluster some nodes may mount a disk
with locks, some without and some with locks of their own, and they would not see each other.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweep.store import lease
from sweep.store.file_lease import FileLease
from sweep.store.holder import BEAT_SECONDS
from sweep.store.lease import Check, Lease
from sweep.store.location import Location
from sweep.store.object_lease import ObjectLease


@contextmanager
def held(folder: Location, beat_seconds: float = BEAT_SECONDS) -> Iterator[Check]:
    """Lock a folder against every other run.

    Parameters
    ----------
    folder : Path or ObjectPath
        The folder to lock.
    beat_seconds : float
        Seconds between two signs of life.

    Yields
    ------
    callable
        Raises StoreError if another run has taken over the lock. To be called before
        something is written.

    Raises
    ------
    StoreError
        If another run holds the lock.
    OSError
        If the lock cannot be written.
    """
    with lease.kept(folder, _lease(folder), beat_seconds) as check:
        yield check


def user(folder: Location) -> str | None:
    """The process that holds the lock of a folder, in words; None if there is none."""
    return _lease(folder).user()


def _lease(folder: Location) -> Lease:
    return FileLease(folder) if isinstance(folder, Path) else ObjectLease(folder)
