"""The interface of all query operators, and the limit on the size of arrays."""

from typing import Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from workloads.errors import WorkloadError

Array = NDArray[np.float64]
Matrix = Array | sp.csr_array
Indices = NDArray[np.intp]

LARGEST_MATRIX_BYTES = 8 * 2**30


@runtime_checkable
class QueryOperator(Protocol):
    """A query matrix W of shape (m, d), defined by the operations on it."""

    @property
    def shape(self) -> tuple[int, int]:
        """(m, d): queries and domain cells; Python ints of any size."""

    @property
    def form_work(self) -> int:
        """Operations, roughly, of one `gram` and one `quadratic_forms`."""

    def apply(self, x: Array) -> Array:
        """``W @ x`` for x of shape (d,) or (d, n)."""

    def apply_transposed(self, y: Array) -> Array:
        """``W.T @ y`` for y of shape (m,) or (m, n)."""

    def gram(self, weights: Array | None = None) -> Array:
        """``W.T @ diag(weights) @ W``, shape (d, d); unit weights by default."""

    def quadratic_forms(self, symmetric: Array) -> Array:
        """``diag(W @ symmetric @ W.T)``, shape (m,), for a symmetric (d, d) matrix."""

    def squared_row_norms(self) -> Array:
        """Squared 2-norm of every query, shape (m,)."""

    def squared_column_norms(self, weights: Array | None = None) -> Array:
        """``diag(gram(weights))``, shape (d,), without the (d, d) matrix."""

    def rows(self, at: Indices) -> Array:
        """The queries with these numbers, dense, shape (len(at), d)."""

    def matrix(self) -> Matrix:
        """W itself, dense or CSR; refused with `WorkloadError` above 8 GiB."""


def refuse_above_limit(entries: int, what: str, advice: str) -> None:
    """Refuse an array of float64 that would not fit.

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
        raise WorkloadError(
            f"{what} takes {_gibibytes(8 * entries)} GiB, more than the limit of "
            f"{LARGEST_MATRIX_BYTES // 2**30} GiB; {advice}"
        )


def _gibibytes(size: int) -> str:
    """``size`` in GiB; a power of ten if it is too large for a float."""
    whole = size // 2**30
    return f"{size / 2**30:.3g}" if whole < 10**15 else f"about 10^{len(str(whole)) - 1}"
