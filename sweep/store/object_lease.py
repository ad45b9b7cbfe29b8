"""A lease in an object store: an object, written again and again.

The store itself decides who was first, by conditional writes: a silent lease is replaced by one run
only.
"""

import time
import uuid
from contextlib import suppress
from dataclasses import dataclass

from sweep.store import holder
from sweep.store.holder import Holder, in_use
from sweep.store.lease import LEASE, living
from sweep.store.objects import ChangedError, ObjectPath


@dataclass(frozen=True)
class ObjectLease:
    """The lease on a prefix."""

    folder: ObjectPath

    def take(self, own: Holder) -> None:
        """Create it, or replace one whose holder does not live."""
        try:
            self._object.create(own.text.encode())
        except FileExistsError:
            if self._is(own):  # the answer to a first try was lost
                return
            tag, other = self._tag(), self.user()
            if other is not None:
                raise in_use(self.folder, other) from None
            try:
                self._object.replace(own.text.encode(), tag)
            except ChangedError:
                if self._is(own):
                    return
                by = self.user() or "a run that is just starting"
                raise in_use(self.folder, by) from None

    def renew(self, own: Holder) -> bool:
        """Rewrite it; false if another process has it now."""
        tag = self._tag()
        if holder.read(self._object.read_bytes()) != own:
            return False
        with suppress(ChangedError):
            self._object.replace(own.text.encode(), tag)
        return True

    def give_back(self, own: Holder) -> None:
        """Remove it, unless another process has it now."""
        with suppress(OSError):
            if self._is(own):
                self._object.unlink()

    def user(self) -> str | None:
        """Its living holder, in words; None if there is none."""
        try:
            _, written = self._object.tagged()
            current = holder.read(self._object.read_bytes())
        except FileNotFoundError:
            return None
        return living(current, _now(self.folder) - written.timestamp())

    @property
    def _object(self) -> ObjectPath:
        return self.folder / LEASE

    def _is(self, own: Holder) -> bool:
        with suppress(FileNotFoundError):
            return holder.read(self._object.read_bytes()) == own
        return False

    def _tag(self) -> str:
        try:
            return self._object.tagged()[0]
        except FileNotFoundError:
            return ""


def _now(folder: ObjectPath) -> float:
    """The current time by the store's clock, which is the one that dates its objects.

    By this machine's own for readers that may not write there.
    """
    probe = folder / f".{LEASE}-{uuid.uuid4().hex}.partial"
    try:
        probe.write_bytes(b"")
        return probe.tagged()[1].timestamp()
    except OSError:
        return time.time()
    finally:
        with suppress(OSError):
            probe.unlink()
