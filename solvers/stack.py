"""The singular vectors F = [Z; X] of a spectrum, one row for each free weight."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from solvers.query_vectors import HeldVectors, StructuredVectors, weighted_squares
from solvers.spectral import Spectrum
from workloads.operators import Array, Indices
from workloads.operators.blas import product

Single = NDArray[np.float32]


class Stack(Protocol):
    """What the Newton system asks of F, shape (n, k)."""

    def gram(self, weights: Array) -> Array | Single:
        """``F.T @ diag(weights) @ F``, shape (k, k)."""
        ...

    def forms(self, symmetric: Array | Single) -> Array:
        """``diag(F @ symmetric @ F.T)``, shape (n,)."""
        ...

    def squares(self, weights: Array) -> Array:
        """``F**2 @ weights``, shape (n,)."""
        ...

    def rows(self, at: Indices | slice) -> Single:
        """The rows of these weights."""
        ...


def stacked(found: Spectrum, *, with_queries: bool) -> Stack:
    """F of a spectrum; Z alone where the queries have no free weights."""
    if not with_queries:
        return _Held(found.columns.astype(np.float32))
    if isinstance(found.queries, HeldVectors):
        return _Held(np.concatenate([found.columns, found.queries.matrix], dtype=np.float32))
    return _Structured(found.columns, found.queries)


@dataclass(frozen=True, eq=False)
class _Held:
    """F in single precision."""

    held: Single

    def gram(self, weights: Array) -> Array | Single:
        weighted = self.held * weights.astype(np.float32)[:, None]
        return product(self.held.T, weighted)

    def forms(self, symmetric: Array | Single) -> Array:
        moved = product(self.held, symmetric.astype(np.float32, copy=False))
        forms: Single = np.einsum("ij,ij->i", moved, self.held)
        return forms.astype(np.float64)

    def squares(self, weights: Array) -> Array:
        return weighted_squares(self.held, weights.astype(np.float32)).astype(np.float64)

    def rows(self, at: Indices | slice) -> Single:
        return self.held[at]


@dataclass(frozen=True, eq=False)
class _Structured:
    """Z held, X by the structure of the queries."""

    columns: Array
    queries: StructuredVectors

    def gram(self, weights: Array) -> Array | Single:
        d = len(self.columns)
        own = product(self.columns.T, self.columns * weights[:d, None])
        return own + self.queries.gram(weights[d:])

    def forms(self, symmetric: Array | Single) -> Array:
        double = symmetric.astype(np.float64, copy=False)
        own = np.einsum("ij,ij->i", product(self.columns, double), self.columns)
        return np.concatenate([own, self.queries.forms(double)])

    def squares(self, weights: Array) -> Array:
        own = weighted_squares(self.columns, weights)
        return np.concatenate([own, self.queries.squares(weights)])

    def rows(self, at: Indices | slice) -> Single:
        d = len(self.columns)
        numbers = np.arange(d + self.queries.q.size)[at]
        own, asked = numbers[numbers < d], numbers[numbers >= d] - d
        return np.concatenate([self.columns[own], self.queries.rows(asked)], dtype=np.float32)
