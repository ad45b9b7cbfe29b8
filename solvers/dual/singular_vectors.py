"""Singular vectors, one row for each weight: dense, or computed from the queries' structure.

At query weights q, ``X = diag(q)^1/2 @ left @ factor`` with a k x k matrix ``factor``. If the
queries have structure, only the Gram matrix and the quadratic forms of X are needed, and X itself,
m x k, is never formed.

Symmetric k x k matrices are given by their lower triangle; the upper one is not read.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workloads.operators import Array, Indices, QueryOperator
from workloads.operators.blas import Real, lower_gram, product, times_lower, whole

Single = NDArray[np.float32]
Rows = slice | Indices


@dataclass(frozen=True, eq=False)
class DenseVectors:
    """Singular vectors F as a matrix in single precision.

    Attributes
    ----------
    matrix : numpy.ndarray, shape (n, k)
    """

    matrix: Single

    @property
    def size(self) -> int:
        """Number of rows n."""
        return len(self.matrix)

    def gram(self, weights: Array) -> Single:
        """``F.T @ diag(weights) @ F``, shape (k, k), its lower triangle."""
        up, down = weights > 0, weights < 0
        roots = np.sqrt(np.abs(weights)).astype(np.float32)[:, None]
        positive = lower_gram((self.matrix[up] * roots[up]).T)
        return positive - lower_gram((self.matrix[down] * roots[down]).T)

    def forms(self, symmetric: Array | Single) -> Array:
        """``diag(F @ symmetric @ F.T)``, shape (n,)."""
        lower = np.tril(symmetric.astype(np.float32, copy=False))
        lower[np.diag_indices_from(lower)] /= 2
        moved = times_lower(self.matrix, lower)
        halves: Single = np.einsum("ij,ij->i", moved, self.matrix)
        return 2 * halves.astype(np.float64)

    def squares(self, weights: Array) -> Array:
        """``F**2 @ weights``, shape (n,) or (n, r)."""
        return weighted_squares(self.matrix, weights.astype(np.float32)).astype(np.float64)

    def rows(self, at: Rows) -> Single:
        """The rows at these indices."""
        return self.matrix[at]


@dataclass(frozen=True, eq=False)
class StructuredVectors:
    """Singular vectors ``X = diag(q)^1/2 @ A @ factor`` for an operator A.

    Attributes
    ----------
    operator : QueryOperator
        A, shape (m, k).
    q : numpy.ndarray, shape (m,)
        Query weights.
    factor : numpy.ndarray, shape (k, k)
    """

    operator: QueryOperator
    q: Array
    factor: Array

    @property
    def size(self) -> int:
        """Number of rows m."""
        return self.q.size

    def gram(self, weights: Array) -> Array:
        """``X.T @ diag(weights) @ X``, shape (k, k)."""
        inner = self.operator.gram(self.q * weights)
        return product(self.factor.T, product(inner, self.factor))

    def forms(self, symmetric: Array | Single) -> Array:
        """``diag(X @ symmetric @ X.T)``, shape (m,)."""
        double = whole(symmetric.astype(np.float64, copy=False))
        inner = product(self.factor, product(double, self.factor.T))
        return self.q * self.operator.quadratic_forms(inner)

    def squares(self, weights: Array) -> Array:
        """``X**2 @ weights``, shape (m,) or (m, r)."""
        if weights.ndim == 2:
            return np.stack([self.squares(column) for column in weights.T], axis=1)
        inner = product(self.factor * weights, self.factor.T)
        return self.q * self.operator.quadratic_forms(inner)

    def rows(self, at: Rows) -> Array:
        """The rows at these indices."""
        numbers = np.arange(self.size)[at]
        return np.sqrt(self.q[numbers, None]) * product(self.operator.rows(numbers), self.factor)


SingularVectors = DenseVectors | StructuredVectors
"""Singular vectors F, shape (n, k)."""


def weighted_squares(matrix: NDArray[Real], weights: NDArray[Real]) -> NDArray[Real]:
    """``matrix**2 @ weights``."""
    return product(np.square(matrix), weights)
