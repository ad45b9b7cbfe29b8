"""Files that exist whole or not at all, whatever is killed and whenever the power fails.

On a disk that takes care; an object store does it by itself.
"""

import errno
import io
import os
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from sweep.store.location import Location

_UNSUPPORTED = {errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF}
"""What is said of a folder that cannot be synchronised, or not by us; nothing better can be had."""
_LARGE = 2**28
_MOST_COMPRESSED = 1000
"""How many bytes of a large file one byte on the disk may stand for: some compress."""


def write(final: Location, content: str | bytes, unique: str = "") -> None:
    """Write a file under a temporary name, synchronise it, rename it, synchronise its folder.

    Parameters
    ----------
    final : Path or ObjectPath
        The file; one that is there already is replaced.
    content : str or bytes
        What it holds; texts in UTF-8.
    unique : str
        What tells this writer from others of the same file.

    Raises
    ------
    OSError
        If the disk does not take it; no temporary file is left behind then.
    """
    held = content.encode() if isinstance(content, str) else content
    write_by(final, lambda stream: stream.write(held), unique)


def write_by(final: Location, save: Callable[[BinaryIO], object], unique: str = "") -> None:
    """Write a file as `write` does, by a function that writes its content piece by piece."""
    if not isinstance(final, Path):
        content = io.BytesIO()
        save(content)
        final.write_bytes(content.getvalue())
        return
    partial = final.with_name(f".{final.name}.{unique}.partial")
    try:
        with partial.open("wb") as stream:
            save(stream)
            stream.flush()
            os.fsync(stream.fileno())
        rename(partial, final)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def opened(file: Location) -> Iterator[BinaryIO]:
    """A file open for random access.

    Raises
    ------
    OSError
        If it cannot be read, or is a pipe, a device or full of holes: reading that might never end.
    """
    if not isinstance(file, Path):
        yield io.BytesIO(file.read_bytes())
        return
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(file))
        if status.st_size > _LARGE and status.st_size > _MOST_COMPRESSED * 512 * status.st_blocks:
            raise OSError(errno.EINVAL, "it consists of holes", str(file))
        yield stream


def content(file: Location) -> bytes:
    """What a file holds.

    Raises
    ------
    OSError
        If it cannot be read, as for `opened`.
    """
    with opened(file) as stream:
        return stream.read()


def text(file: Location) -> str:
    """What a file holds, as text.

    Raises
    ------
    OSError
        If it cannot be read, as for `opened`.
    ValueError
        If it is not in UTF-8.
    """
    return content(file).decode()


def put(file: Location, content: bytes) -> None:
    """Write a file into a folder that need not exist yet.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    if isinstance(file, Path):
        file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def append(file: Location, text: str) -> None:
    """Append text to a file, which only one process at a time may do.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    if isinstance(file, Path):
        how = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(file, how, 0o666), "a", encoding="utf-8") as stream:
            stream.write(text)
    else:
        file.write_bytes((file.read_bytes() if file.is_file() else b"") + text.encode())


def create(final: Location, content: str) -> None:
    """Write a file as `write` does, unless there is one of that name.

    Raises
    ------
    FileExistsError
        If there is one, perhaps since this moment.
    OSError
        If the disk does not take it.
    """
    if not isinstance(final, Path):
        final.create(content.encode())
        return
    partial = final.with_name(f".{final.name}.{uuid.uuid4().hex}.partial")
    try:
        with partial.open("x", encoding="utf-8") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        _link(partial, final)
        synchronise(final.parent)
    finally:
        partial.unlink(missing_ok=True)


def _link(partial: Path, final: Path) -> None:
    try:
        os.link(partial, final)
    except FileExistsError:
        raise
    except OSError:  # a disk without links
        if final.exists():
            raise FileExistsError(errno.EEXIST, "is there already", str(final)) from None
        partial.replace(final)


def clock(folder: Path) -> float:
    """The time by the clock of a folder's file system, which may be that of a server."""
    probe = folder / f".{uuid.uuid4().hex}.partial"
    try:
        probe.touch()
        return probe.stat().st_mtime
    except OSError:
        return time.time()
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)


def remove(folder: Location) -> None:
    """Remove a folder and its content as far as possible."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=True)
    else:
        folder.remove_all()


def names(folder: Location, beginning: str = "") -> list[str]:
    """Sorted names of the entries of a folder: all, or the files with this prefix.

    Raises
    ------
    OSError
        If it cannot be read.
    """
    if isinstance(folder, Path):
        return sorted(name for name in os.listdir(folder) if name.startswith(beginning))
    return folder.names_from(beginning) if beginning else folder.names()


def stamps(folder: Location) -> dict[str, str]:
    """Stamps of the files directly in a folder, by name, which change when a file is rewritten.

    Raises
    ------
    OSError
        If it cannot be read.
    """
    if not isinstance(folder, Path):
        return folder.tags()
    with os.scandir(folder) as entries:
        stats = ((entry.name, entry.stat()) for entry in entries)
        return {name: f"{status.st_size} {status.st_mtime_ns}" for name, status in stats}


def files(folder: Location) -> list[Location]:
    """All files in a folder, however deep, sorted."""
    if isinstance(folder, Path):
        return sorted(path for path in folder.rglob("*") if path.is_file())
    return list(folder.files())


def zarr_store(folder: Location) -> Any:
    """The store object by which zarr and xarray open a group.

    Never a path: of one with ``::`` in it fsspec would take a part for the name of a folder.
    """
    from zarr.storage import LocalStore

    return LocalStore(folder) if isinstance(folder, Path) else folder.zarr()


def rename(old: Location, new: Location) -> None:
    """Rename a file within its folder, durably.

    Raises
    ------
    OSError
        If that is not possible.
    """
    if isinstance(old, Path) and isinstance(new, Path):
        old.replace(new)
        synchronise(new.parent)
    elif not isinstance(old, Path) and not isinstance(new, Path):
        old.move(new)
    else:
        raise TypeError(f"{old} and {new} are not in one store")


def synchronise(folder: Path) -> None:
    """Synchronise the entries of a folder, if the file system can.

    Raises
    ------
    OSError
        If the disk does not take it.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
