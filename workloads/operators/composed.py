"""The queries of another operator over combinations of its cells."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from workloads.operators.matrices import dense, times, transposed
from workloads.operators.protocol import Array, Indices, Matrix, QueryOperator


@dataclass(frozen=True, eq=False)
class Composed:
    """``W @ columns``, with the structure of W.

    Some cells of W are columns of the identity; a right inverse of a strategy makes the queries
    what turns its answers into those of W.

    Attributes
    ----------
    operator : QueryOperator
        W, shape (m, d).
    columns : numpy.ndarray or scipy.sparse.csr_array, shape (d, n)
    """

    operator: QueryOperator
    columns: Matrix

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n)."""
        return self.operator.shape[0], int(self.columns.shape[1])

    @property
    def form_work(self) -> int:
        """Operations, roughly, of one `gram` and one `quadratic_forms`."""
        d, n = self.columns.shape
        entries = self.columns.nnz if sp.issparse(self.columns) else d * n
        return int(self.operator.form_work + 2 * entries * (d + n))

    def apply(self, x: Array) -> Array:
        """``W @ columns @ x``."""
        return self.operator.apply(times(self.columns, x))

    def apply_transposed(self, y: Array) -> Array:
        """``columns.T @ W.T @ y``."""
        return times(self._back, self.operator.apply_transposed(y))

    def gram(self, weights: Array | None = None) -> Array:
        """That of W between the columns."""
        return _between(self._back, self.operator.gram(weights))

    def quadratic_forms(self, symmetric: Array) -> Array:
        """Those of W, of ``columns @ symmetric @ columns.T``."""
        return self.operator.quadratic_forms(_between(self.columns, symmetric))

    def squared_row_norms(self) -> Array:
        """Squared 2-norm of every query."""
        return self.operator.quadratic_forms(dense(self.columns @ self._back))

    def squared_column_norms(self, weights: Array | None = None) -> Array:
        """``diag(gram(weights))``, shape (n,)."""
        return np.diagonal(self.gram(weights)).copy()

    def rows(self, at: Indices) -> Array:
        """The queries with these numbers, dense, shape (len(at), n)."""
        return times(self._back, self.operator.rows(at).T).T

    def matrix(self) -> Matrix:
        """The queries, dense or CSR."""
        if not sp.issparse(self.columns):
            return self.operator.apply(self.columns)
        matrix = self.operator.matrix() @ self.columns
        return sp.csr_array(matrix) if sp.issparse(matrix) else np.asarray(matrix)

    @cached_property
    def _back(self) -> Matrix:
        """The transpose of the columns."""
        return transposed(self.columns)


def _between(outer: Matrix, symmetric: Array) -> Array:
    """``outer @ symmetric @ outer.T``."""
    return times(outer, times(outer, symmetric).T)


def on_cells(operator: QueryOperator, cells: Indices) -> Composed:
    """Some columns of W, with the structure of W."""
    shape = operator.shape[1], cells.size
    places = (np.ones(cells.size), (cells, np.arange(cells.size)))
    return Composed(operator, sp.csr_array(places, shape=shape))
