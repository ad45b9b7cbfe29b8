"""Files that are there whole or not at all, whatever is killed and whenever the power fails."""

import errno
import os
from pathlib import Path

_UNSUPPORTED = {errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF}
"""What file systems say that cannot synchronise a folder; nothing better can be had there."""


def write(final: Path, text: str, unique: str = "") -> None:
    """Write a file under a temporary name, synchronise it, rename it, synchronise its folder.

    Parameters
    ----------
    final : Path
        The file; one that is there already is replaced.
    text : str
        What it holds.
    unique : str
        What tells this writer from others of the same file.

    Raises
    ------
    OSError
        If the disk does not take it; no temporary file is left behind then.
    """
    partial = final.with_name(f".{final.name}.{unique}.partial")
    try:
        with partial.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        rename(partial, final)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def rename(old: Path, new: Path) -> None:
    """Rename a file within its folder, for good.

    Raises
    ------
    OSError
        If the disk does not take it.
    """
    old.replace(new)
    synchronise(new.parent)


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
