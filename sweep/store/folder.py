"""A store: the folder of one experiment's journal, dataset and arrays."""

import errno
import json
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweep.errors import DatasetError, StoreError
from sweep.store import disk, lock, manifest

RESULTS = "results.zarr"
_VERSIONS = ".results"
_FORMAT = 2
_CALLED_METHOD = 1
"""The last format whose ids and coordinates have ``method`` where ``mechanism`` is now."""

_ADDRESS = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:/+")
"""The beginning of a URL; `Path` turns its two slashes into one."""

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
    path : Path
        The store's folder.
    identity : str
        A random name, by which workers recognise the store.
    experiment : str
        The name of the experiment that created it.
    """

    path: Path
    identity: str
    experiment: str

    @property
    def journal(self) -> Path:
        """The folder of the journal's segments."""
        return self.path / "journal"

    @property
    def results(self) -> Path:
        """The dataset: a symbolic link to its newest version."""
        return self.path / RESULTS

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
        while self.results.exists():
            version = self.results.resolve()
            found = manifest.damage(version)
            if found is None or version == self.results.resolve():
                return found
        return None

    def describe(self, text: str, cells: Iterable[str]) -> None:
        """Note the current text of the experiment and the ids of its cells."""
        with explained(self.path):
            disk.write(self.path / "experiment.yaml", text)
            disk.write(self.path / "cells.json", json.dumps(sorted(cells)))

    def publish(self, write: Callable[[Path], None]) -> Path:
        """Replace the dataset as a whole: readers see the old one or the new one.

        Parameters
        ----------
        write : callable
            Writes the new dataset into the folder that it is given.

        Returns
        -------
        Path
            The dataset's path, the same for every version.

        Raises
        ------
        DatasetError
            If it cannot be written; the old dataset stays in place then.
        """
        versions = self.path / _VERSIONS
        try:
            versions.mkdir(exist_ok=True)
            old = sorted(int(p.stem) for p in versions.glob("*.zarr") if p.stem.isdigit())
            fresh = versions / f"{(old[-1] + 1 if old else 1):06d}.zarr"
            self._put_in_place(fresh, write)
        except OSError as error:
            raise DatasetError(
                f"the dataset of store {str(self.path)!r} cannot be written: {_reason(error)}; "
                "what was solved is in the journal: make room, and 'sweep run' derives the "
                "dataset from it"
            ) from error
        for number in old[:-1]:
            _remove(versions / f"{number:06d}.zarr")
        return self.results

    def _put_in_place(self, fresh: Path, write: Callable[[Path], None]) -> None:
        """Write a version of the dataset and have the link lead to it; or leave nothing of it."""
        link = self.path / f".{RESULTS}-{uuid.uuid4().hex}"
        try:
            write(fresh)
            manifest.write(fresh)
            link.symlink_to(fresh.relative_to(self.path), target_is_directory=True)
            disk.rename(link, self.results)
        except OSError:
            link.unlink(missing_ok=True)
            _remove(fresh)
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
                check = stack.enter_context(lock.held(self.path))
            self._tidy()
            yield check

    @property
    def user(self) -> str | None:
        """The process that holds the lock, in words; None if there is none."""
        return lock.holder(self.path)

    def _tidy(self) -> None:
        """Remove files that a killed run left half-written."""
        for folder in (self.path, self.journal, self.path / "arrays"):
            for left in [*folder.glob(".*.partial"), *folder.glob(f".{RESULTS}-*")]:
                if left.is_dir() and not left.is_symlink():
                    shutil.rmtree(left, ignore_errors=True)
                else:
                    left.unlink(missing_ok=True)
        current = self.results.resolve()
        if self.results.exists():
            for version in (self.path / _VERSIONS).glob("*.zarr"):
                if version.resolve() > current:
                    _remove(version)


def create(path: Path, experiment: str) -> Store:
    """The store in a folder, created if there is none.

    Parameters
    ----------
    path : Path
        The folder; created with its parents if it does not exist.
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
    refuse_address(path)
    if (path / "store.json").exists():
        return open_(path, experiment)
    if path.exists() and not path.is_dir():
        raise StoreError(f"store {str(path)!r} is a file; give a folder as --store")
    with explained(path):
        path.mkdir(parents=True, exist_ok=True)
        strangers = sorted(entry.name for entry in path.iterdir())
        if strangers and set(strangers) - {"journal", "arrays"}:
            raise StoreError(
                f"folder {str(path)!r} is not a store but holds {strangers[0]!r}; "
                "give a new or an empty folder as --store"
            )
        (path / "journal").mkdir(exist_ok=True)
        (path / "arrays").mkdir(exist_ok=True)
        content = {
            "format": _FORMAT,
            "identity": uuid.uuid4().hex,
            "experiment": experiment,
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        disk.write(path / "store.json", json.dumps(content, indent=1))
        disk.synchronise(path.parent)
    return open_(path)


def open_(path: Path, experiment: str | None = None) -> Store:
    """The store in a folder.

    Parameters
    ----------
    path : Path
        The folder.
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
    refuse_address(path)
    try:
        content: dict[str, Any] = json.loads((path / "store.json").read_text(encoding="utf-8"))
        found = Store(path, content["identity"], content["experiment"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{str(path)!r} is not a store: it has no readable store.json; "
            "give the folder that was --store in 'sweep run'"
        ) from error
    _check_format(path, content.get("format"))
    if experiment not in (None, found.experiment):
        raise StoreError(
            f"store {str(path)!r} was made by experiment {found.experiment!r}, not by "
            f"{experiment!r}; give another folder as --store"
        )
    return found


def _check_format(path: Path, found: object) -> None:
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


def refuse_address(path: str | Path) -> None:
    """Refuse the address of an object store or a server.

    Raises
    ------
    StoreError
        If it begins as a URL does.
    """
    written = str(path)
    if _ADDRESS.match(written):
        address = written if "://" in written else written.replace(":/", "://", 1)
        raise StoreError(
            f"store {address!r} is an address; a store is a folder on a local or shared disk: "
            "give the path of one"
        )


@contextmanager
def _readable(path: Path) -> Iterator[Path]:
    try:
        yield path
    except (OSError, ValueError, TypeError) as error:
        raise StoreError(
            f"{str(path)!r} cannot be read ({error}); run the experiment again with this store "
            "to rewrite it"
        ) from error


@contextmanager
def explained(path: Path) -> Iterator[None]:
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


def _remove(version: Path) -> None:
    """Remove a version of the dataset, as far as possible: leftovers do no harm."""
    shutil.rmtree(version, ignore_errors=True)
    with suppress(OSError):
        manifest.beside(version).unlink(missing_ok=True)
