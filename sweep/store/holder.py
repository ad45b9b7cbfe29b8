"""The process that uses a store, written beside the results for other processes to see."""

import json
import os
import socket
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from sweep.errors import StoreError
from sweep.store.location import Location

STALE_SECONDS = 120.0
"""Silence after which a holder of another machine counts as dead: more than the minute for which
NFS may show an outdated time."""
BEAT_SECONDS = 10.0
"""Seconds between two signs of life."""
_UNKNOWN = "running"
"""Instead of the start time of a process that is there, but tells nothing (``hidepid``)."""
_ENDED = ("Z", "X")
"""States of a process that has ended but is still in the process table."""


@dataclass(frozen=True)
class Holder:
    """The process that holds a lease.

    Attributes
    ----------
    machine : str
        Host, boot and process name space: the scope in which ``process`` is unique.
    process : int
        The process's number.
    began : str
        Its start time in ticks, since another process may get the number later.
    host : str
        The host name, for messages.
    folder : str
        The store, by its absolute path or its address.
    nonce : str
        A random text that tells two leases of one process apart.
    """

    machine: str
    process: int
    began: str
    host: str
    folder: str
    nonce: str

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}"

    @property
    def text(self) -> str:
        """The text of a lease."""
        return json.dumps(asdict(self))

    def runs(self) -> bool | None:
        """Whether the process still runs; None if this process cannot tell."""
        if self.machine != _machine():
            return None
        began = _began(self.process)
        return None if began == _UNKNOWN else began == self.began


def ourselves(folder: Location) -> Holder:
    """The current process as the holder of a folder, with a new nonce."""
    number = os.getpid()
    return Holder(
        machine=_machine(),
        process=number,
        began=_began(number),
        host=socket.gethostname(),
        folder=str(folder.resolve()),
        nonce=uuid.uuid4().hex,
    )


def read(lease: bytes) -> Holder | None:
    """The holder that a lease names; None if it does not name any."""
    try:
        return Holder(**json.loads(lease))
    except (ValueError, TypeError):
        return None


def in_use(folder: object, by: str) -> StoreError:
    """The error for a store that another run uses."""
    return StoreError(
        f"store {str(folder)!r} is in use by {by or 'another run'}; wait for it, or give "
        "another --store"
    )


def taken_over(folder: object, by: str | None) -> StoreError:
    """The error for a run whose store another run has taken over."""
    return StoreError(
        f"store {str(folder)!r} was taken over by {by or 'another run'}: this run was silent for "
        f"more than {STALE_SECONDS:.0f} s; its records are kept: run again when the other has ended"
    )


def _machine() -> str:
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def _began(process: int) -> str:
    """Start time of a process in ticks; empty if it has ended."""
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
        return _UNKNOWN
    return _UNKNOWN
