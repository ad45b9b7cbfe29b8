"""One driver at a time in a store: by flock, and by a lease where the file system refuses that.

The kernel gives a flock back when its holder ends, however it ends. NFS, Lustre and some others
may refuse it; there a file that only one can create is the lock. Its holder touches it again
and again; who finds it untouched for long, or made by a process of this machine that is gone,
takes it over.
"""

import errno
import fcntl
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from sweep.errors import StoreError

LOCK, LEASE = "lock", "lease"
_PATIENCE = 0.5
_BEAT_SECONDS = 10.0
_STALE_SECONDS = 120.0
"""More than the minute for which NFS may show an old time."""
_ATTEMPTS = 5
_ENDED = ("Z", "X")
"""States of a process that was killed and not yet waited for."""
_REFUSALS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS}

_log = logging.getLogger(__name__)


Check = Callable[[], None]


class _RefusedError(Exception):
    """The file system has no flock: why."""


@dataclass(frozen=True)
class _Holder:
    """Who holds a lease.

    Attributes
    ----------
    machine : str
        Host, boot and name space of processes: where ``process`` means something.
    process : int
        Its number.
    began : str
        When it started, in ticks: another process may have the number later.
    host, nonce : str
        For people, and to tell two leases of one process apart.
    """

    machine: str
    process: int
    began: str
    host: str
    nonce: str

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}"


@contextmanager
def held(folder: Path) -> Iterator[Check]:
    """Keep every other driver out of a folder.

    Yields
    ------
    callable
        Raises a StoreError if another driver has taken the lock over meanwhile; a lease can be,
        a flock cannot. To be called before something is written.

    Raises
    ------
    StoreError
        If another one is in.
    OSError
        If the disk does not take a lock of either kind.
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
                _BEAT_SECONDS,
            )
            with _leased(folder) as check:
                yield check
            return
        if not free:
            stream.seek(0)
            raise _in_use(folder, stream.read().strip())
        other = _living(folder / LEASE)
        if other is not None:
            raise _in_use(folder, other)
        stream.truncate(0)
        stream.write(str(_ourselves()))
        stream.flush()
        yield _no_check


def holder(folder: Path) -> str | None:
    """Who keeps others out of a folder now; None if nobody does."""
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
def _leased(folder: Path) -> Iterator[Check]:
    lease, own = folder / LEASE, _ourselves()
    _take(lease, own)
    ended, lost = threading.Event(), threading.Event()
    beat = threading.Thread(target=_keep, args=(lease, own, ended, lost), daemon=True)
    beat.start()

    def check() -> None:
        if lost.is_set():
            raise StoreError(
                f"store {str(folder)!r} was taken over by {_living(lease) or 'another run'}: this "
                f"run was silent for more than {_STALE_SECONDS:.0f} s; what it recorded is kept, "
                "run again when the other has ended"
            )

    try:
        yield check
    finally:
        ended.set()
        beat.join()
        if _read(lease) == own:
            lease.unlink(missing_ok=True)


def _take(lease: Path, own: _Holder) -> None:
    for _ in range(_ATTEMPTS):
        try:
            with lease.open("x", encoding="utf-8") as stream:
                stream.write(json.dumps(asdict(own)))
                stream.flush()
                os.fsync(stream.fileno())
            return
        except FileExistsError:
            found = _read(lease)
            other = _living(lease)
            if other is not None:
                raise _in_use(lease.parent, other) from None
            _set_aside(lease, found)
    raise _in_use(lease.parent, "other runs that start just now")


def _set_aside(lease: Path, stale: _Holder | None) -> None:
    """Remove a stale lease, but not the one that somebody quicker made of it."""
    aside = lease.with_name(f".{LEASE}-{uuid.uuid4().hex}.partial")
    try:
        lease.rename(aside)
    except FileNotFoundError:
        return
    if _read(aside) != stale:
        with suppress(FileExistsError):
            os.link(aside, lease)
    aside.unlink(missing_ok=True)


def _keep(lease: Path, own: _Holder, ended: threading.Event, lost: threading.Event) -> None:
    """Touch the lease until the run ends, or until it is another's."""
    while not ended.wait(_BEAT_SECONDS):
        with suppress(OSError):
            if _read(lease) == own:
                os.utime(lease)
            elif lease.exists():
                lost.set()
                return


def _living(lease: Path) -> str | None:
    """Who holds a lease; None if there is none, or its holder is gone."""
    try:
        touched = lease.stat().st_mtime
    except FileNotFoundError:
        return None
    found = _read(lease)
    if found is not None and found.machine == _machine():
        alive = _began(found.process) == found.began
    else:
        alive = _now(lease.parent) - touched < _STALE_SECONDS
    return (str(found) if found else "another run") if alive else None


def _read(lease: Path) -> _Holder | None:
    try:
        return _Holder(**json.loads(lease.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _now(folder: Path) -> float:
    """The time by the clock of the file system, which may be a server's."""
    probe = folder / f".{LEASE}-{uuid.uuid4().hex}.partial"
    try:
        probe.touch()
        return probe.stat().st_mtime
    except OSError:
        return time.time()
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)


def _ourselves() -> _Holder:
    number = os.getpid()
    return _Holder(_machine(), number, _began(number), socket.gethostname(), uuid.uuid4().hex)


def _machine() -> str:
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def _began(process: int) -> str:
    """When a process started; a guess where the kernel does not say, empty if it is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in _ENDED else fields[19]
    except OSError:
        pass
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        return "running"
    return "running"


def _in_use(folder: Path, by: str) -> StoreError:
    return StoreError(
        f"store {str(folder)!r} is in use by {by or 'another run'}; wait for it, or give "
        "another --store"
    )
