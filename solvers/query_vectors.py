"""The left singular vectors X of a spectrum, one row for each query: held, or known by structure.

At query weights q, ``X = diag(q)^1/2 @ left @ factor`` with a k x k matrix ``factor``. Where
the queries have structure, whatever is needed of X comes from their Gram matrix and their
quadratic forms, and X itself, m x k, is never formed.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from workloads.operators import Array, Indices, QueryOperator
from workloads.operators.blas import Real, product


@dataclass(frozen=True, eq=False)
class HeldVectors:
    """``X = half @ rotation / singular``, formed on first use.

    Attributes
    ----------
    half : numpy.ndarray, shape (m, k)
        ``diag(q)^1/2 @ left @ root``.
    rotation : numpy.ndarray, shape (k, k)
        The eigenvectors of ``half.T @ half``.
    singular : numpy.ndarray, shape (k,)
        The roots of its eigenvalues.
    """

    half: Array
    rotation: Array
    singular: Array

    @cached_property
    def matrix(self) -> Array:
        """X."""
        return product(self.half, self.rotation) / self.singular

    def squares(self, weights: Array) -> Array:
        """``X**2 @ weights``, shape (m,)."""
        return weighted_squares(self.matrix, weights)


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

    def gram(self, weights: Array) -> Array:
        """``X.T @ diag(weights) @ X``, shape (k, k)."""
        inner = self.operator.gram(self.q * weights)
        return product(self.factor.T, product(inner, self.factor))

    def forms(self, symmetric: Array) -> Array:
        """``diag(X @ symmetric @ X.T)``, shape (m,)."""
        inner = product(self.factor, product(symmetric, self.factor.T))
        return self.q * self.operator.quadratic_forms(inner)

    def squares(self, weights: Array) -> Array:
        """``X**2 @ weights``, shape (m,)."""
        inner = product(self.factor * weights, self.factor.T)
        return self.q * self.operator.quadratic_forms(inner)

    def rows(self, at: Indices) -> Array:
        """The rows of these queries."""
        return np.sqrt(self.q[at, None]) * product(self.operator.rows(at), self.factor)


QueryVectors = HeldVectors | StructuredVectors


def weighted_squares(matrix: NDArray[Real], weights: NDArray[Real]) -> NDArray[Real]:
    """``matrix**2 @ weights``."""
    total: NDArray[Real] = np.einsum("ij,ij,j->i", matrix, matrix, weights)
    return total
