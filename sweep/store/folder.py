"""A store: one experiment's journal, dataset and arrays, in a folder or in an object store.

To replace the dataset, a run writes a new version beside the old version and moves a pointer to the
new one. On a disk the pointer is a symbolic link, which other programs can follow. In an object
store the pointer is an object that contains the version's name. A manifest beside each version
lists the size and the checksum of every file in the version. The manifest reveals damage by disks,
copying and accidents, but not tampering.
"""

import json
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from sweep.errors import DatasetError, StoreError
from sweep.store import lease
from sweep.store.code import project
from sweep.store.environment import list_versions
from sweep.store.journal import write_segment
from sweep.store.keys import KEY, Keys, to_texts
from sweep.store.lease import Check
from sweep.store.paths import (
    Location,
    ObjectPath,
    clock,
    locate,
    parsed,
    reason,
    store_errors,
    unreadable,
)
from sweep.store.records import Record

_FORMAT = 2
_ABOUT = "store.json"
_CELLS = "cells.json"
RESULTS = "results.zarr"
POINTER = "results.json"
"""Name of the object that points to the current version of the dataset in an object store."""
_VERSIONS = ".results"
_REMEDY = "let it be read, or give another --store"
_LONGEST_WRITE_SECONDS = 3600.0
"""Longest time, in seconds, that writing a segment or a solve's arrays may take.

Older temporary files are deleted. Gigabytes to a slow network disk take minutes; a file that is
deleted while a worker still writes it makes that write fail, and a file that stays takes space.
"""

_Manifest = dict[str, tuple[int, int]]


@dataclass(frozen=True)
class DatasetFolder:
    """The folder of a store's dataset; every call of `publish` writes a new version."""

    store: Location

    @property
    def path(self) -> Location:
        """The path of the dataset's newest version; on a disk, a link that leads to it."""
        results = self.store / RESULTS
        return results.followed() if isinstance(results, ObjectPath) else results

    @property
    def exists(self) -> bool:
        """Whether the store has a dataset; raises StoreError if the store cannot be read."""
        return is_occupied(self.path)

    @property
    def state(self) -> str | None:
        """The dataset's attribute ``journal_state``; None if there is no sound dataset."""
        files, damage = self.files()
        try:
            return None if damage else str(json.loads(files[".zattrs"])["journal_state"])
        except (ValueError, KeyError, TypeError, RecursionError):  # a copy without its manifest
            return None

    @property
    def damage(self) -> str | None:
        """A description of the dataset's damage; None if the dataset is sound or missing."""
        return self.files()[1] if self.exists else None

    def files(self) -> tuple[dict[str, bytes], str | None]:
        """Return the newest version's files by relative path, and a description of their damage.

        The second value describes the damage; it is None if the files are sound. If a newer version
        appears during the call, that version is read instead.
        """
        while True:
            version = self.path.resolve()
            files_and_damage = _files(version)
            if version == self.path.resolve():
                return files_and_damage

    def publish(self, files: Mapping[str, bytes]) -> Location:
        """Replace the dataset as a whole: readers see either the old dataset or the new one.

        The version that is replaced stays until the next call, for programs that still read it. All
        earlier versions are removed first, including incomplete ones that killed runs left behind.

        Parameters
        ----------
        files : Mapping of str to bytes
            The files of the new dataset, by path relative to the dataset.

        Returns
        -------
        Path or ObjectPath
            The dataset's path; on a disk it is the same for every version.

        Raises
        ------
        DatasetError
            If the new dataset cannot be written; the old dataset then stays in place.
        """
        versions = self.store / _VERSIONS
        try:
            versions.make_folder()
            numbers = {name[:6] for name in versions.names() if name[:6].isdigit()}
            for number in numbers - {self.path.resolve().stem}:
                with suppress(OSError):  # a file of another user
                    (versions / f"{number}.zarr").remove()
                    (versions / f"{number}.json").unlink(missing_ok=True)
            fresh = versions / f"{1 + int(max(numbers, default='0')):06d}.zarr"
            try:
                fresh.write_files(files)
            except OSError:
                fresh.remove()  # so that the journal has the space
                raise
            fresh.with_suffix(".json").write_bytes(json.dumps(_checksums(files)).encode())
            (self.store / RESULTS).lead_to(f"{_VERSIONS}/{fresh.name}")
        except OSError as error:
            raise DatasetError(
                f"the dataset of store {str(self.store)!r} cannot be written: {reason(error)}; "
                "what was solved is in the journal: correct this, and 'sweep run' derives the "
                "dataset from it"
            ) from error
        return self.path


@dataclass(frozen=True)
class About:
    """The content of ``store.json``, the file that makes a folder a store.

    Attributes
    ----------
    format : int
        The version of the store's layout.
    identity : str
        A random text that distinguishes the store from all others.
    experiment : str
        The name of the experiment that was last run in the store.
    created : str
        When the store was created, UTC.
    """

    format: int
    identity: str
    experiment: str
    created: str = ""


@dataclass(frozen=True)
class Store:
    """An existing store, which contains the results of one experiment.

    Attributes
    ----------
    path : Path or ObjectPath
        The store's folder.
    about : About
        The content of its file ``store.json``.
    """

    path: Location
    about: About

    @cached_property
    def journal(self) -> Location:
        """The folder of the journal's segments."""
        return self.path / "journal"

    @property
    def text(self) -> str:
        """The experiment's YAML, with ``--set`` applied."""
        file = self.path / "experiment.yaml"
        try:
            return file.read_bytes().decode()
        except (OSError, ValueError) as error:
            raise unreadable(file, error) from error

    @property
    def cells(self) -> Keys:
        """The ids of all cells of the experiment, as an array; empty before the first run."""
        file = self.path / _CELLS
        try:
            return np.array(parsed(file.read_bytes(), list[str]), dtype=KEY)
        except FileNotFoundError:
            return np.empty(0, KEY)
        except (OSError, ValueError) as error:
            raise unreadable(file, error) from error

    @cached_property
    def dataset(self) -> DatasetFolder:
        """The store's dataset, which may not exist yet."""
        return DatasetFolder(self.path)

    def describe(self, experiment: str, text: str, cells: Keys) -> None:
        """Write the experiment's name, its current text and the ids of its cells.

        Even if the call is interrupted, all stored ids belong to cells of the stored experiment.
        """
        before, file = self.cells, self.path / _CELLS
        same = np.array_equal(cells, before)
        with store_errors(self.path):
            if experiment != self.about.experiment:
                about = {**vars(self.about), "experiment": experiment}
                (self.path / _ABOUT).write_bytes(json.dumps(about, indent=1).encode())
            # first the cells of both texts, then the new text, then its other cells
            if not same and len(common := np.intersect1d(cells, before)) < len(before):
                file.write_bytes(json.dumps(to_texts(common)).encode())
            (self.path / "experiment.yaml").write_bytes(text.encode())
            if not same:
                file.write_bytes(json.dumps(to_texts(cells)).encode())

    @contextmanager
    def locked(self) -> Iterator[Check]:
        """Lock the store against all other runs.

        Yields
        ------
        callable
            A function that raises StoreError if another run has taken over the store.

        Raises
        ------
        StoreError
            If another run holds the lock, or the store cannot be written.
        """
        with lease.held(self.path) as check:
            with store_errors(self.path):
                (self.path / "arrays").make_folder()  # a copy of a store may lack empty folders
                # An object store has no temporary files of killed writers. Workers may still be
                # writing after their driver has ended, so only old files are removed.
                found = () if isinstance(self.path, ObjectPath) else self.path.rglob(".*.partial")
                for partial in found:
                    with suppress(OSError):  # it is gone, or belongs to another user
                        if clock(self.path) - partial.lstat().st_mtime >= _LONGEST_WRITE_SECONDS:
                            partial.unlink()
            yield check

    @property
    def user(self) -> str | None:
        """A description of the process that has locked the store; None if it is not locked."""
        try:
            return lease.user(self.path)
        except OSError as error:
            raise unreadable(self.path, error) from error


def create(place: str | Path | Location, experiment: str) -> Store:
    """Open the store in a folder; create what the folder lacks of a store.

    Parameters
    ----------
    place : str, Path or ObjectPath
        The folder, created with its parents if it does not exist, or an address in an object
        store.
    experiment : str
        The experiment's name, for a store that is created.

    Raises
    ------
    StoreError
        If the folder contains other files, or cannot be written.
    """
    path = locate(place)
    with store_errors(path):
        path.make_folder()
        names = path.names()
        strangers = [name for name in names if name not in ("journal", "arrays") and name[0] != "."]
        # a folder with the ids of cells is a store that has lost its description
        if strangers and {_ABOUT, _CELLS}.isdisjoint(names):
            raise StoreError(
                f"folder {str(path)!r} is not a store but holds {strangers[0]!r}; "
                "give a new or an empty folder as --store"
            )
        for folder in (path / "journal", path / "arrays"):
            folder.make_folder()
        if _ABOUT not in names:
            created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            about = vars(About(_FORMAT, uuid.uuid4().hex, experiment, created))
            with suppress(FileExistsError):  # another run has just created it
                (path / _ABOUT).create(json.dumps(about, indent=1).encode())
    return open_(path)


def is_occupied(path: Location) -> bool:
    """Return whether a folder exists and has content.

    Raises
    ------
    StoreError
        If the path is that of a file, or the folder cannot be read.
    """
    try:
        return bool(path.names())
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unreadable(path, error, _REMEDY) from error


def open_(place: str | Path | Location) -> Store:
    """Open the store in a folder.

    Parameters
    ----------
    place : str, Path or ObjectPath
        The folder, or its address in an object store.

    Raises
    ------
    StoreError
        If the folder is not a store, is damaged, cannot be read, or has the layout of another
        version of this project.
    """
    path = locate(place)
    try:
        about = parsed((path / _ABOUT).read_bytes(), About)
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(
            f"{str(path)!r} is not a store: it has no {_ABOUT}; "
            "give the folder that was --store in 'sweep run'"
        ) from None
    except OSError as error:
        raise unreadable(path / _ABOUT, error, _REMEDY) from error
    except ValueError as error:
        raise unreadable(path / _ABOUT, error) from error
    if about.format != _FORMAT:
        raise StoreError(
            f"store {str(path)!r} has format {about.format}, but this version reads format "
            f"{_FORMAT}; use the version that made it, or give another --store"
        )
    return Store(path, about)


@dataclass(frozen=True)
class WorkerStore:
    """A store and the settings of a run; the driver sends them to workers with every task.

    Attributes
    ----------
    store : Store
        The store. A worker writes nothing if it finds no store with this identity at this path,
        for instance because it does not share the driver's disk.
    keep : tuple of str
        The arrays to store.
    interval : float
        Least number of seconds between two segments that a running task writes.
    code : str
        The project version and revisions that workers must have; by default, those of this process.
    versions : str
        The versions of Python and libraries that workers must have; by default, those of this
        process. If empty, workers may have any versions.
    mechanisms : tuple of (str, callable)
        The names and functions of the mechanisms that the user passed to this run as functions.
    """

    store: Store
    keep: tuple[str, ...] = ()
    interval: float = 1.0
    code: str = field(default_factory=project)
    versions: str = field(default_factory=list_versions)
    mechanisms: tuple[tuple[str, Callable[..., object]], ...] = ()

    @property
    def reachable(self) -> bool:
        """Whether this machine finds a store with the same identity at the store's path."""
        try:
            return open_(self.store.path).about.identity == self.store.about.identity
        except StoreError:
            return False

    def write(self, name: str, records: list[Record]) -> bool:
        """Write records into the journal as one segment; return False if the writing fails."""
        try:
            write_segment(self.store.journal, name, records)
        except OSError:
            return False
        return True


def _files(version: Location) -> tuple[dict[str, bytes], str | None]:
    """Return a version's files and a description of their damage, like `DatasetFolder.files`.

    The files are compared with the version's manifest. If there is no manifest, only the format of
    the dataset is checked.
    """
    try:
        files = {name: file.read_bytes() for name, file in version.files().items()}
    except OSError as error:
        return {}, f"a file cannot be read ({error})"
    try:
        noted = parsed(version.with_suffix(".json").read_bytes(), _Manifest)
    except FileNotFoundError:  # the store was copied, and the link replaced by its target
        sound = ".zmetadata" in files
        return files, None if sound else "it is not a dataset of zarr format 2"
    except (OSError, ValueError):
        return files, "the list of its files cannot be read"
    differing = [name for name, _ in noted.items() - _checksums(files).items()]
    change = "is missing or has changed since it was written"
    return files, f"file {min(differing)!r} {change}" if differing else None


def _checksums(files: Mapping[str, bytes]) -> _Manifest:
    """Return the size in bytes and the CRC-32 of every file, by name."""
    return {name: (len(content), zlib.crc32(content)) for name, content in files.items()}
