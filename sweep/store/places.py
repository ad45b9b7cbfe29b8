"""The place of a store: a folder on a local or shared disk, or a prefix of an object store.

`DiskPath` and `ObjectPath` share an interface, the part of `pathlib.Path` that a store needs. A
file is written whole or not at all, even if the process is killed or the power fails. An object
store guarantees this itself. On a disk, a temporary file, fsync and a rename guarantee it.
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
from pathlib import Path, PosixPath, PurePosixPath
from types import SimpleNamespace
from typing import Any, BinaryIO, TypeVar
from urllib.parse import unquote

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from sweep.errors import StoreError

_FSYNC_UNSUPPORTED = {errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF}
"""The errno values of file systems that cannot synchronise a folder."""


Content = TypeVar("Content")


class DiskPath(PosixPath):
    """A path on a disk."""

    @contextmanager
    def writing(
        self, finish: Callable[["DiskPath", "DiskPath"], object] = PosixPath.replace
    ) -> Iterator[BinaryIO]:
        """A stream for a file's new content, which replaces the file as a whole at the end.

        The new content is then synchronised to the disk. After an error, an old file is unchanged,
        and no temporary file is left behind.
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

    def write_bytes(self, content: Any) -> int:
        """Write a file as a whole, and synchronise it to the disk."""
        with self.writing() as stream:
            return stream.write(content)

    def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write files, by relative path, into a folder that nobody reads yet.

        The files are not synchronised to the disk.
        """
        for name, content in files.items():
            path = self / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as stream:
                stream.write(content)

    def create(self, content: bytes) -> None:
        """Write a file like `write_bytes`, unless the file exists.

        Raises
        ------
        FileExistsError
            If the file exists, even if another process has only just created it.
        """
        with self.writing(_link) as stream:
            stream.write(content)

    def append(self, content: bytes) -> None:
        """Append to a file; only one process at a time may append to the same file."""
        with self.open("ab") as stream:
            stream.write(content)

    def synchronise(self) -> None:
        """Synchronise the entries of a folder, if the file system supports that."""
        try:
            descriptor = os.open(self, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno not in _FSYNC_UNSUPPORTED:
                raise

    def make_folder(self) -> None:
        """Create a folder and its parents if needed, and synchronise the folder's entry."""
        self.mkdir(parents=True, exist_ok=True)
        self.parent.synchronise()

    def lead_to(self, target: str) -> None:
        """Make this path a symbolic link to an entry of the same folder."""
        link = self.with_name(f".{self.name}.{uuid.uuid4().hex}.partial")
        link.symlink_to(target, target_is_directory=True)
        if not self.is_symlink():
            self.remove()  # a folder, if the store was copied with its links followed
        link.replace(self)
        self.parent.synchronise()

    def followed(self) -> "DiskPath":
        """The path itself: if it is a link, opening the path follows the link."""
        return self

    def names(self) -> list[str]:
        """The names in a folder, sorted."""
        return sorted(os.listdir(self))

    def stamps(self) -> dict[str, str]:
        """Stamps of the files directly in a folder, by name; rewriting a file changes its stamp."""
        with os.scandir(self) as entries:
            stats = ((entry.name, entry.stat()) for entry in entries)
            return {name: f"{status.st_size} {status.st_mtime_ns}" for name, status in stats}

    def files(self) -> dict[str, "DiskPath"]:
        """All files in a folder and its subfolders, by path relative to the folder."""
        paths = sorted(self.rglob("*"))
        return {str(path.relative_to(self)): path for path in paths if path.is_file()}

    def remove(self) -> None:
        """Remove a folder and its content as far as possible."""
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
    """A key of an object store; keys below this key are its content, as if it were a folder.

    Instances travel to workers as text: each process opens its own connection, with the credentials
    in the environment of that process. Methods are as in `DiskPath`.
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
        """The path itself: object stores have no links."""
        return self

    def is_file(self) -> bool:
        """Whether there is an object with this key."""
        return self.name in self.parent.names()

    def stat(self) -> Any:
        """Size and time of writing (by the clock of the object store), named as in ``os.stat``."""
        head = self._ask(lambda bucket: bucket.head(self.key))
        return SimpleNamespace(st_size=head["size"], st_mtime=head["last_modified"].timestamp())

    def lead_to(self, target: str) -> None:
        """Make this path point to a key with the same parent; an object stores that key's name."""
        self.with_suffix(".json").write_bytes(json.dumps(target).encode())

    def followed(self) -> "ObjectPath":
        """The path to which this path points, or this path itself if it points to none."""
        try:
            return self.parent / str(json.loads(self.with_suffix(".json").read_bytes()))
        except (FileNotFoundError, ValueError):
            return self

    def names(self) -> list[str]:
        """The names directly below this key, sorted."""
        listing = self._ask(lambda bucket: bucket.list_with_delimiter(self.key))
        keys = [*listing["common_prefixes"], *(entry["path"] for entry in listing["objects"])]
        return sorted(PurePosixPath(key).name for key in keys if key.strip("/") != self.key)

    def stamps(self) -> dict[str, str]:
        """The tags of the objects directly below this key, by name."""
        listing = self._ask(lambda bucket: bucket.list_with_delimiter(self.key))
        return {PurePosixPath(one["path"]).name: str(one["e_tag"]) for one in listing["objects"]}

    def files(self) -> dict[str, "ObjectPath"]:
        """All objects below this key, by key relative to this key."""
        entries = self._ask(lambda bucket: bucket.list(self.key).collect())
        paths = (ObjectPath(self.bucket, key) for key in sorted(one["path"] for one in entries))
        return {str(path.relative_to(self)): path for path in paths}

    def read_bytes(self) -> bytes:
        """The object's content."""
        return bytes(self._ask(lambda bucket: bucket.get(self.key).bytes()))

    def write_bytes(self, content: bytes, mode: Any = "overwrite") -> int:
        """Write the object; ``mode`` is passed to obstore."""
        self._ask(lambda bucket: bucket.put(self.key, content, mode=mode))
        return len(content)

    def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write objects below this key."""
        for name, content in files.items():
            (self / name).write_bytes(content)

    @contextmanager
    def writing(self) -> Iterator[BinaryIO]:
        """A stream for the object's content, which is written at the end."""
        stream = io.BytesIO()
        yield stream
        self.write_bytes(stream.getvalue())

    def create(self, content: bytes) -> None:
        """Write the object; raises FileExistsError if it exists already."""
        self.write_bytes(content, "create")

    def touch(self) -> None:
        """Write the object's content again, which renews the object's time of writing."""
        self.write_bytes(self.read_bytes())

    def append(self, content: bytes) -> None:
        """Append to the object; only one process at a time may append to the same object."""
        self.write_bytes((self.read_bytes() if self.is_file() else b"") + content)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object; it is never an error if the object is missing."""
        self._ask(lambda bucket: bucket.delete(self.key))

    def rename(self, target: Any) -> None:
        """Move the object to another key."""
        self._ask(lambda bucket: bucket.rename(self.key, target.key))

    def make_folder(self) -> None:
        """Do nothing: a prefix exists as soon as there is a key below it."""

    def remove(self) -> None:
        """Remove everything below this key."""
        keys = [path.key for path in self.files().values()]
        if keys:
            self._ask(lambda bucket: bucket.delete(keys))

    def _ask(self, request: Callable[[Any], Any]) -> Any:
        """The result of ``request`` for the bucket; obstore's errors become those of a disk."""
        bucket = _client(self.bucket)
        from obstore import exceptions

        try:
            return request(bucket)
        except exceptions.BaseError as error:
            known = isinstance(error, exceptions.AlreadyExistsError)
            number = errno.EEXIST if known else errno.EIO
            raise OSError(number, _sentence(error), str(self)) from error


Location = DiskPath | ObjectPath

_RETRIES = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}
_CREDENTIALS = {"AWS_PROFILE", "AWS_ACCESS_KEY_ID"}
_ADDRESS = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):/+(?=[^/]|$)")
_OBJECT_STORES = ("s3", "gs", "az", "abfs", "abfss")


def location(written: str | Path | Location) -> Location:
    """The `DiskPath` or `ObjectPath` that a path or an address names.

    Parameters
    ----------
    written : str, Path or ObjectPath
        A folder, or ``s3://BUCKET/PREFIX``, ``gs://...``, ``az://CONTAINER/...`` or
        ``file:///...``. An address may also be a `Path`, which merges its two slashes into one.

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
    if scheme == "file":
        return DiskPath("/" + unquote(rest))
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
    """The content of a small JSON file of a store, validated by a schema.

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
    """The error for a store, or a part of a store, that cannot be read."""
    cause = reason(error) if isinstance(error, OSError) else error
    return StoreError(f"{str(path)!r} cannot be read ({cause}); {remedy}")


def clock(folder: Location) -> float:
    """The current time on the clock that dates a folder's files; it may be the clock of a server.

    This machine's own clock is used if the folder cannot be written.
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
def explained(path: Location) -> Iterator[None]:
    """Turn an error in writing a store into a StoreError, whose message is one sentence."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(
            f"store {str(path)!r} cannot be written: {reason(error)}; earlier results are "
            "unharmed: correct this, and give the same command again"
        ) from None


def reason(error: OSError) -> str:
    """The cause of an error of a disk or an object store, in words."""
    return error.strerror or str(error)


def _sentence(error: Exception) -> str:
    """The first line of obstore's message, without the server's XML."""
    return str(error).partition("\n")[0].partition(": <?xml")[0]


@cache
def _client(address: str) -> Any:
    """A connection to a bucket."""
    more: dict[str, Any] = {}
    try:
        from obstore import store

        # boto3 reads a profile's credentials and obstore does not
        if address.startswith("s3:") and os.environ.keys() & _CREDENTIALS == {"AWS_PROFILE"}:
            from obstore.auth.boto3 import Boto3CredentialProvider

            more = {"credential_provider": Boto3CredentialProvider()}
        connect: Any = store.from_url
        return connect(address, retry_config=_RETRIES, **more)
    except Exception as error:  # boto3 raises many kinds, and a package may be missing
        raise StoreError(
            f"store {address!r} cannot be opened: {_sentence(error)}; install fitness-sweep"
            "[objects] (and boto3 for AWS_PROFILE) here and on the workers, correct the address "
            "and the credentials in the environment, or give a folder as --store"
        ) from error
