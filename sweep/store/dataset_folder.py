"""The dataset of a store: versions of it, and a pointer to the newest.

It is replaced by writing a new version beside the old one and having the pointer lead to it: on a
disk a symbolic link, so that other programs find it too, in an object store an object with the
version's name.
"""

import json
import math
import shutil
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sweep.errors import DatasetError, StoreError
from sweep.store import disk, manifest
from sweep.store.disk_errors import reason, remedy
from sweep.store.location import Location

RESULTS = "results.zarr"
POINTER = "results.json"
"""In an object store, the object that names the current version of the dataset."""
_VERSIONS = ".results"
_LONGEST_WRITE_SECONDS = 3600.0
"""Seconds that a worker takes to write a segment or the arrays of a solve, at most."""


@dataclass(frozen=True)
class DatasetFolder:
    """The dataset, in the folder of its store."""

    store: Location

    @property
    def path(self) -> Location:
        """The dataset: a symbolic link to its newest version, or that version itself."""
        if isinstance(self.store, Path):
            return self.store / RESULTS
        try:
            version = json.loads(disk.text(self.store / POINTER))["version"]
        except FileNotFoundError:
            return self.store / RESULTS
        return self.store / _VERSIONS / str(version)

    @property
    def exists(self) -> bool:
        """Whether there is one.

        Raises
        ------
        StoreError
            If that may not be known.
        """
        try:
            return self.path.exists()
        except OSError as error:
            raise StoreError(
                f"dataset {str(self.path)!r} cannot be read: {reason(error)}; let it be read, or "
                "move it away: the next run derives it again"
            ) from error

    @property
    def state(self) -> str | None:
        """The state of the journal that the dataset was derived from; None without a dataset."""
        try:
            content = json.loads(disk.text(self.path / ".zmetadata"))
            return str(content["metadata"][".zattrs"]["journal_state"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @property
    def damage(self) -> str | None:
        """How the dataset differs from what was written, in words; None if it does not."""
        while self.exists:
            version = self.path.resolve()
            damage = manifest.damage(version)
            if damage is None or version == self.path.resolve():
                return damage
        return None

    def keeps(self, version: Location) -> bool:
        """Whether that version still exists: `publish` removes all but the last two.

        Of a removed chunk a reader learns nothing: zarr takes it for one without numbers.
        """
        versions = self.store / _VERSIONS
        last = {f"{number:06d}" for number in _numbers(versions)[-2:]}
        held = version.parent.name != _VERSIONS or version.stem in last
        return held or version == self.path.resolve()

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
        versions = self.store / _VERSIONS
        try:
            if isinstance(versions, Path):
                versions.mkdir(exist_ok=True)
            old = _numbers(versions)
            self._put_in_place(_next(versions), write)
        except OSError as error:
            raise DatasetError(
                f"the dataset of store {str(self.store)!r} cannot be written: {reason(error)}; "
                f"what was solved is in the journal: {remedy(error)}, and 'sweep run' derives the "
                "dataset from it"
            ) from error
        for number in old[:-1]:
            _remove(versions / f"{number:06d}.zarr")
        return self.path

    def _put_in_place(self, fresh: Location, write: Callable[[Location], None]) -> None:
        """Write a version of the dataset and point to it; remove it if nothing points to it."""
        try:
            write(fresh)
            manifest.write(fresh)
            self._point_to(fresh.name)
        except OSError:
            if self.path.resolve() != fresh.resolve():
                _remove(fresh)
            raise

    def _point_to(self, version: str) -> None:
        if not isinstance(self.store, Path):
            disk.write(self.store / POINTER, json.dumps({"version": version}))
            return
        link = self.store / f".{RESULTS}-{uuid.uuid4().hex}"
        try:
            link.symlink_to(Path(_VERSIONS) / version, target_is_directory=True)
            disk.rename(link, self.store / RESULTS)
        except OSError:
            link.unlink(missing_ok=True)
            raise

    def tidy(self) -> None:
        """Remove files that a killed run left half-written."""
        if isinstance(self.store, Path):
            _remove_partial(self.store)
            self._link_again(self.store / RESULTS)
        if self.exists:
            current = self.path.resolve()
            for version in (self.store / _VERSIONS).glob("*.zarr"):
                if version.name > current.name:
                    _remove(version)

    def _link_again(self, results: Path) -> None:
        """Replace the dataset by a link again if the store was copied with links followed."""
        if results.is_dir() and not results.is_symlink():
            with suppress(OSError):
                versions = results.with_name(_VERSIONS)
                versions.mkdir(exist_ok=True)
                version = _next(versions)
                disk.rename(results, version)
                self._point_to(version.name)


def _numbers(versions: Location) -> list[int]:
    """The numbers of the dataset's versions, sorted."""
    return sorted(int(p.stem) for p in versions.glob("*.zarr") if p.stem.isdigit())


def _next(versions: Location) -> Location:
    """The path of the next version of the dataset."""
    return versions / f"{max(_numbers(versions), default=0) + 1:06d}.zarr"


def _remove_partial(store: Path) -> None:
    """Remove the temporary files of writers that were killed.

    In the store itself only the lock's holder writes; workers may still write what they do for a
    driver that is gone.
    """
    now = disk.clock(store)
    longest = {"": 0.0, "journal": _LONGEST_WRITE_SECONDS, "arrays": _LONGEST_WRITE_SECONDS}
    for name, age in longest.items():
        folder = store / name
        for left in [*folder.glob(".*.partial"), *folder.glob(f".{RESULTS}-*")]:
            if now - _written(left) < age:
                continue
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)
            else:
                with suppress(OSError):  # of another user, in a folder of theirs
                    left.unlink(missing_ok=True)


def _written(file: Path) -> float:
    """When a file was last written, by its file system's clock; endless if it is gone."""
    with suppress(OSError):
        return file.stat().st_mtime
    return math.inf


def _remove(version: Location) -> None:
    """Remove a version of the dataset as far as possible; leftovers do no harm."""
    with suppress(OSError):
        disk.remove(version)
    with suppress(OSError):
        manifest.beside(version).unlink(missing_ok=True)
