"""The queries of another operator over some of its cells."""

from dataclasses import dataclass

import numpy as np

from workloads.operators.protocol import Array, Indices, Matrix, QueryOperator


@dataclass(frozen=True, eq=False)
class OnCells:
    """Some columns of W, with the structure of W.

    Attributes
    ----------
    operator : QueryOperator
        W, shape (m, d).
    cells : numpy.ndarray of int, shape (n,)
        The columns, ascending.
    """

    operator: QueryOperator
    cells: Indices

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n)."""
        return self.operator.shape[0], self.cells.size

    @property
    def form_work(self) -> int:
        """Operations, roughly, of one `gram` and one `quadratic_forms`."""
        return self.operator.form_work

    def apply(self, x: Array) -> Array:
        """The columns times x."""
        return self.operator.apply(self._padded(x))

    def apply_transposed(self, y: Array) -> Array:
        """Their transpose times y."""
        return self.operator.apply_transposed(y)[self.cells]

    def gram(self, weights: Array | None = None) -> Array:
        """That of W, at these columns."""
        return self.operator.gram(weights)[np.ix_(self.cells, self.cells)]

    def quadratic_forms(self, symmetric: Array) -> Array:
        """Those of W, the matrix being zero at the other columns."""
        d = self.operator.shape[1]
        whole = np.zeros((d, d))
        whole[np.ix_(self.cells, self.cells)] = symmetric
        return self.operator.quadratic_forms(whole)

    def squared_row_norms(self) -> Array:
        """Squared 2-norm of every query over these cells."""
        return self.quadratic_forms(np.eye(self.cells.size))

    def squared_column_norms(self, weights: Array | None = None) -> Array:
        """``diag(gram(weights))``, shape (n,)."""
        return self.operator.squared_column_norms(weights)[self.cells]

    def rows(self, at: Indices) -> Array:
        """The queries with these numbers, dense, shape (len(at), n)."""
        return self.operator.rows(at)[:, self.cells]

    def matrix(self) -> Matrix:
        """The columns, dense or CSR."""
        return self.operator.matrix()[:, self.cells]

    def _padded(self, x: Array) -> Array:
        whole = np.zeros((self.operator.shape[1], *x.shape[1:]))
        whole[self.cells] = x
        return whole
