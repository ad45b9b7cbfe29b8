"""A store: the folder of one experiment's journal, dataset and arrays.

The folder is on a disk, or a prefix of an object store. The dataset is replaced by writing a new
version beside the old one and having a pointer lead to it: on a disk a symbolic link, so that other
programs find it too, in an object store an object with the version's name.
"""

import errno
import json
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweep.errors import DatasetError, StoreError
from sweep.store import disk, lock, manifest, object_lease
from sweep.store.location import Location, located

RESULTS = "results.zarr"
POINTER = "results.json"
"""In an object store, the object that names the current version of the dataset."""
_VERSIONS = ".results"
_FORMAT = 2
_CALLED_METHOD = 1
"""The last format whose ids and coordinates have ``method`` where ``mechanism`` is now."""

_REASONS = {
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "writing there is not permitted",
    errno.EPERM: "writing there is not permitted",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.ENOTDIR: "a part of the path is a file",
    errno.EEXIST: "a file of that name is in the way",
}


@dataclass(frozen=True)
class Store:
    """An existing store.

    Attributes
    ----------
    path : Path or ObjectPath
        The store's folder.
    identity : str
        A random name, by which workers recognise the store.
    experiment : str
        The name of the experiment that created it.
    """

    path: Location
    identity: str
    experiment: str

    @property
    def journal(self) -> Location:
        """The folder of the journal's segments."""
        return self.path / "journal"

    @property
    def results(self) -> Location:
        """The dataset: a symbolic link to its newest version, or that version itself."""
        if isinstance(self.path, Path):
            return self.path / RESULTS
        try:
            version = json.loads((self.path / POINTER).read_text())["version"]
        except FileNotFoundError:
            return self.path / RESULTS
        return self.path / _VERSIONS / str(version)

    @property
    def text(self) -> str:
        """The experiment's effective YAML."""
        with _readable(self.path / "experiment.yaml") as path:
            return path.read_text(encoding="utf-8")

    @property
    def cells(self) -> frozenset[str]:
        """Ids of the cells of the experiment's grids."""
        with _readable(self.path / "cells.json") as path:
            return frozenset(json.loads(path.read_text(encoding="utf-8")))

    @property
    def described(self) -> bool:
        """Whether an experiment has been noted in it yet."""
        return (self.path / "cells.json").exists()

    @property
    def state(self) -> str | None:
        """The state of the journal that the dataset was derived from; None without a dataset."""
        try:
            content = json.loads((self.results / ".zmetadata").read_text(encoding="utf-8"))
            return str(content["metadata"][".zattrs"]["journal_state"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @property
    def damage(self) -> str | None:
        """How the dataset differs from what was written, in words; None if it does not."""
        while (results := self.results).exists():
            version = results.resolve()
            found = manifest.damage(version)
            if found is None or version == self.results.resolve():
                return found
        return None

    def describe(self, text: str, cells: Iterable[str]) -> None:
        """Note the current text of the experiment and the ids of its cells."""
        with explained(self.path):
            disk.write(self.path / "experiment.yaml", text)
            disk.write(self.path / "cells.json", json.dumps(sorted(cells)))

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
        versions = self.path / _VERSIONS
        try:
            if isinstance(versions, Path):
                versions.mkdir(exist_ok=True)
            old = _numbers(versions)
            self._put_in_place(_next(versions), write)
        except OSError as error:
            raise DatasetError(
                f"the dataset of store {str(self.path)!r} cannot be written: {_reason(error)}; "
                "what was solved is in the journal: make room, and 'sweep run' derives the "
                "dataset from it"
            ) from error
        for number in old[:-1]:
            _remove(versions / f"{number:06d}.zarr")
        return self.results

    def _put_in_place(self, fresh: Location, write: Callable[[Location], None]) -> None:
        """Write a version of the dataset and point to it; or leave nothing of it."""
        try:
            write(fresh)
            manifest.write(fresh)
            self._point_to(fresh.name)
        except OSError:
            _remove(fresh)
            raise

    def _point_to(self, version: str) -> None:
        if not isinstance(self.path, Path):
            disk.write(self.path / POINTER, json.dumps({"version": version}))
            return
        link = self.path / f".{RESULTS}-{uuid.uuid4().hex}"
        try:
            link.symlink_to(Path(_VERSIONS) / version, target_is_directory=True)
            disk.rename(link, self.path / RESULTS)
        except OSError:
            link.unlink(missing_ok=True)
            raise

    @contextmanager
    def locked(self) -> Iterator[lock.Check]:
        """Lock the store against every other run.

        Yields
        ------
        callable
            Raises a StoreError once another driver has taken the store over.

        Raises
        ------
        StoreError
            If another run holds the lock.
        """
        with ExitStack() as stack:
            with explained(self.path):
                check = stack.enter_context(
                    lock.held(self.path)
                    if isinstance(self.path, Path)
                    else object_lease.held(self.path)
                )
            self._tidy()
            yield check

    @property
    def user(self) -> str | None:
        """The process that holds the lock, in words; None if there is none."""
        if isinstance(self.path, Path):
            return lock.user(self.path)
        return object_lease.user(self.path)

    def _tidy(self) -> None:
        """Remove files that a killed run left half-written."""
        if isinstance(self.path, Path):
            _remove_partial(self.path)
            self._link_again(self.path / RESULTS)
        results = self.results
        if results.exists():
            current = results.resolve()
            for version in (self.path / _VERSIONS).glob("*.zarr"):
                if version.name > current.name:
                    _remove(version)

    def _link_again(self, results: Path) -> None:
        """Make a link of the dataset again, if the store is a copy that followed the link."""
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
    """Where the next version of the dataset belongs."""
    return versions / f"{max(_numbers(versions), default=0) + 1:06d}.zarr"


def _remove_partial(store: Path) -> None:
    """Remove the temporary files that writers were killed over."""
    for folder in (store, store / "journal", store / "arrays"):
        for left in [*folder.glob(".*.partial"), *folder.glob(f".{RESULTS}-*")]:
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)


def create(place: str | Location, experiment: str) -> Store:
    """The store in a folder, created if there is none.

    Parameters
    ----------
    place : str, Path or ObjectPath
        The folder, created with its parents if it does not exist, or an address in an object
        store.
    experiment : str
        The experiment's name.

    Returns
    -------
    Store

    Raises
    ------
    StoreError
        If the folder holds something else, belongs to another experiment, or cannot be
        written.
    """
    path = located(place)
    with explained(path):
        if (path / "store.json").exists():
            return open_(path, experiment)
        if isinstance(path, Path):
            _make_folders(path)
        else:
            _refuse_strangers(path)
        content = {
            "format": _FORMAT,
            "identity": uuid.uuid4().hex,
            "experiment": experiment,
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        disk.write(path / "store.json", json.dumps(content, indent=1))
        if isinstance(path, Path):
            disk.synchronise(path.parent)
    return open_(path)


def _make_folders(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise StoreError(f"store {str(path)!r} is a file; give a folder as --store")
    path.mkdir(parents=True, exist_ok=True)
    _refuse_strangers(path)
    (path / "journal").mkdir(exist_ok=True)
    (path / "arrays").mkdir(exist_ok=True)


def _refuse_strangers(path: Location) -> None:
    strangers = [name for name in disk.names(path) if name not in ("journal", "arrays")]
    if strangers:
        raise StoreError(
            f"folder {str(path)!r} is not a store but holds {strangers[0]!r}; "
            "give a new or an empty folder as --store"
        )


def open_(place: str | Location, experiment: str | None = None) -> Store:
    """The store in a folder.

    Parameters
    ----------
    place : str, Path or ObjectPath
        The folder, or its address in an object store.
    experiment : str, optional
        The name of the experiment that the store has to belong to.

    Returns
    -------
    Store

    Raises
    ------
    StoreError
        If the folder is not a store, belongs to another experiment, or was made by a version
        of this project whose stores this one does not read.
    """
    path = located(place)
    try:
        content: dict[str, Any] = json.loads((path / "store.json").read_text(encoding="utf-8"))
        found = Store(path, content["identity"], content["experiment"])
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{str(path)!r} is not a store: it has no readable store.json; "
            "give the folder that was --store in 'sweep run'"
        ) from error
    except OSError as error:
        raise StoreError(f"store {str(path)!r} cannot be read: {_reason(error)}") from error
    _check_format(path, content.get("format"))
    if experiment not in (None, found.experiment):
        raise StoreError(
            f"store {str(path)!r} was made by experiment {found.experiment!r}, not by "
            f"{experiment!r}; give another folder as --store"
        )
    return found


def _check_format(path: Location, found: object) -> None:
    if found == _CALLED_METHOD:
        raise StoreError(
            f"store {str(path)!r} was made by an earlier version of this project, whose axis "
            "'mechanism' was called 'method'; use that version to read it, or give another --store"
        )
    if found != _FORMAT:
        raise StoreError(
            f"store {str(path)!r} has format {found!r}, but this version reads format {_FORMAT}; "
            "use the version that made it, or give another --store"
        )


@contextmanager
def _readable(path: Location) -> Iterator[Location]:
    try:
        yield path
    except (OSError, ValueError, TypeError) as error:
        raise StoreError(
            f"{str(path)!r} cannot be read ({error}); run the experiment again with this store "
            "to rewrite it"
        ) from error


@contextmanager
def explained(path: Location) -> Iterator[None]:
    """Turn errors of the disk into one sentence.

    Raises
    ------
    StoreError
        In place of any other OSError.
    """
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(
            f"store {str(path)!r} cannot be written: {_reason(error)}; earlier results are "
            "unharmed: make room or give another --store, and run again"
        ) from error


def _reason(error: OSError) -> str:
    return _REASONS.get(error.errno or 0, error.strerror or str(error))


def _remove(version: Location) -> None:
    """Remove a version of the dataset, as far as possible: leftovers do no harm."""
    with suppress(OSError):
        disk.remove(version)
    with suppress(OSError):
        manifest.beside(version).unlink(missing_ok=True)
