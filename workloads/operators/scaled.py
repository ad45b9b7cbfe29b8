"""The queries of another operator, each multiplied by a number, once or several times."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workloads.operators.protocol import Array, Indices, Matrix, QueryOperator


@dataclass(frozen=True, eq=False)
class Scaled:
    """``diag(factors) @ W``, with the structure of W.

    With factors t times as many as queries it is W asked t times over, one below another, for
    about the work of one.

    Attributes
    ----------
    operator : QueryOperator
        W, shape (m, d).
    factors : numpy.ndarray, shape (t m,)
        One number for each query and time.
    """

    operator: QueryOperator
    factors: Array

    @property
    def shape(self) -> tuple[int, int]:
        """(t m, d)."""
        return self.factors.size, self.operator.shape[1]

    @property
    def times(self) -> int:
        """The number t of copies of W."""
        return self.factors.size // self.operator.shape[0]

    @property
    def form_work(self) -> int:
        """Operations, roughly, of one `gram` and one `quadratic_forms`."""
        return self.operator.form_work + 4 * (self.factors.size - self.operator.shape[0])

    def apply(self, x: Array) -> Array:
        """``diag(factors) @ W @ x``."""
        return (self.factors * self._each_time(self.operator.apply(x)).T).T

    def apply_transposed(self, y: Array) -> Array:
        """``W.T @ diag(factors) @ y``."""
        return self.operator.apply_transposed(self._summed((self.factors * y.T).T))

    def gram(self, weights: Array | None = None) -> Array:
        """``W.T @ diag(weights * factors**2) @ W``."""
        return self.operator.gram(self._weights(weights))

    def quadratic_forms(self, symmetric: Array) -> Array:
        """Those of W, multiplied by ``factors**2``."""
        return np.square(self.factors) * self._each_time(self.operator.quadratic_forms(symmetric))

    def squared_row_norms(self) -> Array:
        """Those of W, multiplied by ``factors**2``."""
        return np.square(self.factors) * self._each_time(self.operator.squared_row_norms())

    def squared_column_norms(self, weights: Array | None = None) -> Array:
        """``diag(gram(weights))``, shape (d,)."""
        return self.operator.squared_column_norms(self._weights(weights))

    def rows(self, at: Indices) -> Array:
        """The queries with these numbers, dense, shape (len(at), d)."""
        return self.factors[at, None] * self.operator.rows(at % self.operator.shape[0])

    def matrix(self) -> Matrix:
        """The scaled matrix, dense or CSR."""
        matrix, times = self.operator.matrix(), self.times
        if times > 1:
            matrix = (
                sp.csr_array(sp.vstack([matrix] * times))
                if sp.issparse(matrix)
                else (np.tile(matrix, (times, 1)))
            )
        return scaled_rows(matrix, self.factors)

    def _weights(self, weights: Array | None) -> Array:
        squares: Array = np.square(self.factors)
        return self._summed(squares if weights is None else weights * squares)

    def _each_time(self, values: Array) -> Array:
        """Numbers of the queries of W, shape (m, ...), for every time: (t m, ...)."""
        times = self.times
        return values if times == 1 else np.concatenate([values] * times)

    def _summed(self, values: Array) -> Array:
        """Sums over all times, shape (m, ...)."""
        times = self.times
        return values if times == 1 else values.reshape(times, -1, *values.shape[1:]).sum(axis=0)


def scaled_rows(matrix: Matrix, factors: Array) -> Matrix:
    """``diag(factors) @ matrix``, dense or CSR as the matrix is."""
    if sp.issparse(matrix):
        return sp.csr_array(matrix.multiply(factors[:, None]))
    return factors[:, None] * matrix
