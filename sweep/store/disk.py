"""Files that are there whole or not at all, whatever is killed and whenever the power fails.

On a disk that takes care; an object store does it by itself.
"""

import errno
import io
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from sweep.store.location import Location

_UNSUPPORTED = {errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF}
"""What file systems say that cannot synchronise a folder; nothing better can be had there."""
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
    except OSError:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def opened(file: Location) -> Iterator[BinaryIO]:
    """A file, to be read from anywhere in it.

    Raises
    ------
    OSError
        If it cannot be read, or is a pipe, a device or full of holes: reading that might never end.
    """
    if not isinstance(file, Path):
        yield io.BytesIO(file.read_bytes())
        return
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        about = os.fstat(stream.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(file))
        if about.st_size > _LARGE and about.st_size > _MOST_COMPRESSED * 512 * about.st_blocks:
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
    """Write text behind that of a file, which one process at a time may do.

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


def remove(folder: Location) -> None:
    """Remove a folder with all that is in it, as far as possible."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=True)
    else:
        folder.remove_all()


def names(folder: Location, beginning: str = "") -> list[str]:
    """Names of what is directly in a folder, sorted: all, or those of files that begin so.

    Raises
    ------
    OSError
        If it cannot be read.
    """
    if isinstance(folder, Path):
        return sorted(name for name in os.listdir(folder) if name.startswith(beginning))
    return folder.names_from(beginning) if beginning else folder.names()


def stamps(folder: Location) -> dict[str, str]:
    """What changes when a file directly in a folder is written anew, by the file's name.

    Raises
    ------
    OSError
        If it cannot be read.
    """
    if not isinstance(folder, Path):
        return folder.tags()
    with os.scandir(folder) as entries:
        found = ((entry.name, entry.stat()) for entry in entries)
        return {name: f"{about.st_size} {about.st_mtime_ns}" for name, about in found}


def files(folder: Location) -> list[Location]:
    """All files in a folder, however deep, sorted."""
    if isinstance(folder, Path):
        return sorted(path for path in folder.rglob("*") if path.is_file())
    return list(folder.files())


def zarr_store(folder: Location) -> Any:
    """What zarr and xarray open a zarr group with."""
    return folder if isinstance(folder, Path) else folder.zarr()


def rename(old: Location, new: Location) -> None:
    """Give a file another name in its folder, for good.

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
    """Have the disk keep the names in a folder, if the file system can.

    Raises
    ------
    OSError
        If the disk does not take it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    finally:
        os.close(descriptor)
