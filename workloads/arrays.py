"""Arrays from files and users, read without trusting them."""

import math
import zipfile
from typing import IO

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from workloads.limits import raised_by
from workloads.parameters import LARGEST_FILE_BYTES, regular


def load(path: str) -> NDArray[np.generic] | NpzFile:
    """The array in a .npy file, or the arrays in a .npz; never a pickle.

    Raises
    ------
    OSError
        If it is not a regular file, or it or an array in it, made of floats, is larger than
        `LARGEST_FILE_BYTES`.
    ValueError, EOFError, zipfile.BadZipFile
        If it is not a numpy file.
    """
    file = regular(path)
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as packed:
            members = packed.infolist()
            _check_bytes(sum(member.file_size for member in members), "its arrays take")
            for member in members:
                if member.filename.endswith(".npy"):
                    with packed.open(member) as stream:
                        _check_floats(stream)
    else:
        with file.open("rb") as stream:
            _check_floats(stream)
    try:
        array: NDArray[np.generic] | NpzFile = np.load(file, allow_pickle=False)
    except MemoryError as error:
        raise ValueError(f"it does not fit into memory: {error}") from error
    return array


def _check_floats(stream: IO[bytes]) -> None:
    """Refuse an array that would be too large as floats, whatever its type is now."""
    version = np.lib.format.read_magic(stream)
    old = version == (1, 0)
    read = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
    shape, _, _ = read(stream)
    _check_bytes(8 * math.prod(shape), "as floats it takes")


def _check_bytes(count: int, what: str) -> None:
    if count > LARGEST_FILE_BYTES:
        raise OSError(
            f"{what} {count:,} bytes, more than the limit of {LARGEST_FILE_BYTES:,} "
            f"{raised_by('LARGEST_FILE_BYTES')}"
        )


def masked_count(values: object) -> int:
    """The number of masked entries of an array or a list of arrays.

    numpy drops the masks without a word where it makes a plain array.
    """
    if isinstance(values, np.ma.MaskedArray):
        return int(np.ma.getmaskarray(values).sum())
    if isinstance(values, list | tuple):
        return sum(masked_count(item) for item in values if not isinstance(item, int | float))
    return 0
