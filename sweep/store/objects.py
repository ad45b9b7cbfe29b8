"""Paths in an object store: as much of `pathlib.Path` as a store needs, over obstore."""

import errno
import fnmatch
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from pathlib import PurePosixPath
from typing import Any

from sweep.errors import StoreError
from sweep.store import credentials

_RETRIES = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}


class ChangedError(OSError):
    """The object is no longer the one that was to be replaced."""


class ObjectPath:
    """A key of an object store; keys below it are its content, as if it were a folder.

    Instances are immutable and travel to workers as text: each process opens its own connection,
    with the credentials of its own environment.

    Parameters
    ----------
    root : str
        Scheme and bucket: ``s3://bucket``.
    key : str
        The key, without a slash at either end.
    """

    __slots__ = ("key", "root")

    root: str
    key: str

    def __init__(self, root: str, key: str = "") -> None:
        object.__setattr__(self, "root", root)
        object.__setattr__(self, "key", key.strip("/"))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} of an ObjectPath cannot be changed")

    def __reduce__(self) -> tuple[type["ObjectPath"], tuple[str, str]]:
        return ObjectPath, (self.root, self.key)

    def __str__(self) -> str:
        return f"{self.root}/{self.key}"

    def __repr__(self) -> str:
        return f"ObjectPath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectPath) and str(self) == str(other)

    def __lt__(self, other: "ObjectPath") -> bool:
        return self.key < other.key

    def __gt__(self, other: "ObjectPath") -> bool:
        return self.key > other.key

    def __hash__(self) -> int:
        return hash(str(self))

    def __truediv__(self, name: str) -> "ObjectPath":
        return ObjectPath(self.root, f"{self.key}/{name}")

    @property
    def name(self) -> str:
        """The last part of the key."""
        return PurePosixPath(self.key).name

    @property
    def stem(self) -> str:
        """The last part of the key, without its suffix."""
        return PurePosixPath(self.key).stem

    @property
    def parent(self) -> "ObjectPath":
        """The path that this one is directly below."""
        return ObjectPath(self.root, self.key.rpartition("/")[0])

    def with_name(self, name: str) -> "ObjectPath":
        """The path of that name beside this one."""
        return ObjectPath(self.root, str(PurePosixPath(self.key).with_name(name)))

    def with_suffix(self, suffix: str) -> "ObjectPath":
        """The path that differs in its suffix."""
        return ObjectPath(self.root, str(PurePosixPath(self.key).with_suffix(suffix)))

    def relative_to(self, folder: "ObjectPath") -> PurePosixPath:
        """The rest of the key below a folder."""
        return PurePosixPath(self.key).relative_to(folder.key)

    def resolve(self) -> "ObjectPath":
        """The path itself: object stores have no links."""
        return self

    def exists(self) -> bool:
        """Whether there is an object of this key, or one below it."""
        return bool(self.names()) or self.is_file()

    def is_file(self) -> bool:
        """Whether there is an object of this key."""
        try:
            self.tagged()
        except FileNotFoundError:
            return False
        return True

    def names(self) -> list[str]:
        """Names of the objects and folders directly below it, sorted."""
        with self._explained():
            listing: Mapping[str, Any] = _obstore().list_with_delimiter(self._client, self.key)
        keys = [*listing["common_prefixes"], *(entry["path"] for entry in listing["objects"])]
        return sorted(PurePosixPath(key).name for key in keys if key.strip("/") != self.key)

    def tags(self) -> dict[str, str]:
        """The tags of the objects directly below it, by name."""
        with self._explained():
            listing: Mapping[str, Any] = _obstore().list_with_delimiter(self._client, self.key)
        return {PurePosixPath(item["path"]).name: str(item["e_tag"]) for item in listing["objects"]}

    def names_from(self, beginning: str) -> list[str]:
        """Names of the objects directly below it that begin so; the others are not listed."""
        names: list[str] = []
        with self._explained():
            after = f"{self.key}/{beginning}"
            for batch in _obstore().list(self._client, self.key, offset=after):
                for entry in batch:
                    if not entry["path"].startswith(after):
                        return names
                    names.append(PurePosixPath(entry["path"]).name)
        return names

    def iterdir(self) -> Iterator["ObjectPath"]:
        """What is directly below it."""
        return (self / name for name in self.names())

    def glob(self, pattern: str) -> Iterator["ObjectPath"]:
        """What is directly below it under names of this form."""
        return (self / name for name in self.names() if fnmatch.fnmatchcase(name, pattern))

    def files(self) -> list["ObjectPath"]:
        """All objects below it, however deep, sorted."""
        with self._explained():
            listed = _obstore().list(self._client, self.key)
            keys = sorted(entry["path"] for batch in listed for entry in batch)
        return [ObjectPath(self.root, key) for key in keys]

    def read_bytes(self) -> bytes:
        """The object's content."""
        with self._explained():
            return bytes(_obstore().get(self._client, self.key).bytes())

    def write_bytes(self, content: bytes) -> None:
        """Write the object, whole or not at all."""
        with self._explained():
            _obstore().put(self._client, self.key, content)

    def create(self, content: bytes) -> str:
        """Write the object unless there is one.

        Returns
        -------
        str
            The tag by which `replace` recognises it.

        Raises
        ------
        FileExistsError
            If there is one already.
        """
        with self._explained():
            return str(_obstore().put(self._client, self.key, content, mode="create")["e_tag"])

    def replace(self, content: bytes, tag: str) -> str:
        """Replace the object if it is still the one of that tag; its new tag.

        Raises
        ------
        ChangedError
            If it is another, or gone.
        """
        with self._explained():
            put = _obstore().put(self._client, self.key, content, mode={"e_tag": tag})
            return str(put["e_tag"])

    def tagged(self) -> tuple[str, datetime]:
        """The object's tag, and when it was written by the store's own clock."""
        with self._explained():
            head = _obstore().head(self._client, self.key)
        return str(head["e_tag"]), head["last_modified"]

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object; one that is not there is no error in any object store."""
        with self._explained():
            _obstore().delete(self._client, self.key)

    def move(self, new: "ObjectPath") -> None:
        """Copy the object to another key and remove it here."""
        with self._explained():
            _obstore().rename(self._client, self.key, new.key)

    def remove_all(self) -> None:
        """Remove everything below it."""
        keys = [path.key for path in self.files()]
        if keys:
            with self._explained():
                _obstore().delete(self._client, keys)

    def zarr(self) -> Any:
        """A zarr store of everything below it."""
        from zarr.storage import ObjectStore

        return ObjectStore(_client(str(self)))

    @property
    def _client(self) -> Any:
        return _client(self.root)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn obstore's errors into those of a file system."""
        failures = _obstore().exceptions
        try:
            yield
        except failures.AlreadyExistsError as error:
            raise FileExistsError(errno.EEXIST, "is there already", str(self)) from error
        except failures.PreconditionError as error:
            raise ChangedError(errno.EBUSY, "has changed", str(self)) from error
        except (failures.PermissionDeniedError, failures.UnauthenticatedError) as error:
            raise PermissionError(errno.EACCES, _sentence(error), str(self)) from error
        except failures.BaseError as error:
            raise OSError(errno.EIO, _sentence(error), str(self)) from error


def _sentence(error: Exception) -> str:
    """The first line of what obstore says, without the server's XML."""
    return str(error).partition("\n")[0].partition(": <?xml")[0]


@cache
def _client(address: str) -> Any:
    from_url = _obstore().store.from_url
    credentials.check(address)
    more = credentials.of_profile() if address.startswith("s3:") else {}
    return from_url(address, retry_config=_RETRIES, **more)


@cache
def _obstore() -> Any:
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError as error:
        raise StoreError(
            "stores on S3, Google Cloud or Azure need the package obstore; install "
            "fitness-sweep[objects], here and on the workers, or give a folder as --store"
        ) from error
    return obstore
