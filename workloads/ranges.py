"""Ranges of an ordered domain as differences of prefix sums."""

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


def differences(first: NDArray[np.integer], last: NDArray[np.integer], d: int) -> sp.csr_array:
    """The matrix D of `Cumulative` for the ranges [first, last] of d cells.

    Parameters
    ----------
    first, last : numpy.ndarray of int, shape (m,)
        First and last cell of each range, both included, ``0 <= first <= last < d``.

    Returns
    -------
    scipy.sparse.csr_array, shape (m, d)
    """
    queries = np.arange(len(first))
    inner = first > 0
    return sp.csr_array(
        (
            np.concatenate([np.ones(len(last)), -np.ones(np.count_nonzero(inner))]),
            (
                np.concatenate([queries, queries[inner]]),
                np.concatenate([last, first[inner] - 1]),
            ),
        ),
        shape=(len(first), d),
    )
