"""The dataset of a store: versions of it, and a pointer to the newest.

It is replaced by writing a new version beside the old one and having the pointer lead to it: on a
disk a symbolic link, so that other programs find it too, in an object store an object with the
version's name. A manifest beside each version lists size and checksum of every file. These do not
protect against malice; they detect damage by disks, copying and accidents.
"""

import json
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from sweep.errors import DatasetError, StoreError
from sweep.store import small_files
from sweep.store.places import DiskPath, Location, checksums, clock, reason, remedy

RESULTS = "results.zarr"
POINTER = "results.json"
"""In an object store, the object that names the current version of the dataset."""
_VERSIONS = ".results"
_LONGEST_WRITE_SECONDS = 3600.0
"""Seconds that a worker takes to write a segment or the arrays of a solve, at most."""

_Manifest = dict[str, tuple[int, int]]


@dataclass(frozen=True)
class DatasetFolder:
    """The dataset, in the folder of its store."""

    store: Location

    @property
    def path(self) -> Location:
        """The dataset: a symbolic link to its newest version, or that version itself."""
        return (self.store / RESULTS).followed()

    @property
    def _versions(self) -> Location:
        return self.store / _VERSIONS

    @property
    def exists(self) -> bool:
        """Whether there is one; StoreError if that cannot be known."""
        try:
            return self.path.exists()
        except OSError as error:
            raise StoreError(
                f"dataset {str(self.store / RESULTS)!r} cannot be read: {reason(error)}; let it be "
                "read, or move it away: the next run derives it again"
            ) from error

    @property
    def state(self) -> str | None:
        """The state of the journal that the dataset was derived from; None without a dataset."""
        try:
            content = json.loads((self.path / ".zmetadata").read_bytes())
            return str(content["metadata"][".zattrs"]["journal_state"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    @property
    def damage(self) -> str | None:
        """How the dataset differs from its manifest, in words; None if it does not."""
        while self.exists:
            version = self.path.resolve()
            damage = _damage(version)
            if damage is None or version == self.path.resolve():
                return damage
        return None

    def keeps(self, version: Location) -> bool:
        """Whether that version still exists: `publish` removes all but the last two.

        zarr reads a deleted chunk as missing, without an error.
        """
        last = {f"{number:06d}" for number in _numbers(self._versions)[-2:]}
        kept = version.parent.name != _VERSIONS or version.stem in last
        return kept or version == self.path.resolve()

    def publish(self, write: Callable[[Location], None]) -> Location:
        """Replace the dataset as a whole: readers see the old one or the new one.

        Parameters
        ----------
        write : callable
            Writes the new dataset into the folder that it is given.

        Returns
        -------
        Path or ObjectPath
            The dataset's path; on a disk the same for every version.

        Raises
        ------
        DatasetError
            If it cannot be written; the old dataset stays in place then.
        """
        try:
            self._versions.make_folder()
            old = _numbers(self._versions)
            fresh = _next(self._versions)
            try:
                write(fresh)
                _manifest_of(fresh).write_bytes(json.dumps(checksums(fresh)).encode())
                (self.store / RESULTS).lead_to(f"{_VERSIONS}/{fresh.name}")
            except OSError:
                if self.path.resolve() != fresh.resolve():
                    _remove(fresh)
                raise
        except OSError as error:
            raise DatasetError(
                f"the dataset of store {str(self.store)!r} cannot be written: {reason(error)}; "
                f"what was solved is in the journal: {remedy(error)}, and 'sweep run' derives the "
                "dataset from it"
            ) from error
        for number in old[:-1]:
            _remove(self._versions / f"{number:06d}.zarr")
        return self.path

    def tidy(self) -> None:
        """Remove files that a killed run left half-written."""
        if isinstance(self.store, DiskPath):
            _remove_partial(self.store)
            with suppress(OSError):
                self._link_again(self.store / RESULTS)
        if self.exists:
            current = self.path.resolve()
            for version in self._versions.glob("*.zarr"):
                if version.name > current.name:
                    _remove(version)

    def _link_again(self, results: DiskPath) -> None:
        """Replace the dataset by a link again if the store was copied with links followed."""
        if results.is_dir() and not results.is_symlink():
            self._versions.make_folder()
            version = _next(self._versions)
            results.rename(str(version))
            results.lead_to(f"{_VERSIONS}/{version.name}")


def _numbers(versions: Location) -> list[int]:
    """The numbers of the dataset's versions, sorted."""
    return sorted(int(p.stem) for p in versions.glob("*.zarr") if p.stem.isdigit())


def _next(versions: Location) -> Location:
    """The path of the next version of the dataset."""
    return versions / f"{max(_numbers(versions), default=0) + 1:06d}.zarr"


def _manifest_of(version: Location) -> Location:
    return version.with_suffix(".json")


def _damage(version: Location) -> str | None:
    """The first difference between a version of the dataset and its manifest; None without one."""
    try:
        noted = small_files.parsed(_manifest_of(version).read_bytes(), _Manifest)
    except FileNotFoundError:  # of a store that was copied with links followed
        return None
    except (OSError, ValueError):
        return "the list of its files cannot be read"
    try:
        found = checksums(version)
    except OSError as error:
        name = str(error.filename)[len(str(version)) + 1 :]
        return f"file {name!r} cannot be read ({error.strerror})"
    for name, (size, checksum) in noted.items():
        if name not in found:
            return f"file {name!r} cannot be read (it is missing)"
        if found[name][0] != size:
            return f"file {name!r} holds {found[name][0]:,} bytes instead of {size:,}"
        if found[name][1] != checksum:
            return f"file {name!r} has changed since it was written"
    return None


def _remove_partial(store: DiskPath) -> None:
    """Remove the temporary files of writers that were killed.

    In the store itself only the lease's holder writes; workers may still write what they do for a
    driver that is gone.
    """
    now = clock(store)
    longest = {"": 0.0, "journal": _LONGEST_WRITE_SECONDS, "arrays": _LONGEST_WRITE_SECONDS}
    for name, age in longest.items():
        folder = store / name
        for left in [*folder.glob(".*.partial"), *folder.glob(f".{RESULTS}-*")]:
            if now - _written(left) < age:
                continue
            if left.is_dir() and not left.is_symlink():
                left.remove()
            else:
                with suppress(OSError):  # of another user, in a folder of theirs
                    left.unlink(missing_ok=True)


def _written(file: DiskPath) -> float:
    """When a file was last written, by its file system's clock; infinite if it is gone."""
    with suppress(OSError):
        return file.lstat().st_mtime
    return math.inf


def _remove(version: Location) -> None:
    """Remove a version of the dataset as far as possible; leftovers do no harm."""
    with suppress(OSError):
        version.remove()
    with suppress(OSError):
        _manifest_of(version).unlink(missing_ok=True)
