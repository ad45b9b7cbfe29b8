"""One run at a time in a store: by flock, or by a lease where the file system refuses flock.

The kernel releases a flock when its holder ends, however it ends. NFS, Lustre and some others may
refuse it; there the lock is a lease, a file that only one process can create. Its holder touches
it again and again. Another run that finds it untouched for long, or created by a process of this
machine that has ended, takes it over.
"""

import errno
import fcntl
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from sweep.store import holder
from sweep.store.holder import BEAT_SECONDS, STALE_SECONDS, Holder, in_use, ourselves, taken_over

LOCK, LEASE = "lock", "lease"
_PATIENCE = 0.5
_ATTEMPTS = 5
_REFUSALS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS}

_log = logging.getLogger(__name__)


Check = Callable[[], None]


class _RefusedError(Exception):
    """The file system refuses flock; the message is its reason."""


@contextmanager
def held(folder: Path, beat_seconds: float = BEAT_SECONDS) -> Iterator[Check]:
    """Lock a folder against every other run.

    Parameters
    ----------
    folder : Path
        The folder to lock.
    beat_seconds : float
        Seconds between two touches of a lease, if the file system refuses flock.

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
    with (folder / LOCK).open("a+", encoding="utf-8") as stream:
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
            with _leased(folder, beat_seconds) as check:
                yield check
            return
        if not free:
            stream.seek(0)
            raise in_use(folder, stream.read().strip())
        other = _living(folder / LEASE)
        if other is not None:
            raise in_use(folder, other)
        stream.truncate(0)
        stream.write(str(ourselves()))
        stream.flush()
        yield _no_check


def user(folder: Path) -> str | None:
    """The process that holds the lock of a folder, in words; None if there is none."""
    path = folder / LOCK
    if not path.exists():
        return None
    with path.open(encoding="utf-8") as stream:
        with suppress(_RefusedError):
            if not _try_flock(stream, fcntl.LOCK_SH, 0.0):
                return stream.read().strip() or "another run"
        return _living(folder / LEASE)


def _try_flock(stream: IO[str], kind: int, patience: float) -> bool:
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


@contextmanager
def _leased(folder: Path, beat_seconds: float) -> Iterator[Check]:
    lease, own = folder / LEASE, ourselves()
    _take(lease, own)
    ended, lost = threading.Event(), threading.Event()
    beat = threading.Thread(target=_keep, args=(lease, own, beat_seconds, ended, lost), daemon=True)
    beat.start()

    def check() -> None:
        if lost.is_set():
            raise taken_over(folder, _living(lease))

    try:
        yield check
    finally:
        ended.set()
        beat.join()
        if _read(lease) == own:
            lease.unlink(missing_ok=True)


def _take(lease: Path, own: Holder) -> None:
    for _ in range(_ATTEMPTS):
        try:
            with lease.open("x", encoding="utf-8") as stream:
                stream.write(own.text)
                stream.flush()
                os.fsync(stream.fileno())
            return
        except FileExistsError:
            found = _read(lease)
            other = _living(lease)
            if other is not None:
                raise in_use(lease.parent, other) from None
            _set_aside(lease, found)
    raise in_use(lease.parent, "other runs that are just starting")


def _set_aside(lease: Path, stale: Holder | None) -> None:
    """Remove a stale lease, but not one that another process has put in its place meanwhile."""
    aside = lease.with_name(f".{LEASE}-{uuid.uuid4().hex}.partial")
    try:
        lease.rename(aside)
    except FileNotFoundError:
        return
    if _read(aside) != stale:
        with suppress(FileExistsError):
            os.link(aside, lease)
    aside.unlink(missing_ok=True)


def _keep(
    lease: Path,
    own: Holder,
    beat_seconds: float,
    ended: threading.Event,
    lost: threading.Event,
) -> None:
    """Touch the lease until the run ends, or until another process has it."""
    while not ended.wait(beat_seconds):
        with suppress(OSError):
            if _read(lease) == own:
                os.utime(lease)
            elif lease.exists():
                lost.set()
                return


def _living(lease: Path) -> str | None:
    """The living holder of a lease, in words; None if there is no lease or no living holder."""
    try:
        touched = lease.stat().st_mtime
    except FileNotFoundError:
        return None
    found, silent_s = _read(lease), _now(lease.parent) - touched
    if found is None:
        return "another run" if silent_s < STALE_SECONDS else None
    return str(found) if found.is_alive(silent_s) else None


def _read(lease: Path) -> Holder | None:
    try:
        return holder.read(lease.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _now(folder: Path) -> float:
    """The current time by the file system's clock, which may be that of a server."""
    probe = folder / f".{LEASE}-{uuid.uuid4().hex}.partial"
    try:
        probe.touch()
        return probe.stat().st_mtime
    except OSError:
        return time.time()
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)
