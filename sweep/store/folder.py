"""A store: the folder of one experiment's journal, dataset and arrays, on a disk or elsewhere."""

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sweep.errors import StoreError
from sweep.store import arrays, disk, lock
from sweep.store.dataset_folder import DatasetFolder
from sweep.store.disk_errors import explained, readable, reason
from sweep.store.holder import in_use
from sweep.store.keys import KEY, Keys
from sweep.store.lease import LEASE, Check
from sweep.store.location import Location, located

_FORMAT = 2
_ABOUT = "store.json"
_BETWEEN = b'", "'
"""What stands between two ids in the list of cells."""
_CALLED_METHOD = 1
"""The last format whose ids and coordinates have ``method`` where ``mechanism`` is now."""


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
    def text(self) -> str:
        """The experiment's effective YAML."""
        with readable(self.path / "experiment.yaml") as path:
            return disk.text(path)

    @property
    def cells(self) -> Keys:
        """Ids of the cells of the experiment's grids; none if there is no experiment in it yet."""
        if not (self.path / "cells.json").exists():
            return np.empty(0, KEY)
        with readable(self.path / "cells.json") as path:
            return _listed(disk.content(path))

    @property
    def dataset(self) -> DatasetFolder:
        """The dataset."""
        return DatasetFolder(self.path)

    def describe(self, text: str, cells: Keys) -> None:
        """Note the current text of the experiment and the ids of its cells.

        Whenever this is killed, all cells that are listed are of the experiment as it is noted.
        """
        known = self.cells
        same = np.array_equal(cells, known)
        with explained(self.path):
            if not same and len(common := np.intersect1d(cells, known)) < len(known):
                self._list(common)
            disk.write(self.path / "experiment.yaml", text)
            if not same:
                self._list(cells)

    def _list(self, cells: Keys) -> None:
        ids = b'["%b"]' % _BETWEEN.join(cells.tolist()) if len(cells) else b"[]"
        disk.write(self.path / "cells.json", ids)

    @contextmanager
    def locked(self) -> Iterator[Check]:
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

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Keep every run out of the store while it is read, as `locked` does.

        A store that cannot be written takes no lock: it is looked, before and after, that nobody
        else has it.

        Raises
        ------
        StoreError
            If another run holds the lock.
        """
        with ExitStack() as stack:
            try:
                stack.enter_context(lock.held(self.path))
            except OSError:
                self._check_unused()
                stack.callback(self._check_unused)
            else:
                self._tidy()
            yield

    def _tidy(self) -> None:
        """Undo what a killed run left half-done."""
        with explained(self.path):
            arrays.restore(self.path)
        self.dataset.tidy()

    def _check_unused(self) -> None:
        user = self.user
        if user is not None:
            raise in_use(self.path, user)

    @property
    def user(self) -> str | None:
        """The process that holds the lock, in words; None if there is none."""
        with readable(self.path / LEASE):
            return lock.user(self.path)


def _listed(ids: bytes) -> Keys:
    """The ids in a JSON list; as text there is none of them, if they stand as `describe` writes."""
    held, each = ids[2:-2] + _BETWEEN, np.dtype([("id", KEY), ("between", f"S{len(_BETWEEN)}")])
    if (ids[:2], ids[-2:], len(held) % each.itemsize) == (b'["', b'"]', 0):
        array = np.frombuffer(held, each)
        if (array["between"] == _BETWEEN).all():
            return array["id"].copy()
    return np.array(json.loads(ids), dtype=np.bytes_)


def create(place: str | Location, experiment: str) -> Store:
    """The store in a folder, created if there is none.

    Parameters
    ----------
    place : str, Path or ObjectPath
        The folder, created with its parents if it does not exist, or an address in an object
        store.
    experiment : str
        The experiment's name.

    Raises
    ------
    StoreError
        If the folder holds something else, belongs to another experiment, or cannot be
        written.
    """
    path = located(place)
    with explained(path):
        if not (path / _ABOUT).exists():
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
            with suppress(FileExistsError):  # another run has just created it
                disk.create(path / _ABOUT, json.dumps(content, indent=1))
            if isinstance(path, Path):
                disk.synchronise(path.parent)
    return open_(path, experiment)


def occupied(path: Location) -> bool:
    """Whether a run would find something where its store is to be.

    Raises
    ------
    StoreError
        If it is a file, or cannot be read.
    """
    _refuse_files(path)
    try:
        return path.exists() and bool(disk.names(path))
    except OSError as error:
        raise StoreError(f"store {str(path)!r} cannot be read: {reason(error)}") from error


def _refuse_files(path: Location) -> None:
    if isinstance(path, Path) and path.exists() and not path.is_dir():
        raise StoreError(f"store {str(path)!r} is a file; give a folder as --store")


def _make_folders(path: Path) -> None:
    _refuse_files(path)
    path.mkdir(parents=True, exist_ok=True)
    _refuse_strangers(path)
    (path / "journal").mkdir(exist_ok=True)
    (path / "arrays").mkdir(exist_ok=True)


def _refuse_strangers(path: Location) -> None:
    names = disk.names(path)
    strangers = [
        name
        for name in names
        if name not in ("journal", "arrays") and not name.startswith(f".{_ABOUT}.")
    ]
    if strangers and _ABOUT not in names:
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

    Raises
    ------
    StoreError
        If the folder is not a store, belongs to another experiment, or was made by a version
        of this project whose stores this one does not read.
    """
    path = located(place)
    try:
        content: dict[str, Any] = json.loads(disk.text(path / _ABOUT))
        store = Store(path, content["identity"], content["experiment"])
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{str(path)!r} is not a store: it has no readable store.json; "
            "give the folder that was --store in 'sweep run'"
        ) from error
    except OSError as error:
        raise StoreError(f"store {str(path)!r} cannot be read: {reason(error)}") from error
    _check_format(path, content.get("format"))
    if experiment not in (None, store.experiment):
        raise StoreError(
            f"store {str(path)!r} was made by experiment {store.experiment!r}, not by "
            f"{experiment!r}; give another folder as --store"
        )
    return store


def _check_format(path: Location, version: object) -> None:
    if version == _CALLED_METHOD:
        raise StoreError(
            f"store {str(path)!r} was made by an earlier version of this project, whose axis "
            "'mechanism' was called 'method'; use that version to read it, or give another --store"
        )
    if version != _FORMAT:
        raise StoreError(
            f"store {str(path)!r} has format {version!r}, but this version reads format {_FORMAT}; "
            "use the version that made it, or give another --store"
        )
