"""Queries that each combine a few prefix sums: prefixes, ranges and unions of ranges."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from workloads.operators.protocol import (
    Array,
    Indices,
    Matrix,
    QueryOperator,
    refuse_above_limit,
)

_BLOCK_ENTRIES = 1_000_000
"""Largest number of matrix entries that `cumulative` converts at a time: 8 MB of floats."""


@dataclass(frozen=True, eq=False)
class Cumulative(QueryOperator):
    """The operator W = D T, where T computes prefix sums and each row of D has few nonzero entries.

    T is the lower triangular matrix of ones: ``(T x)_i = x_0 + ... + x_i``. In D, the range [a, b]
    is a row with 1 at b and -1 at a - 1. A product takes O(d + nnz(D)) operations; the Gram matrix
    and the quadratic forms take O(d² + nnz(D)). With an explicit W they would take O(m d) and
    O(m d²). All results are differences of sums, so their rounding errors are relative to the
    largest sum.

    Attributes
    ----------
    differences : scipy.sparse.csr_array, shape (m, d)
        The matrix D.
    """

    differences: "scipy.sparse.csr_array"

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (m, d)."""
        return self.differences.shape

    @property
    def form_work(self) -> int:
        """Approximate number of operations in a call of `gram` plus a call of `quadratic_forms`."""
        fullest = int(np.diff(self.differences.indptr).max(initial=0))
        return 8 * self.shape[1] ** 2 + 4 * fullest**2 * self.shape[0]

    def apply(self, x: Array) -> Array:
        """Return ``W @ x``: prefix sums, then a sparse product."""
        return np.asarray(self.differences @ np.cumsum(x, axis=0))

    def apply_transposed(self, y: Array) -> Array:
        """Return ``W.T @ y``: a sparse product, then suffix sums."""
        return _suffix_sums(np.asarray(self.differences.T @ y), axis=0)

    def gram(self, weights: Array | None = None) -> Array:
        """Return ``W.T @ diag(weights) @ W``: suffix sums of ``D.T @ diag(weights) @ D``."""
        m, d = self.shape
        refuse_above_limit(d * d, f"a {d} x {d} Gram matrix")
        given = np.ones(m) if weights is None else weights
        return self.paired_sums(given[:, None])[:, :, 0]

    def quadratic_forms(self, symmetric: Array) -> Array:
        """Return ``diag(W @ symmetric @ W.T)``, from prefix sums of ``symmetric`` on both axes."""
        return self.paired_forms(symmetric[:, :, None])[:, 0]

    def paired_forms(self, x: Array) -> Array:
        """Return the sums of ``W_ji W_jk x_ikl`` over i and k, shape (m, n), for x (d, d, n)."""
        # row j of W is row j of D times T, so W x Wᵀ = D (T x Tᵀ) Dᵀ: sum once, then combine few
        prefix_sums = np.cumsum(_prefix_sums(x), axis=1)
        return np.asarray(self._products @ prefix_sums.reshape(self.shape[1] ** 2, -1))

    def paired_sums(self, y: Array) -> Array:
        """Return the sums of ``W_ji W_jk y_jl`` over j, shape (d, d, n), for y of shape (m, n)."""
        d = self.shape[1]
        # the transpose of `paired_forms`: Tᵀ (Dᵀ diag(y) D) T by suffix sums along both axes
        summed = np.asarray(self._products.T @ y).reshape(d, d, -1)
        return _suffix_sums(_prefix_sums(summed[::-1])[::-1], axis=1)

    def squared_row_norms(self, weights: Array | None = None) -> Array:
        """Return ``diag(W @ diag(weights) @ W.T)``, in O(d + nnz(D)).

        Entry (i, k) of ``T @ diag(weights) @ T.T`` is the sum of the first min(i, k) + 1 weights.
        """
        below = np.cumsum(np.ones(self.shape[1]) if weights is None else weights)
        return np.asarray(self._nearer @ below)

    def squared_column_norms(self, weights: Array | None = None) -> Array:
        """Return ``diag(gram(weights))``, in O(d + nnz(D))."""
        given = np.ones(self.shape[0]) if weights is None else weights
        return np.asarray(np.cumsum((self._nearer.T @ given)[::-1])[::-1])

    def rows(self, at: Indices) -> Array:
        """Return the queries at these indices, dense, shape (len(at), d)."""
        return _suffix_sums(self.differences[at].toarray(), axis=1)

    def matrix(self) -> Matrix:
        """W, dense."""
        m, d = self.shape
        refuse_above_limit(m * d, f"a dense {m} x {d} matrix")
        return _suffix_sums(self.differences.toarray(), axis=1)

    @cached_property
    def _products(self) -> "scipy.sparse.csr_array":
        """The products of all pairs of entries in each row of D, shape (m, d²)."""
        return row_products(self.differences)

    @cached_property
    def _nearer(self) -> "scipy.sparse.csr_array":
        """The sums of `_products` over all column pairs i, k with equal min(i, k), shape (m, d)."""
        products = self._products
        nearer = np.minimum(*np.divmod(products.indices, self.shape[1]))
        return scipy.sparse.csr_array((products.data, nearer, products.indptr), shape=self.shape)


def differences(
    first: NDArray[np.integer], last: NDArray[np.integer], d: int
) -> "scipy.sparse.csr_array":
    """Return the matrix D of `Cumulative` for the ranges [first, last] of d cells.

    Parameters
    ----------
    first, last : numpy.ndarray of int, shape (m,)
        First and last cell of each range, both included, ``0 <= first <= last < d``.

    Returns
    -------
    scipy.sparse.csr_array, shape (m, d)
    """
    inner = np.flatnonzero(first > 0)
    signs = np.repeat([1.0, -1.0], [len(last), inner.size])
    queries = np.append(np.arange(len(first)), inner)
    ends = np.append(last, first[inner] - 1)
    return scipy.sparse.csr_array((signs, (queries, ends)), shape=(len(first), d))


def row_products(matrix: "scipy.sparse.csr_array") -> "scipy.sparse.csr_array":
    """Return the products of all pairs of entries of each row; column i d + k is of i and k."""
    m, d = matrix.shape
    entries = matrix.tocoo()
    rows, columns = entries.coords
    # row e of ``pairs``: the matrix row that contains entry e, times entry e
    pairs = scipy.sparse.coo_array(matrix[rows] * entries.data[:, None])
    first, second = pairs.coords
    places = rows[first], columns[first].astype(np.int64) * d + second
    return scipy.sparse.csr_array((pairs.data, places), shape=(m, d * d))


def _prefix_sums(x: Array) -> Array:
    """Compute ``numpy.cumsum(x, axis=0)``, six times faster than numpy for a thousand rows."""
    sums = np.empty_like(x)
    before: Array | float = 0.0
    for row, result in zip(x, sums, strict=True):
        before = np.add(before, row, out=result)
    return sums


def _suffix_sums(x: Array, axis: int) -> Array:
    return np.flip(np.cumsum(np.flip(x, axis), axis=axis), axis)


def cumulative(matrix: Matrix) -> Cumulative | None:
    """Return the matrix as a `Cumulative`; None if it is sparse or this would save no work."""
    if scipy.sparse.issparse(matrix):
        return None
    m, d = matrix.shape
    # D = W T⁻¹: differences of neighbouring columns, block by block to save memory
    height = max(1, _BLOCK_ENTRIES // d)
    blocks = [
        scipy.sparse.csr_array(-np.diff(matrix[first : first + height], append=0.0))
        for first in range(0, m, height)
    ]
    differences = scipy.sparse.vstack(blocks, format="csr")
    fullest = int(np.diff(differences.indptr).max(initial=0))
    found = Cumulative(differences)
    # an explicit product takes m d² operations
    return found if 0 < fullest < d and found.form_work < m * d**2 else None
