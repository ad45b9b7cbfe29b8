"""The interface of all query operators, and functions on dense and CSR matrices."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import reduce
from typing import Union

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from workloads.errors import WorkloadError
from workloads.operators.blas import product
from workloads.parameters import readable

Array = NDArray[np.float64]
Matrix = Union[Array, "scipy.sparse.csr_array"]
Turned = Union[Matrix, "scipy.sparse.csc_array"]
"""A `Matrix` or its transpose."""
Indices = NDArray[np.intp]

LARGEST_MATRIX_BYTES = 8 * 2**30
"""Largest size, in bytes, of a matrix: half the memory of a common computer."""


class QueryOperator(ABC):
    """A query matrix W of shape (m, d), defined by the operations below."""

    __array_ufunc__ = None  # otherwise numpy treats an operator as an array of one object

    def __matmul__(self, x: ArrayLike) -> Array:
        """Return the exact answers ``W @ x``, shape (m,) for x of shape (d,), or (m, n) for (d, n).

        Raises
        ------
        WorkloadError
            If x is not an array of real numbers with one entry, or one row, for each domain cell.
        """
        counts = np.asarray(x)
        numbers = counts.dtype.kind in "biuf" and counts.ndim in (1, 2)
        if not numbers or len(counts) != self.shape[1]:
            raise WorkloadError(
                f"counts of shape {counts.shape} and type {counts.dtype}; expected a number for "
                f"each of the {readable(self.shape[1])} cells"
            )
        return self.apply(counts.astype(np.float64))

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """The numbers of queries, m, and of domain cells, d, as Python ints of any size."""

    @property
    @abstractmethod
    def form_work(self) -> int:
        """Approximate number of operations in a call of `gram` plus a call of `quadratic_forms`."""

    @abstractmethod
    def apply(self, x: Array) -> Array:
        """Return ``W @ x`` for x of shape (d,) or (d, n)."""

    @abstractmethod
    def apply_transposed(self, y: Array) -> Array:
        """Return ``W.T @ y`` for y of shape (m,) or (m, n)."""

    @abstractmethod
    def gram(self, weights: Array | None = None) -> Array:
        """Return ``W.T @ diag(weights) @ W``, shape (d, d); the weights are 1 by default."""

    @abstractmethod
    def quadratic_forms(self, symmetric: Array) -> Array:
        """Return ``diag(W @ symmetric @ W.T)``, shape (m,), for a symmetric (d, d) matrix."""

    @abstractmethod
    def squared_row_norms(self, weights: Array | None = None) -> Array:
        """Return ``diag(W @ diag(weights) @ W.T)``, shape (m,); the weights are 1 by default."""

    def squared_column_norms(self, weights: Array | None = None) -> Array:
        """Return ``diag(gram(weights))``, shape (d,); most operators compute no (d, d) matrix."""
        return np.diagonal(self.gram(weights)).copy()

    @abstractmethod
    def rows(self, at: Indices) -> Array:
        """Return the queries at these indices, dense, shape (len(at), d)."""

    @abstractmethod
    def matrix(self) -> Matrix:
        """W itself, dense or CSR; raises WorkloadError if W would take more than 8 GiB."""


_ADVICE = "use a mechanism that works on the workload's structure"


def refuse_above_limit(entries: int, what: str, advice: str = _ADVICE) -> None:
    """Raise WorkloadError if an array of float64 would take too much memory.

    Parameters
    ----------
    entries : int
        Number of entries, 8 bytes each.
    what : str
        The array, for the message: "a dense 10 x 20 matrix".
    advice : str
        The end of the message: what to do instead.

    Raises
    ------
    WorkloadError
        If the entries take more than `LARGEST_MATRIX_BYTES`.
    """
    if 8 * entries > LARGEST_MATRIX_BYTES:
        whole = 8 * entries // 2**30  # sizes from 10^15 GiB on are shown as a power of ten
        size = f"{entries / 2**27:.3g}" if whole < 10**15 else f"about 10^{len(str(whole)) - 1}"
        raise WorkloadError(
            f"{what} takes {size} GiB, more than the limit of "
            f"{LARGEST_MATRIX_BYTES // 2**30} GiB; {advice}"
        )


def dense(matrix: Turned) -> Array:
    """Return the matrix as a dense numpy array."""
    return matrix.toarray() if scipy.sparse.issparse(matrix) else np.asarray(matrix)


def kron(arrays: Iterable[Array]) -> Array:
    """Return the Kronecker product of all arrays, in order."""
    return reduce(lambda left, right: np.asarray(np.kron(left, right)), arrays)


def entry_count(matrix: Matrix) -> int:
    """Return the number of entries that are not zero."""
    if scipy.sparse.issparse(matrix):
        return int(matrix.count_nonzero())
    return int(np.count_nonzero(matrix))


def times(left: Turned, right: Array) -> Array:
    """Return ``left @ right`` as a dense array; products of two dense arrays use scipy's BLAS."""
    return np.asarray(left @ right) if scipy.sparse.issparse(left) else product(left, right)
