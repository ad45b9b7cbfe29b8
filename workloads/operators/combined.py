"""Operators that wrap others: they scale, compose or stack them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import iadd
from typing import TYPE_CHECKING

import numpy as np
import scipy

from workloads.operators.blas import product
from workloads.operators.protocol import (
    Array,
    Indices,
    Matrix,
    QueryOperator,
    Turned,
    dense,
    times,
)


@dataclass(frozen=True, eq=False)
class Scaled(QueryOperator):
    """The operator ``diag(factors) @ W``, which computes with the structure of W.

    If there are t factors for each of the m queries of W, the operator stacks t scaled copies of W;
    its operations take about as much work as those of one copy. In the formulas of `apply`,
    `apply_transposed` and `gram`, W is then the stack of its t copies.

    Attributes
    ----------
    operator : QueryOperator
        W, shape (m, d).
    factors : numpy.ndarray, shape (t m,)
        The factors of the m queries in the first copy of W, then in the second, and so on.
    """

    operator: QueryOperator
    factors: Array

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (t m, d)."""
        return self.factors.size, self.operator.shape[1]

    @property
    def times(self) -> int:
        """The number t of copies of W."""
        return self.factors.size // self.operator.shape[0]

    @property
    def form_work(self) -> int:
        """Approximate number of operations in a call of `gram` plus a call of `quadratic_forms`."""
        return self.operator.form_work + 4 * (self.factors.size - self.operator.shape[0])

    def apply(self, x: Array) -> Array:
        """Return ``diag(factors) @ W @ x``."""
        return (self.factors * self._each_time(self.operator.apply(x)).T).T

    def apply_transposed(self, y: Array) -> Array:
        """Return ``W.T @ diag(factors) @ y``."""
        return self.operator.apply_transposed(self._summed((self.factors * y.T).T))

    def gram(self, weights: Array | None = None) -> Array:
        """Return ``W.T @ diag(weights * factors**2) @ W``."""
        return self.operator.gram(self._weights(weights))

    def quadratic_forms(self, symmetric: Array) -> Array:
        """Return ``factors**2`` times the quadratic forms of W, shape (t m,)."""
        return np.square(self.factors) * self._each_time(self.operator.quadratic_forms(symmetric))

    def squared_row_norms(self, weights: Array | None = None) -> Array:
        """Return ``factors**2`` times the squared row norms of W, shape (t m,)."""
        return np.square(self.factors) * self._each_time(self.operator.squared_row_norms(weights))

    def squared_column_norms(self, weights: Array | None = None) -> Array:
        """Return ``diag(gram(weights))``, shape (d,)."""
        return self.operator.squared_column_norms(self._weights(weights))

    def rows(self, at: Indices) -> Array:
        """Return the queries at these indices, dense, shape (len(at), d)."""
        return self.factors[at, None] * self.operator.rows(at % self.operator.shape[0])

    def matrix(self) -> Matrix:
        """Return the scaled matrix, dense or CSR."""
        matrix = self.operator.matrix()
        copies = matrix if self.times == 1 else stacked([matrix] * self.times)
        return scaled_rows(copies, self.factors)

    def _weights(self, weights: Array | None) -> Array:
        squares: Array = np.square(self.factors)
        return self._summed(squares if weights is None else weights * squares)

    def _each_time(self, values: Array) -> Array:
        """Repeat values for the queries of W, shape (m, ...), t times: shape (t m, ...)."""
        return values if self.times == 1 else np.concatenate([values] * self.times)

    def _summed(self, values: Array) -> Array:
        """Sum values of shape (t m, ...) over the t copies of each query: shape (m, ...)."""
        copies = values.reshape(self.times, -1, *values.shape[1:])
        return values if self.times == 1 else copies.sum(axis=0)


def stacked(matrices: Sequence[Matrix]) -> Matrix:
    """Return the matrices stacked vertically: CSR if all of them are CSR, otherwise dense."""
    if all(map(scipy.sparse.issparse, matrices)):
        blocks = [scipy.sparse.csr_array(matrix) for matrix in matrices]
        return scipy.sparse.csr_array(scipy.sparse.vstack(blocks, format="csr"))
    return np.vstack([dense(matrix) for matrix in matrices])


def scaled_rows(matrix: Matrix, factors: Array) -> Matrix:
    """Return ``diag(factors) @ matrix``: CSR if the matrix is sparse, dense otherwise."""
    if scipy.sparse.issparse(matrix):
        return scipy.sparse.csr_array(matrix.multiply(factors[:, None]))
    return factors[:, None] * matrix


@dataclass(frozen=True, eq=False)
class Composed(QueryOperator):
    """The operator ``W @ columns``, which computes with the structure of W.

    If ``columns`` consists of columns of the identity, it selects domain cells. If it is a right
    inverse of a strategy matrix B, the operator turns the answers B x into the answers W x.

    Attributes
    ----------
    operator : QueryOperator
        W, shape (m, d).
    columns : numpy.ndarray or scipy.sparse.csr_array, shape (d, n)
        The matrix that multiplies W from the right.
    """

    operator: QueryOperator
    columns: Matrix

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (m, n)."""
        return self.operator.shape[0], int(self.columns.shape[1])

    @property
    def form_work(self) -> int:
        """Approximate number of operations in a call of `gram` plus a call of `quadratic_forms`."""
        return int(self.operator.form_work + 2 * self.columns.size * sum(self.columns.shape))

    def apply(self, x: Array) -> Array:
        """Return ``W @ columns @ x``."""
        return self.operator.apply(times(self.columns, x))

    def apply_transposed(self, y: Array) -> Array:
        """Return ``columns.T @ W.T @ y``."""
        return times(self.columns.T, self.operator.apply_transposed(y))

    def gram(self, weights: Array | None = None) -> Array:
        """Return ``columns.T @ W.T @ diag(weights) @ W @ columns``."""
        return _between(self.columns.T, self.operator.gram(weights))

    def quadratic_forms(self, symmetric: Array) -> Array:
        """Return ``diag(W @ columns @ symmetric @ columns.T @ W.T)``, shape (m,)."""
        return self.operator.quadratic_forms(_between(self.columns, symmetric))

    def squared_row_norms(self, weights: Array | None = None) -> Array:
        """Return ``diag(W @ columns @ diag(weights) @ columns.T @ W.T)``, shape (m,).

        No (d, d) matrix is computed if ``columns`` is sparse and has at most one nonzero entry in
        each column.
        """
        given = np.ones(self.shape[1]) if weights is None else weights
        columns = self.columns
        if scipy.sparse.issparse(columns) and np.all(columns.count_nonzero(axis=0) <= 1):
            return self.operator.squared_row_norms(columns**2 @ given)
        columns = dense(columns)
        return self.operator.quadratic_forms(product(columns * given, columns.T))

    def rows(self, at: Indices) -> Array:
        """Return the queries at these indices, dense, shape (len(at), n)."""
        return times(self.columns.T, self.operator.rows(at).T).T

    def matrix(self) -> Matrix:
        """Return ``W @ columns``, dense or CSR."""
        if not scipy.sparse.issparse(self.columns):
            return self.operator.apply(self.columns)
        found = self.operator.matrix() @ self.columns
        return scipy.sparse.csr_array(found) if scipy.sparse.issparse(found) else np.asarray(found)


def _between(outer: Turned, symmetric: Array) -> Array:
    """Return ``outer @ symmetric @ outer.T``."""
    return times(outer, times(outer, symmetric).T)


def on_cells(operator: QueryOperator, cells: Indices) -> Composed:
    """W restricted to the columns of the given cells, as an operator with the structure of W."""
    shape = operator.shape[1], cells.size
    places = (np.ones(cells.size), (cells, np.arange(cells.size)))
    return Composed(operator, scipy.sparse.csr_array(places, shape=shape))


class InParts(QueryOperator):
    """Base class of operators that stack ``parts``, operators over the same d domain cells."""

    if TYPE_CHECKING:

        @property
        def parts(self) -> Sequence[QueryOperator]: ...

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (m, d)."""
        return sum(part.shape[0] for part in self.parts), self.parts[0].shape[1]

    @property
    def form_work(self) -> int:
        """Approximate number of operations in a call of `gram` plus a call of `quadratic_forms`."""
        return sum(part.form_work for part in self.parts)

    def apply(self, x: Array) -> Array:
        """Return ``W @ x``."""
        return np.concatenate([part.apply(x) for part in self.parts])

    def apply_transposed(self, y: Array) -> Array:
        """Return ``W.T @ y``."""
        pairs = zip(self.parts, self._split(y), strict=True)
        return reduce(iadd, (part.apply_transposed(own) for part, own in pairs))

    def gram(self, weights: Array | None = None) -> Array:
        """Return ``W.T @ diag(weights) @ W``."""
        shares = [None] * len(self.parts) if weights is None else self._split(weights)
        pairs = zip(self.parts, shares, strict=True)
        return reduce(iadd, (part.gram(own) for part, own in pairs))

    def quadratic_forms(self, symmetric: Array) -> Array:
        """Return ``diag(W @ symmetric @ W.T)``."""
        return np.concatenate([part.quadratic_forms(symmetric) for part in self.parts])

    def squared_row_norms(self, weights: Array | None = None) -> Array:
        """Return ``diag(W @ diag(weights) @ W.T)``."""
        return np.concatenate([part.squared_row_norms(weights) for part in self.parts])

    def squared_column_norms(self, weights: Array | None = None) -> Array:
        """Return ``diag(gram(weights))``."""
        given = np.ones(self.shape[0]) if weights is None else weights
        pairs = zip(self.parts, self._split(given), strict=True)
        return reduce(iadd, (part.squared_column_norms(own) for part, own in pairs))

    def rows(self, at: Indices) -> Array:
        """Return the queries at these indices, dense, shape (len(at), d)."""
        rows = np.empty((len(at), self.shape[1]))
        first = 0
        for part in self.parts:
            own = (at >= first) & (at < first + part.shape[0])
            rows[own] = part.rows(at[own] - first)
            first += part.shape[0]
        return rows

    def matrix(self) -> Matrix:
        """W: CSR if every part is CSR, otherwise dense."""
        return stacked([part.matrix() for part in self.parts])

    def _split(self, y: Array) -> list[Array]:
        return np.split(y, np.cumsum([part.shape[0] for part in self.parts])[:-1])


@dataclass(frozen=True, eq=False)
class Stacked(InParts):
    """The stacked queries of several operators, each of which computes with its own structure.

    Attributes
    ----------
    parts : tuple of QueryOperator
        The operators in the order of their queries; there is at least one.
    """

    parts: tuple[QueryOperator, ...]
