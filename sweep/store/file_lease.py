"""A lease on a disk: a file that is touched at intervals."""

import os
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sweep.store import disk, holder
from sweep.store.holder import Holder, in_use
from sweep.store.lease import LEASE, living

_ATTEMPTS = 5


@dataclass(frozen=True)
class FileLease:
    """The lease on a folder."""

    folder: Path

    def take(self, own: Holder) -> None:
        """Create it, after setting aside one whose holder is dead."""
        for _ in range(_ATTEMPTS):
            try:
                self._create(own)
                return
            except FileExistsError:
                current, other = _read(self._file), self.user()
                if other is not None:
                    raise in_use(self.folder, other) from None
                self._set_aside(current)
        raise in_use(self.folder, "other runs that are just starting")

    def _create(self, own: Holder) -> None:
        with self._file.open("x", encoding="utf-8") as stream:
            try:
                stream.write(own.text)
                stream.flush()
                os.fsync(stream.fileno())
            except OSError:
                self._file.unlink()
                raise

    def renew(self, own: Holder) -> bool:
        """Touch it; false if another process has it now."""
        ours = holder.read(disk.content(self._file)) == own
        if ours:
            os.utime(self._file)
        return ours

    def give_back(self, own: Holder) -> None:
        """Remove it, unless another process has it now, or the disk has become read-only."""
        with suppress(OSError):
            if _read(self._file) == own:
                self._file.unlink(missing_ok=True)

    def user(self) -> str | None:
        """Its living holder, in words; None if there is none."""
        try:
            touched = self._file.stat().st_mtime
        except FileNotFoundError:
            return None
        current = _read(self._file)
        copied = current is not None and not self._is_in(Path(current.folder))
        return living(current, disk.clock(self.folder) - touched, copied=copied)

    def _is_in(self, folder: Path) -> bool:
        try:
            return self._file.samefile(folder / LEASE)
        except OSError:
            return False

    def _set_aside(self, stale: Holder | None) -> None:
        """Remove a stale lease, but not one that another process has replaced it with."""
        aside = _beside(self.folder)
        try:
            self._file.rename(aside)
        except FileNotFoundError:
            return
        if _read(aside) != stale:
            _put_back(aside, self._file)
        aside.unlink(missing_ok=True)

    @property
    def _file(self) -> Path:
        return self.folder / LEASE


def _read(lease: Path) -> Holder | None:
    """The holder of a lease; None if there is none, or it cannot be read."""
    try:
        return holder.read(disk.content(lease))
    except OSError:
        return None


def _put_back(aside: Path, lease: Path) -> None:
    """Put a lease back, unless a third process has created one by now."""
    try:
        os.link(aside, lease)
    except FileExistsError:
        return
    except OSError:  # a disk without links
        aside.rename(lease)


def _beside(folder: Path) -> Path:
    return folder / f".{LEASE}-{uuid.uuid4().hex}.partial"
