"""A lease in an object store: an object, written again and again.

The store itself decides who was first, by conditional writes: a silent lease is replaced by one run
only.
"""

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
            tag, other = self._tag(), self.user()
            if other is not None:
                raise in_use(self.folder, other) from None
            try:
                self._object.replace(own.text.encode(), tag)
            except ChangedError:
                by = self.user() or "a run that is just starting"
                raise in_use(self.folder, by) from None

    def renew(self, own: Holder) -> bool:
        """Write it anew; false if another process has it now."""
        tag = self._tag()
        if holder.read(self._object.read_text()) != own:
            return False
        with suppress(ChangedError):
            self._object.replace(own.text.encode(), tag)
        return True

    def give_back(self, own: Holder) -> None:
        """Remove it, unless another process has it now."""
        with suppress(OSError):
            if holder.read(self._object.read_text()) == own:
                self._object.unlink()

    def user(self) -> str | None:
        """Its living holder, in words; None if there is none."""
        try:
            _, written = self._object.tagged()
            found = holder.read(self._object.read_text())
        except FileNotFoundError:
            return None
        return living(found, _now(self.folder) - written.timestamp())

    @property
    def _object(self) -> ObjectPath:
        return self.folder / LEASE

    def _tag(self) -> str:
        try:
            return self._object.tagged()[0]
        except FileNotFoundError:
            return ""


def _now(folder: ObjectPath) -> float:
    """The current time by the store's clock, which is the one that dates its objects."""
    probe = folder / f".{LEASE}-{uuid.uuid4().hex}.partial"
    probe.write_bytes(b"")
    try:
        return probe.tagged()[1].timestamp()
    finally:
        with suppress(OSError):
            probe.unlink()
