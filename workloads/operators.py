"""Query matrices as operators: what a solver may ask of W without holding W.

Every operator answers the same five questions (``QueryOperator``). `Explicit` holds
the matrix; the others know it by its structure.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[np.float64]
Matrix = Array | sp.csr_array


@runtime_checkable
class QueryOperator(Protocol):
    """A query matrix W of shape (m, d), known by what can be computed with it."""

    @property
    def shape(self) -> tuple[int, int]:
        """(m, d): queries and domain cells."""
        ...

    def apply(self, x: Array) -> Array:
        """``W @ x`` for x of shape (d,) or (d, n)."""
        ...

    def apply_transposed(self, y: Array) -> Array:
        """``W.T @ y`` for y of shape (m,) or (m, n)."""
        ...

    def gram(self, weights: Array | None = None) -> Array:
        """``W.T @ diag(weights) @ W``, shape (d, d); unit weights by default."""
        ...

    def quadratic_forms(self, symmetric: Array) -> Array:
        """``diag(W @ symmetric @ W.T)``, shape (m,), for a symmetric (d, d) matrix."""
        ...

    def squared_row_norms(self) -> Array:
        """Squared 2-norm of every query, shape (m,)."""
        ...

    def squared_column_norms(self, weights: Array | None = None) -> Array:
        """``diag(gram(weights))``, shape (d,), without the (d, d) matrix."""
        ...

    def matrix(self) -> Matrix:
        """W itself, dense or CSR."""
        ...


@dataclass(frozen=True, eq=False)
class Explicit:
    """A matrix that is held: dense (float64, C order) or CSR."""

    held: Matrix

    @property
    def shape(self) -> tuple[int, int]:
        m, d = self.held.shape
        return int(m), int(d)

    def apply(self, x: Array) -> Array:
        return np.asarray(self.held @ x)

    def apply_transposed(self, y: Array) -> Array:
        return np.asarray(self.held.T @ y)

    def gram(self, weights: Array | None = None) -> Array:
        if sp.issparse(self.held):
            weighted = self.held if weights is None else self.held.multiply(weights[:, None])
            return np.asarray((self.held.T @ weighted).todense())
        if weights is None:
            return self.held.T @ self.held
        if np.all(weights >= 0):
            rooted = np.sqrt(weights)[:, None] * self.held
            return rooted.T @ rooted
        return self.held.T @ (weights[:, None] * self.held)

    def quadratic_forms(self, symmetric: Array) -> Array:
        product = self.apply(symmetric)
        if sp.issparse(self.held):
            return np.asarray(self.held.multiply(product).sum(axis=1)).ravel()
        return np.einsum("ij,ij->i", self.held, product)

    def squared_row_norms(self) -> Array:
        return self._squares() @ np.ones(self.shape[1])

    def squared_column_norms(self, weights: Array | None = None) -> Array:
        return self._squares().T @ (np.ones(self.shape[0]) if weights is None else weights)

    def matrix(self) -> Matrix:
        return self.held

    def _squares(self) -> Matrix:
        return self.held.power(2) if sp.issparse(self.held) else np.square(self.held)
