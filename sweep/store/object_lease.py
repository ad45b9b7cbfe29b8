"""One run at a time in an object store: a lease that only one process can create or replace.

The store itself decides who was first, by conditional writes. The holder writes its lease again and
again; another run that finds it silent for long, or left by a process of this machine that has
ended, replaces it, which succeeds for one run only.
"""

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sweep.store import holder
from sweep.store.holder import BEAT_SECONDS, STALE_SECONDS, Holder, in_use, ourselves, taken_over
from sweep.store.lock import LEASE, Check
from sweep.store.objects import ChangedError, ObjectPath


@contextmanager
def held(folder: ObjectPath, beat_seconds: float = BEAT_SECONDS) -> Iterator[Check]:
    """Lock a prefix of an object store against every other run.

    Parameters
    ----------
    folder : ObjectPath
        The store.
    beat_seconds : float
        Seconds between two signs of life.

    Yields
    ------
    callable
        Raises a StoreError if another run has taken the store over meanwhile.

    Raises
    ------
    StoreError
        If another run holds it.
    OSError
        If the lease cannot be written.
    """
    lease, own = folder / LEASE, ourselves()
    _take(lease, own)
    ended, lost = threading.Event(), threading.Event()
    beat = threading.Thread(target=_keep, args=(lease, own, beat_seconds, ended, lost), daemon=True)
    beat.start()

    def check() -> None:
        if lost.is_set():
            raise taken_over(folder, user(folder))

    try:
        yield check
    finally:
        ended.set()
        beat.join()
        with suppress(OSError):
            if holder.read(lease.read_text()) == own:
                lease.unlink()


def user(folder: ObjectPath) -> str | None:
    """The run that holds the lease, in words; None if there is none that lives."""
    lease = folder / LEASE
    try:
        _, written = lease.tagged()
        found = holder.read(lease.read_text())
    except FileNotFoundError:
        return None
    silent_s = _now(folder) - written.timestamp()
    if found is None:
        return "another run" if silent_s < STALE_SECONDS else None
    return str(found) if found.is_alive(silent_s) else None


def _take(lease: ObjectPath, own: Holder) -> None:
    folder = lease.parent
    try:
        lease.create(own.text.encode())
    except FileExistsError:
        tag = _tag(lease)
        other = user(folder)
        if other is not None:
            raise in_use(folder, other) from None
        try:
            lease.replace(own.text.encode(), tag)
        except ChangedError:
            raise in_use(folder, user(folder) or "a run that is just starting") from None


def _tag(lease: ObjectPath) -> str:
    try:
        return lease.tagged()[0]
    except FileNotFoundError:
        return ""


def _keep(
    lease: ObjectPath,
    own: Holder,
    beat_seconds: float,
    ended: threading.Event,
    lost: threading.Event,
) -> None:
    """Write the lease anew until the run ends, or until another process has it."""
    while not ended.wait(beat_seconds):
        with suppress(OSError):
            tag = _tag(lease)
            if holder.read(lease.read_text()) != own:
                lost.set()
                return
            with suppress(ChangedError):
                lease.replace(own.text.encode(), tag)


def _now(folder: ObjectPath) -> float:
    """The current time by the store's clock, which is the one that dates its objects."""
    probe = folder / f".{LEASE}-{uuid.uuid4().hex}.partial"
    probe.write_bytes(b"")
    try:
        return probe.tagged()[1].timestamp()
    finally:
        with suppress(OSError):
            probe.unlink()
