"""Query matrices in memory: explicit ones, and random ones that are drawn when first needed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy
from numpy.typing import NDArray

from workloads.operators.blas import product
from workloads.operators.protocol import (
    Array,
    Indices,
    Matrix,
    QueryOperator,
    dense,
    refuse_above_limit,
)


class InMemory(QueryOperator):
    """Base class of operators that have W in memory, as ``array``."""

    if TYPE_CHECKING:

        @property
        def array(self) -> Matrix: ...

    def apply(self, x: Array) -> Array:
        """Return ``W @ x``."""
        return np.asarray(self.array @ x)

    def apply_transposed(self, y: Array) -> Array:
        """Return ``W.T @ y``."""
        return np.asarray(self.array.T @ y)

    def gram(self, weights: Array | None = None) -> Array:
        """Return ``W.T @ diag(weights) @ W``, as a symmetric product if no weight is negative."""
        d = self.array.shape[1]
        refuse_above_limit(d * d, f"a {d} x {d} Gram matrix")
        if scipy.sparse.issparse(self.array):
            weighted = self.array if weights is None else self.array.multiply(weights[:, None])
            return (self.array.T @ weighted).toarray()
        if weights is not None and np.any(weights < 0):
            return product(self.array.T, weights[:, None] * self.array)
        rooted = self.array if weights is None else np.sqrt(weights)[:, None] * self.array
        return rooted.T @ rooted

    def quadratic_forms(self, symmetric: Array) -> Array:
        """Return ``diag(W @ symmetric @ W.T)``, in O(d nnz(W))."""
        if scipy.sparse.issparse(self.array):
            moved = self.apply(symmetric)
            entries = self.array.tocoo()
            rows, columns = entries.coords
            terms = entries.data * moved[rows, columns]
            return np.bincount(rows, terms, minlength=self.array.shape[0]).astype(np.float64)
        forms: Array = np.einsum("ij,ij->i", self.array, product(self.array, symmetric))
        return forms

    def squared_row_norms(self, weights: Array | None = None) -> Array:
        """Return ``diag(W @ diag(weights) @ W.T)``: queries' weighted sums of squared entries."""
        if weights is not None:
            return np.asarray(self.array**2 @ weights)
        if scipy.sparse.issparse(self.array):
            return np.asarray((self.array**2).sum(axis=1), dtype=np.float64)
        norms: Array = np.einsum("ij,ij->i", self.array, self.array)
        return norms

    def squared_column_norms(self, weights: Array | None = None) -> Array:
        """Return ``diag(gram(weights))``, in O(nnz(W))."""
        given = np.ones(self.array.shape[0]) if weights is None else weights
        return np.asarray((self.array**2).T @ given)

    def rows(self, at: Indices) -> Array:
        """Return the queries at these indices, dense, shape (len(at), d)."""
        return dense(self.array[at])

    def matrix(self) -> Matrix:
        """W, dense or CSR."""
        return self.array


@dataclass(frozen=True, eq=False)
class Explicit(InMemory):
    """The operator of a matrix in memory: dense (float64, C order) or CSR."""

    array: Matrix

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (m, d)."""
        m, d = self.array.shape
        return int(m), int(d)

    @property
    def form_work(self) -> int:
        """Approximate number of operations in a call of `gram` plus a call of `quadratic_forms`."""
        return self.shape[1] * int(self.array.size)

    @property
    def arrays(self) -> tuple[NDArray[np.generic], ...]:
        """The arrays that store the matrix; the first contains its entries."""
        array = self.array
        if scipy.sparse.issparse(array):
            return array.data, array.indices, array.indptr
        return (array,)

    @property
    def bytes(self) -> int:
        """Memory that the matrix takes, in bytes."""
        return sum(int(array.nbytes) for array in self.arrays)


@dataclass(frozen=True, eq=False)
class Drawn(InMemory):
    """A random dense matrix, drawn when it is first needed; planning a sweep needs only its shape.

    Attributes
    ----------
    m, d : int
        The matrix's shape.
    draw : callable
        Draws the matrix: float64, in C order, read-only.
    """

    m: int
    d: int
    draw: Callable[[], Array]

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (m, d)."""
        return self.m, self.d

    @cached_property
    def array(self) -> Array:
        """The matrix, drawn at the first access."""
        return self.draw()

    @property
    def form_work(self) -> int:
        """Approximate number of operations in a call of `gram` plus a call of `quadratic_forms`."""
        return self.m * self.d**2

    @property
    def bytes(self) -> int:
        """Memory that the matrix takes once it is drawn, in bytes."""
        return 8 * self.m * self.d
