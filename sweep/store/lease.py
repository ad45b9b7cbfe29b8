"""The lease on a store: a numbered file that one process creates and renews as a sign of life.

If several processes try to create the file with the next number, only one of them succeeds: the
disk or the object store decides who was first. A lease is void if its holder was a process on this
machine that has ended. If this machine cannot find out whether the holder has ended, the lease
becomes void when it has not been renewed for `STALE_SECONDS`. A process has lost the store when its
lease is no longer the newest.
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
from sweep.store.places import Location, clock, explained, parsed

LEASE = "lease-"
"""Prefix of the file name of every lease; the lease's number follows."""
_NAME = re.compile(LEASE + r"\d+")
STALE_SECONDS = 120.0
"""Seconds without a renewal after which a holder on another machine is presumed dead.

This exceeds the minute for which NFS may report an outdated modification time.
"""
BEAT_SECONDS = 10.0
"""Seconds between two renewals of a lease."""
_JOIN_SECONDS = 10.0
"""Longest wait until the renewal thread ends, in seconds; the disk may have stopped responding."""
_UNKNOWN = "running"
"""The start time recorded for a process that exists but cannot be inspected (``hidepid``)."""
_ENDED = ("Z", "X")
"""States of a process that has ended but is still in the process table."""

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
    began : str
        The process's start time in clock ticks; it distinguishes processes that had the same id.
    folder : str
        The absolute path of the store, or its address in an object store.
    nonce : str
        A random text that distinguishes leases of the same process.
    """

    machine: str
    process: int
    began: str
    folder: str
    nonce: str

    def __str__(self) -> str:
        return f"process {self.process} on {self.machine.partition(' ')[0]}"


def ourselves(folder: Location) -> Holder:
    """Return the current process as the holder of a folder's lease, with a new nonce."""
    number = os.getpid()
    return Holder(
        machine=_machine(),
        process=number,
        began=_began(number),
        folder=str(folder.resolve()),
        nonce=uuid.uuid4().hex,
    )


def _leases(folder: Location) -> list[Location]:
    """Return the files of all leases on a folder, oldest first."""
    return [folder / name for name in folder.names() if _NAME.fullmatch(name)]


def _take(folder: Location, own: bytes) -> Location:
    """Create a lease with the content ``own``, remove the earlier leases, and return its file.

    Raises StoreError if another process holds a lease.
    """
    while True:
        earlier = _leases(folder)
        check_free(folder)
        last = int(earlier[-1].name.removeprefix(LEASE)) if earlier else 0
        file = folder / f"{LEASE}{last + 1:06d}"
        with suppress(FileExistsError):  # another run was first, or a reply was lost and retried
            file.create(own)
        with suppress(FileNotFoundError):
            if file.read_bytes() == own:
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
    own = json.dumps(asdict(ourselves(folder))).encode()
    with explained(folder):
        file = _take(folder, own)
    ended, lost = threading.Event(), threading.Event()

    def keep() -> None:
        while not lost.is_set() and not ended.wait(beat_seconds):
            with suppress(OSError):  # the disk may respond again at the next renewal
                # the number alone proves nothing: once all leases are removed, it is used again
                if _leases(folder)[-1:] == [file] and file.read_bytes() == own:
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
            if file.read_bytes() == own:
                file.unlink(missing_ok=True)


def user(folder: Location) -> str | None:
    """Describe the process that holds a lease on a folder; None if all leases are void."""
    return next(filter(None, map(_holder, reversed(_leases(folder)))), None)


def _holder(file: Location) -> str | None:
    """Describe the process that holds a lease; None if the lease is void.

    A lease of a running process on this machine is valid even if it is not renewed, because the
    process may be suspended. A lease that was copied with its store becomes void when it has not
    been renewed for `STALE_SECONDS`.
    """
    folder = file.parent
    try:
        silent = clock(folder) - file.stat().st_mtime
        holder = parsed(file.read_bytes(), Holder)
    except FileNotFoundError:
        return None
    except ValueError:
        return "another run" if silent < STALE_SECONDS else None
    began = _began(holder.process) if holder.machine == _machine() else _UNKNOWN
    if began == holder.began != _UNKNOWN and holder.folder == str(folder.resolve()):
        return str(holder)
    if began not in (holder.began, _UNKNOWN) or silent >= STALE_SECONDS:
        return None
    return (
        f"{holder} (silent for {max(silent, 0.0):.0f} s; its lease ends at {STALE_SECONDS:.0f} s)"
    )


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


def _began(process: int) -> str:
    """Return a process's start time in clock ticks, as text; empty if the process has ended.

    The result is `_UNKNOWN` if the process cannot be inspected.
    """
    try:
        with suppress(PermissionError):  # another user's process
            os.kill(process, 0)
        # the process's name, in parentheses, may contain blanks and parentheses itself
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except ProcessLookupError:
        return ""
    except OSError:
        return _UNKNOWN
    # proc(5): the state is field 3, the start time field 22
    return "" if fields[0] in _ENDED else fields[19]
