"""Singular vectors, one row for each weight: dense, or computed from the queries' structure.

At query weights q, ``X = diag(q)^1/2 @ left @ factor`` with a k x k matrix ``factor``. If the
queries have structure, only the Gram matrix and the quadratic forms of X are needed, and X itself,
m x k, is never formed.

Symmetric k x k matrices are given by their lower triangle; the upper one is not read.
"""

from dataclasses import dataclass
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from workloads.operators import Array, Indices, QueryOperator
from workloads.operators.blas import Real, lower_gram, product, times_lower, whole

Single = NDArray[np.float32]
Rows = slice | Indices


@dataclass(frozen=True, eq=False)
class DenseVectors(Generic[Real]):
    """F as a matrix, in single or double precision.

    Attributes
    ----------
    matrix : numpy.ndarray, shape (n, k)
    """

    matrix: NDArray[Real]

    @property
    def size(self) -> int:
        """Number of rows n."""
        return len(self.matrix)

    def gram(self, weights: Array) -> NDArray[Real]:
        """``F.T @ diag(weights) @ F``, shape (k, k), its lower triangle."""
        up, down = weights > 0, weights < 0
        roots = np.sqrt(np.abs(weights)).astype(self.matrix.dtype)[:, None]
        positive = lower_gram((self.matrix[up] * roots[up]).T)
        return positive - lower_gram((self.matrix[down] * roots[down]).T)

    def forms(self, symmetric: Array | Single) -> Array:
        """``diag(F @ symmetric @ F.T)``, shape (n,)."""
        lower = np.tril(symmetric.astype(self.matrix.dtype, copy=False))
        lower[np.diag_indices_from(lower)] /= 2
        moved = times_lower(self.matrix, lower)
        halves: NDArray[Real] = np.einsum("ij,ij->i", moved, self.matrix)
        return 2 * halves.astype(np.float64, copy=False)

    def squares(self, weights: Array) -> Array:
        """``F**2 @ weights``, shape (n,) or (n, r)."""
        total = weighted_squares(self.matrix, weights.astype(self.matrix.dtype, copy=False))
        return total.astype(np.float64, copy=False)

    def rows(self, at: Rows) -> NDArray[Real]:
        """Some of the rows."""
        return self.matrix[at]

    def parted(self, at: int) -> "tuple[DenseVectors[Real], DenseVectors[Real]]":
        """The rows before row ``at``, and the others."""
        return DenseVectors(self.matrix[:at]), DenseVectors(self.matrix[at:])


@dataclass(frozen=True, eq=False)
class StructuredVectors:
    """``X = diag(q)^1/2 @ A @ factor`` for an operator A.

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
        """Some of the rows."""
        numbers = np.arange(self.size)[at]
        return np.sqrt(self.q[numbers, None]) * product(self.operator.rows(numbers), self.factor)


@dataclass(frozen=True, eq=False)
class StackedVectors:
    """Two sets of singular vectors, one stacked above the other.

    Attributes
    ----------
    upper, lower : DenseVectors or StructuredVectors
    """

    upper: "SingularVectors"
    lower: "SingularVectors"

    @property
    def size(self) -> int:
        """Number of rows of both."""
        return self.upper.size + self.lower.size

    def gram(self, weights: Array) -> Array:
        """``F.T @ diag(weights) @ F``, shape (k, k)."""
        above = self.upper.gram(weights[: self.upper.size])
        return np.asarray(above + self.lower.gram(weights[self.upper.size :]), dtype=np.float64)

    def forms(self, symmetric: Array | Single) -> Array:
        """``diag(F @ symmetric @ F.T)``, shape (n,)."""
        return np.concatenate([self.upper.forms(symmetric), self.lower.forms(symmetric)])

    def squares(self, weights: Array) -> Array:
        """``F**2 @ weights``, shape (n,) or (n, r)."""
        return np.concatenate([self.upper.squares(weights), self.lower.squares(weights)])

    def parted(self, at: int) -> "tuple[SingularVectors, SingularVectors]":
        """The upper and the lower rows; ``at`` is the index of the first lower row."""
        assert at == self.upper.size
        return self.upper, self.lower

    def rows(self, at: Rows) -> Array:
        """Some of the rows, in the order of their indices."""
        numbers, above = np.arange(self.size)[at], self.upper.size
        upper = self.upper.rows(numbers[numbers < above])
        return np.concatenate([upper, self.lower.rows(numbers[numbers >= above] - above)])


SingularVectors = DenseVectors[np.float32] | DenseVectors[np.float64] | StructuredVectors
"""Singular vectors F, shape (n, k)."""


def weighted_squares(matrix: NDArray[Real], weights: NDArray[Real]) -> NDArray[Real]:
    """``matrix**2 @ weights``."""
    return product(np.square(matrix), weights)
