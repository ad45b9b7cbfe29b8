"""Arrays from files and from users, read without trusting their origin."""

import zipfile

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from workloads.parameters import LARGEST_FILE_BYTES, regular


def load(path: str) -> NDArray[np.generic] | NpzFile:
    """The array in a .npy file, or the arrays in a .npz; never a pickle.

    Raises
    ------
    OSError
        If it is not a regular file, or it or an array in it is larger than
        `LARGEST_FILE_BYTES`.
    ValueError, EOFError, zipfile.BadZipFile
        If it is not a numpy file.
    """
    file = regular(path)
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as packed:
            unpacked = sum(member.file_size for member in packed.infolist())
        if unpacked > LARGEST_FILE_BYTES:
            raise OSError(
                f"its arrays take {unpacked:,} bytes, more than the limit of {LARGEST_FILE_BYTES:,}"
            )
    try:
        found: NDArray[np.generic] | NpzFile = np.load(file, allow_pickle=False)
    except MemoryError as error:
        raise ValueError(f"it does not fit into memory: {error}") from error
    return found


def masked_count(values: object) -> int:
    """How many entries are masked, in an array or in a list of them.

    numpy drops the masks without a word where it makes a plain array.
    """
    if isinstance(values, np.ma.MaskedArray):
        return int(np.ma.getmaskarray(values).sum())
    if isinstance(values, list | tuple):
        return sum(masked_count(one) for one in values if not isinstance(one, int | float))
    return 0
