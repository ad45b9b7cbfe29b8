"""The lease on a store: a numbered file that one process creates and renews as a sign of life.

If several processes try to create the file with the next number, only one of them succeeds: the
disk or the object store decides who was first. A lease is void once it has not been renewed for
`STALE_SECONDS`, and at once if its holder was a process on this machine that has ended. A process
has lost the store when its lease is no longer the newest.
"""

import json
import os
import re
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from sweep.errors import StoreError
from sweep.store.paths import Location, clock, parsed, store_errors

LEASE = "lease-"
"""Prefix of the file name of every lease; the lease's number follows."""
_NAME = re.compile(LEASE + r"\d+")
STALE_SECONDS = 120.0
"""Seconds without a renewal after which a holder is presumed dead.

This exceeds the minute for which NFS may report an outdated modification time.
"""
BEAT_SECONDS = 10.0
"""Seconds between two renewals of a lease.

Twelve renewals in a row must fail before a holder is presumed dead; each is one small write.
"""
_JOIN_SECONDS = 10.0
"""Longest wait until the renewal thread ends, in seconds; the disk may have stopped responding."""

Check = Callable[[], None]


@dataclass(frozen=True)
class Holder:
    """The process that holds a lease.

    Attributes
    ----------
    machine : str
        Identifies the host, its current boot and the process id namespace, in which a process id is
        unique.
    process : int
        The process id.
    nonce : str
        A random text that distinguishes leases of the same process.
    """

    machine: str
    process: int
    nonce: str

    def __str__(self) -> str:
        return f"process {self.process} on {self.machine.partition(' ')[0]}"


def ourselves() -> Holder:
    """Return the current process as the holder of a lease, with a new nonce."""
    return Holder(_machine(), os.getpid(), uuid.uuid4().hex)


def _leases(folder: Location) -> list[Location]:
    """Return the files of all leases on a folder, oldest first."""
    return [folder / name for name in folder.names() if _NAME.fullmatch(name)]


def _take(folder: Location, content: bytes) -> Location:
    """Create a lease with this ``content``, remove the earlier leases, and return its file.

    Raises StoreError if another process holds a lease.
    """
    while True:
        # listed first: a lease that appears later has the next number, whose creation then fails
        earlier = _leases(folder)
        check_free(folder)
        last = int(earlier[-1].name.removeprefix(LEASE)) if earlier else 0
        file = folder / f"{LEASE}{last + 1:06d}"
        with suppress(FileExistsError):  # another run was first, or a reply was lost and retried
            file.create(content)
        with suppress(FileNotFoundError):
            if file.read_bytes() == content:  # ours, even if the creation was reported as failed
                for dead in earlier:
                    dead.unlink(missing_ok=True)
                return file


@contextmanager
def held(folder: Location, beat_seconds: float = BEAT_SECONDS) -> Iterator[Check]:
    """Lock a folder against all other runs, with a lease that is renewed every ``beat_seconds``.

    Yields
    ------
    callable
        A function that raises StoreError if another run has taken over the store; call it before
        every write.

    Raises
    ------
    StoreError
        If another run holds the lease, or the lease cannot be written.
    """
    content = json.dumps(asdict(ourselves())).encode()
    with store_errors(folder):
        file = _take(folder, content)
    ended, lost = threading.Event(), threading.Event()

    def keep() -> None:
        while not lost.is_set() and not ended.wait(beat_seconds):
            with suppress(OSError):  # the disk may respond again at the next renewal
                # the number alone proves nothing: once all leases are removed, it is used again
                if _leases(folder)[-1:] == [file] and file.read_bytes() == content:
                    file.touch()
                else:
                    lost.set()

    beat = threading.Thread(target=keep, daemon=True)
    beat.start()

    def check() -> None:
        if lost.is_set():
            raise StoreError(
                f"store {str(folder)!r} was taken over by {user(folder) or 'another run'}: this "
                f"run was silent for more than {STALE_SECONDS:.0f} s; its records are kept: run "
                "again when the other has ended"
            )

    try:
        yield check
    finally:
        ended.set()
        beat.join(_JOIN_SECONDS)
        with suppress(OSError):  # the disk has become read-only
            if file.read_bytes() == content:  # else another run has taken over
                file.unlink(missing_ok=True)


def user(folder: Location) -> str | None:
    """Describe the process that holds a lease on a folder; None if all leases are void."""
    return next(filter(None, map(_holder, reversed(_leases(folder)))), None)


def _holder(file: Location) -> str | None:
    """Describe the process that holds a lease; None if the lease is void."""
    try:
        silent = clock(file.parent) - file.stat().st_mtime
        holder = parsed(file.read_bytes(), Holder)
    except FileNotFoundError:
        return None
    except ValueError:
        return "another run" if silent < STALE_SECONDS else None
    if silent >= STALE_SECONDS or (holder.machine == _machine() and _ended(holder.process)):
        return None
    return str(holder)


def check_free(folder: Location) -> None:
    """Raise StoreError if any lease on a folder is valid."""
    if (holder := user(folder)) is not None:
        raise StoreError(
            f"store {str(folder)!r} is in use by {holder}; wait for it, or give another --store"
        )


def _machine() -> str:
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def _ended(process: int) -> bool:
    """Return whether no process has this id, or only a zombie that its parent has not reaped."""
    import psutil

    try:
        os.kill(process, 0)
        return bool(psutil.Process(process).status() == psutil.STATUS_ZOMBIE)
    except (OSError, psutil.NoSuchProcess) as error:
        return not isinstance(error, PermissionError)  # which means that it is another user's
