"""One run at a time in a store: by flock, or by a lease where there is no flock.

The kernel releases a flock when its holder ends, however it ends. NFS, Lustre and some others may
refuse it, and object stores do not have it.
"""

import errno
import fcntl
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from sweep.store import disk, lease
from sweep.store.file_lease import FileLease
from sweep.store.holder import BEAT_SECONDS, in_use, ourselves
from sweep.store.lease import Check
from sweep.store.location import Location
from sweep.store.object_lease import ObjectLease

_LOCK = "lock"
_PATIENCE = 0.5
_REFUSALS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS}

_log = logging.getLogger(__name__)


class _RefusedError(Exception):
    """The file system refuses flock; the message is its reason."""


@contextmanager
def held(folder: Location, beat_seconds: float = BEAT_SECONDS) -> Iterator[Check]:
    """Lock a folder against every other run.

    Parameters
    ----------
    folder : Path or ObjectPath
        The folder to lock.
    beat_seconds : float
        Seconds between two signs of life, where it takes a lease.

    Yields
    ------
    callable
        Raises a StoreError if another driver has taken the lock over meanwhile; a lease can be,
        a flock cannot. To be called before something is written.

    Raises
    ------
    StoreError
        If another run holds the lock.
    OSError
        If neither kind of lock can be written.
    """
    if not isinstance(folder, Path):
        with lease.kept(folder, ObjectLease(folder), beat_seconds) as check:
            yield check
        return
    with (folder / _LOCK).open("a+", encoding="utf-8") as stream:
        try:
            free = _try_flock(stream, fcntl.LOCK_EX, _PATIENCE)
        except _RefusedError as refused:
            _log.warning(
                "store %r: the file system refuses flock (%s); a lease, touched every %d s, "
                "keeps other runs out instead",
                str(folder),
                refused,
                beat_seconds,
            )
            with lease.kept(folder, FileLease(folder), beat_seconds) as check:
                yield check
            return
        if not free:
            stream.seek(0)
            raise in_use(folder, stream.read().strip())
        other = FileLease(folder).user()
        if other is not None:
            raise in_use(folder, other)
        stream.truncate(0)
        stream.write(str(ourselves()))
        stream.flush()
        yield _no_check


def user(folder: Location) -> str | None:
    """The process that holds the lock of a folder, in words; None if there is none."""
    if not isinstance(folder, Path):
        return ObjectLease(folder).user()
    path = folder / _LOCK
    if not path.exists():
        return None
    with disk.opened(path) as stream:
        with suppress(_RefusedError):
            if not _try_flock(stream, fcntl.LOCK_SH, 0.0):
                return stream.read().decode(errors="replace").strip() or "another run"
        return FileLease(folder).user()


def _try_flock(stream: IO[Any], kind: int, patience: float) -> bool:
    until = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(stream, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.05)
        except OSError as error:
            if error.errno in _REFUSALS:
                raise _RefusedError(error.strerror or error) from error
            raise
        else:
            return True


def _no_check() -> None:
    """A flock stays ours until it is given back."""
