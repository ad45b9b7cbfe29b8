"""The queries of another operator, each multiplied by a number."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workloads.operators.protocol import Array, Indices, Matrix, QueryOperator


@dataclass(frozen=True, eq=False)
class Scaled:
    """``diag(factors) @ W``, with the structure of W.

    Attributes
    ----------
    operator : QueryOperator
        W, shape (m, d).
    factors : numpy.ndarray, shape (m,)
        One number for each query.
    """

    operator: QueryOperator
    factors: Array

    @property
    def shape(self) -> tuple[int, int]:
        """(m, d)."""
        return self.operator.shape

    @property
    def form_work(self) -> int:
        """Operations, roughly, of one `gram` and one `quadratic_forms`."""
        return self.operator.form_work

    def apply(self, x: Array) -> Array:
        """``diag(factors) @ W @ x``."""
        return (self.factors * self.operator.apply(x).T).T

    def apply_transposed(self, y: Array) -> Array:
        """``W.T @ diag(factors) @ y``."""
        return self.operator.apply_transposed((self.factors * y.T).T)

    def gram(self, weights: Array | None = None) -> Array:
        """``W.T @ diag(weights * factors**2) @ W``."""
        return self.operator.gram(self._weights(weights))

    def quadratic_forms(self, symmetric: Array) -> Array:
        """Those of W, multiplied by ``factors**2``."""
        return np.square(self.factors) * self.operator.quadratic_forms(symmetric)

    def squared_row_norms(self) -> Array:
        """Those of W, multiplied by ``factors**2``."""
        return np.square(self.factors) * self.operator.squared_row_norms()

    def squared_column_norms(self, weights: Array | None = None) -> Array:
        """``diag(gram(weights))``, shape (d,)."""
        return self.operator.squared_column_norms(self._weights(weights))

    def rows(self, at: Indices) -> Array:
        """The queries with these numbers, dense, shape (len(at), d)."""
        return self.factors[at, None] * self.operator.rows(at)

    def matrix(self) -> Matrix:
        """The scaled matrix, dense or CSR."""
        return scaled_rows(self.operator.matrix(), self.factors)

    def _weights(self, weights: Array | None) -> Array:
        squares: Array = np.square(self.factors)
        return squares if weights is None else weights * squares


def scaled_rows(matrix: Matrix, factors: Array) -> Matrix:
    """``diag(factors) @ matrix``, dense or CSR as the matrix is."""
    if sp.issparse(matrix):
        return sp.csr_array(matrix.multiply(factors[:, None]))
    return factors[:, None] * matrix
