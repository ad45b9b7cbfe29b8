"""Files that users ask for."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweep.errors import SweepError


def check(path: Path) -> None:
    """Refuse a file that cannot be written, before the work for it begins.

    Raises
    ------
    SweepError
        As `write`.
    """
    with _explained(path):
        there = next(place for place in (path, *path.parents) if place.exists())
        if there.is_dir() == (there == path):
            kind = "folder" if there == path else "file"
            raise OSError(errno.EINVAL, f"{str(there)!r} is a {kind}")
        if not os.access(there, os.W_OK):
            raise OSError(errno.EACCES, f"{str(there)!r} is not to be written")


def write(path: Path, content: str | bytes) -> None:
    """Write a file, creating its folder if necessary.

    Raises
    ------
    SweepError
        If it cannot be written.
    """
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SweepError(
            f"cannot write {str(path)!r}: {error.strerror or error}; give another --output"
        ) from error
