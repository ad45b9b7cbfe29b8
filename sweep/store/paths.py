"""Paths of stores: folders on a local or shared disk, or prefixes of an object store.

`DiskPath` and `ObjectPath` share an interface: the methods of `pathlib.Path` that a store needs,
and a few more. A file is written completely or not at all, even if the process is killed or the
power fails. An object store guarantees this itself. On a disk, a temporary file, fsync and a rename
guarantee it.
"""

import errno
import io
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from pathlib import Path, PosixPath, PurePath, PurePosixPath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from sweep.errors import StoreError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from obstore.store import ObjectStore, RetryConfig

Content = TypeVar("Content")
Answer = TypeVar("Answer")
_Mode = Literal["overwrite", "create"]


class DiskPath(PosixPath):
    """A path on a disk."""

    @contextmanager
    def writing(
        self, finish: Callable[["DiskPath", "DiskPath"], object] = PosixPath.replace
    ) -> Iterator[BinaryIO]:
        """Open a stream for the file's new content, which replaces the old content at the end.

        The stream writes a temporary file, which is synchronised to the disk and then passed to
        ``finish`` with the final path. After an error the old content is unchanged, and the
        temporary file is removed.
        """
        partial = self.with_name(f".{self.name}.{uuid.uuid4().hex}.partial")
        try:
            with partial.open("xb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            finish(partial, self)
            self.parent.synchronise()
        finally:
            partial.unlink(missing_ok=True)

    def reading(self) -> BinaryIO:
        """Open a stream of the file's content, which replacing the file does not change."""
        return self.open("rb")

    def write_bytes(self, content: "ReadableBuffer") -> int:
        """Replace the file's content as a whole, and synchronise it to the disk."""
        with self.writing() as stream:
            return stream.write(content)

    def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write files, given by relative path, into this folder; they are not synchronised.

        No other process may be reading the folder yet.
        """
        for name, content in files.items():
            path = self / name
            path.parent.mkdir(parents=True, exist_ok=True)
            PosixPath.write_bytes(path, content)

    def create(self, content: bytes) -> None:
        """Create the file with this content and synchronise it to the disk.

        Raises
        ------
        FileExistsError
            If the file exists, even if another process has only just created it.
        """
        with self.writing(_link) as stream:
            stream.write(content)

    def append(self, content: bytes) -> None:
        """Append to the file; only one process at a time may append to the same file."""
        with self.open("ab") as stream:
            stream.write(content)

    def synchronise(self) -> None:
        """Synchronise this folder's list of entries to the disk, if the file system can do so."""
        with suppress(OSError):
            descriptor = os.open(self, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def make_folder(self) -> None:
        """Create this folder and its parents if needed, and synchronise the parent folder."""
        self.mkdir(parents=True, exist_ok=True)
        self.parent.synchronise()

    def lead_to(self, target: str) -> None:
        """Make this path a symbolic link to ``target``, a path relative to this path's folder."""
        link = self.with_name(f".{self.name}.{uuid.uuid4().hex}.partial")
        link.symlink_to(target, target_is_directory=True)
        if not self.is_symlink():
            self.remove()  # a copy of a store may contain a folder instead of the link
        link.replace(self)
        self.parent.synchronise()

    def names(self) -> list[str]:
        """Return the names of the entries of this folder, sorted."""
        return sorted(os.listdir(self))

    def stamps(self) -> dict[str, str]:
        """Return a stamp, the size and modification time, of every entry of this folder."""
        with os.scandir(self) as entries:
            stats = ((entry.name, entry.stat()) for entry in entries)
            return {name: f"{status.st_size} {status.st_mtime_ns}" for name, status in stats}

    def files(self) -> dict[str, "DiskPath"]:
        """Return all files in this folder and its subfolders, by relative path."""

        def refuse(error: OSError) -> None:
            raise error

        walked = os.walk(self, onerror=refuse)  # rglob leaves out folders that cannot be read
        paths = sorted(self / folder / name for folder, _, names in walked for name in names)
        return {str(path.relative_to(self)): path for path in paths}

    def remove(self) -> None:
        """Remove this folder and its content as far as possible."""
        shutil.rmtree(self, ignore_errors=True)


def _link(partial: DiskPath, final: DiskPath) -> None:
    """Give a file its final name; raises FileExistsError if the name is taken."""
    try:
        os.link(partial, final)
    except FileExistsError:
        raise
    except OSError:  # a disk without links
        final.open("xb").close()
        partial.replace(final)


class ObjectPath(PurePosixPath):
    """A key in an object store; like a folder, it contains the keys below it.

    An instance has no connection: every process that uses the path opens a connection, with the
    credentials in the process's environment. The methods do the same as those of `DiskPath`.
    """

    def __str__(self) -> str:
        return super().__str__().replace(":/", "://", 1)

    @property
    def bucket(self) -> str:
        """The scheme and the bucket, such as ``s3://bucket``."""
        return "//".join(self.parts[:2])

    @property
    def key(self) -> str:
        """The key within the bucket."""
        return "/".join(self.parts[2:])

    def resolve(self) -> "ObjectPath":
        """Return the path itself: object stores have no links."""
        return self

    def is_file(self) -> bool:
        """Return whether there is an object with this key."""
        return self.name in self.parent.names()

    def stat(self) -> SimpleNamespace:
        """Return the object's size and time of writing, with the attribute names of `os.stat`."""
        head = self._ask(lambda bucket: bucket.head(self.key))
        return SimpleNamespace(st_size=head["size"], st_mtime=head["last_modified"].timestamp())

    def lead_to(self, target: str) -> None:
        """Make this path a pointer to ``target``, a path relative to this path's parent.

        The pointer is an object that contains ``target``; its path is this path with the suffix
        replaced by ``.json``.
        """
        self.with_suffix(".json").write_bytes(json.dumps(target).encode())

    def followed(self) -> "ObjectPath":
        """Return the path to which this path points; without a pointer, this path itself."""
        try:
            return self.parent / str(json.loads(self.with_suffix(".json").read_bytes()))
        except (FileNotFoundError, ValueError):
            return self

    def names(self) -> list[str]:
        """Return the names directly below this key, sorted."""
        listing = self._ask(lambda bucket: bucket.list_with_delimiter(self.key))
        keys = [*listing["common_prefixes"], *(entry["path"] for entry in listing["objects"])]
        return sorted(PurePosixPath(key).name for key in keys if key.strip("/") != self.key)

    def stamps(self) -> dict[str, str]:
        """Return the entity tags of the objects directly below this key, by name."""
        listing = self._ask(lambda bucket: bucket.list_with_delimiter(self.key))
        return {PurePosixPath(one["path"]).name: str(one["e_tag"]) for one in listing["objects"]}

    def files(self) -> dict[str, "ObjectPath"]:
        """Return the paths of all objects below this key, by path relative to this key."""
        entries = self._ask(lambda bucket: bucket.list(self.key).collect())
        paths = (ObjectPath(self.bucket, key) for key in sorted(one["path"] for one in entries))
        return {str(path.relative_to(self)): path for path in paths}

    def reading(self) -> BinaryIO:
        """Return a stream of the object's content, which is in memory."""
        return io.BytesIO(self.read_bytes())

    def read_bytes(self) -> bytes:
        """Return the object's content."""
        return bytes(self._ask(lambda bucket: bucket.get(self.key).bytes()))

    def write_bytes(self, content: bytes, mode: _Mode = "overwrite") -> int:
        """Write the object; ``mode`` is passed to obstore."""
        self._ask(lambda bucket: bucket.put(self.key, content, mode=mode))
        return len(content)

    def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write objects below this key."""
        for name, content in files.items():
            (self / name).write_bytes(content)

    @contextmanager
    def writing(self) -> Iterator[BinaryIO]:
        """Open a stream in memory for the object's content; the object is written at the end."""
        stream = io.BytesIO()
        yield stream
        self.write_bytes(stream.getvalue())

    def create(self, content: bytes) -> None:
        """Write the object; raise FileExistsError if it already exists."""
        self.write_bytes(content, "create")

    def touch(self) -> None:
        """Write the object's content again, to update its time of writing."""
        self.write_bytes(self.read_bytes())

    def append(self, content: bytes) -> None:
        """Append to the object; only one process at a time may append to the same object."""
        self.write_bytes((self.read_bytes() if self.is_file() else b"") + content)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object; a missing object is not an error, whatever ``missing_ok`` is."""
        self._ask(lambda bucket: bucket.delete(self.key))

    def rename(self, target: PurePath) -> None:
        """Move the object to another key."""
        self._ask(lambda bucket: bucket.rename(self.key, "/".join(target.parts[2:])))

    def make_folder(self) -> None:
        """Do nothing: a prefix exists as soon as there is a key below it."""

    def remove(self) -> None:
        """Remove everything below this key."""
        keys = [path.key for path in self.files().values()]
        if keys:
            self._ask(lambda bucket: bucket.delete(keys))

    def _ask(self, request: Callable[["ObjectStore"], Answer]) -> Answer:
        """Return ``request(bucket)`` for this key's bucket; raise obstore's errors as `OSError`."""
        bucket = connect(self.bucket)
        from obstore import exceptions

        try:
            return request(bucket)
        except exceptions.BaseError as error:
            known = isinstance(error, exceptions.AlreadyExistsError)
            number = errno.EEXIST if known else errno.EIO
            raise OSError(number, _sentence(error), str(self)) from error


Location = DiskPath | ObjectPath

RETRIES: "RetryConfig" = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}
_CREDENTIALS = {"AWS_PROFILE", "AWS_ACCESS_KEY_ID"}
_ADDRESS = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):/+(?=[^/]|$)")
_OBJECT_STORES = ("s3", "gs", "az", "abfs", "abfss")


def locate(written: str | Path | Location) -> Location:
    """Return the `DiskPath` or `ObjectPath` of a path or an address.

    Parameters
    ----------
    written : str, Path or ObjectPath
        A folder, or ``s3://BUCKET/PREFIX``, ``gs://...`` or ``az://CONTAINER/...``. An address may
        also be given as a `Path`, which turns ``//`` into ``/``.

    Raises
    ------
    StoreError
        If ``written`` is empty or not a valid address.
    """
    if isinstance(written, ObjectPath | DiskPath):
        return written
    if not str(written).strip():
        raise StoreError("the store has an empty name; give a folder or an address")
    match = _ADDRESS.match(str(written))
    if match is None:
        return DiskPath(os.path.expanduser(written))
    scheme, rest = match[1].lower(), str(written)[match.end() :]
    address = f"{scheme}://{rest}"
    if scheme not in _OBJECT_STORES or not rest or not {"?", "#"}.isdisjoint(rest):
        raise StoreError(
            f"store {address!r} is not a valid address; expected a folder, s3://BUCKET/PREFIX, "
            "gs://BUCKET/PREFIX or az://CONTAINER/PREFIX, and credentials in the environment"
        )
    return ObjectPath(address)


@cache
def _adapter(schema: Any) -> TypeAdapter[Any]:
    return TypeAdapter(schema)


def parsed(content: bytes | str, schema: type[Content]) -> Content:
    """Parse the content of a small JSON file of a store, and validate it with a schema.

    Parameters
    ----------
    content : bytes or str
        The content of the file: JSON.
    schema : type
        A dataclass, or any other type that pydantic validates.

    Raises
    ------
    ValueError
        If the content is not JSON, or does not fit the schema; the message is one line.
    """
    kind: Any = schema
    try:
        found: Content = _adapter(kind).validate_python(from_json(content, allow_inf_nan=False))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from None
    return found


def unreadable(
    path: Path | Location,
    error: OSError | ValueError,
    remedy: str = "move it away and run the experiment again with this store, which writes it anew",
) -> StoreError:
    """Return the error to raise if a store, or a file of a store, cannot be read."""
    cause = reason(error) if isinstance(error, OSError) else error
    return StoreError(f"{str(path)!r} cannot be read ({cause}); {remedy}")


def clock(folder: Location) -> float:
    """Return the current time by the clock that dates a folder's files, perhaps a file server's.

    If the folder cannot be written, return the time of this machine's clock.
    """
    probe = folder / f".{uuid.uuid4().hex}.partial"
    try:
        probe.write_bytes(b"")
        return float(probe.stat().st_mtime)
    except OSError:
        return time.time()
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)


@contextmanager
def store_errors(path: Location) -> Iterator[None]:
    """Convert an `OSError` from writing a store into a StoreError with a one-sentence message."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(
            f"store {str(path)!r} cannot be written: {reason(error)}; earlier results are "
            "intact: correct this, and run the same command again"
        ) from None


def reason(error: OSError) -> str:
    """Describe the cause of an error of a disk or an object store."""
    return error.strerror or str(error)


def _sentence(error: Exception) -> str:
    """Return the first line of obstore's message, without the XML of the server's response."""
    return str(error).partition("\n")[0].partition(": <?xml")[0]


@cache
def connect(address: str) -> "ObjectStore":
    """Return a connection to a bucket; raise StoreError if the bucket cannot be opened."""
    provider = None
    try:
        from obstore import store

        # boto3 reads a profile's credentials and obstore does not
        if address.startswith("s3:") and os.environ.keys() & _CREDENTIALS == {"AWS_PROFILE"}:
            from obstore.auth.boto3 import Boto3CredentialProvider

            provider = Boto3CredentialProvider()
        return store.from_url(address, retry_config=RETRIES, credential_provider=provider)
    except Exception as error:  # boto3 raises many types of errors, and a package may be missing
        raise StoreError(
            f"store {address!r} cannot be opened: {_sentence(error)}; install fitness-sweep"
            "[objects] (and boto3 for AWS_PROFILE) here and on the workers, correct the address "
            "and the credentials in the environment, or give a folder as --store"
        ) from error
