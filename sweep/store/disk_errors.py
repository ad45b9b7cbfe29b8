"""Errors of a disk as one sentence each."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from sweep.errors import StoreError
from sweep.store.location import Location

_REASONS = {
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "access is not permitted",
    errno.EPERM: "access is not permitted",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.ENOTDIR: "a part of the path is a file",
    errno.EEXIST: "a file of that name is in the way",
}


_REMEDIES = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.ENOTDIR: "move it away",
    errno.EEXIST: "move it away",
}


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
            f"store {str(path)!r} cannot be written: {reason(error)}; earlier results are "
            f"unharmed: {remedy(error)}, and give the same command again"
        ) from error


@contextmanager
def readable(path: Location) -> Iterator[Location]:
    """Turn errors in reading a file of a store into one sentence.

    Raises
    ------
    StoreError
        In place of an OSError, or if the file does not hold what it should.
    """
    try:
        yield path
    except (OSError, ValueError, TypeError) as error:
        cause = getattr(error, "strerror", None) or error
        raise StoreError(
            f"{str(path)!r} cannot be read ({cause}); move it away and run the experiment again "
            "with this store, which writes it anew"
        ) from error


def reason(error: OSError) -> str:
    """What the disk says, in words."""
    return _REASONS.get(error.errno or 0, error.strerror or str(error))


def remedy(error: OSError) -> str:
    """What to do about it, in words."""
    return _REMEDIES.get(error.errno or 0, "let it be written")
