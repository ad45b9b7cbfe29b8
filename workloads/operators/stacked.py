"""The stacked queries of several operators over the same cells."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from workloads.operators.matrices import dense
from workloads.operators.protocol import Array, Indices, Matrix, QueryOperator


class InParts:
    """The operations on the queries of several operators in order, all over d cells."""

    if TYPE_CHECKING:

        @property
        def parts(self) -> Sequence[QueryOperator]: ...

    @property
    def shape(self) -> tuple[int, int]:
        """(m, d)."""
        return sum(part.shape[0] for part in self.parts), self.parts[0].shape[1]

    @property
    def form_work(self) -> int:
        """Operations, roughly, of one `gram` and one `quadratic_forms`."""
        return sum(part.form_work for part in self.parts)

    def apply(self, x: Array) -> Array:
        """``W @ x``."""
        return np.concatenate([part.apply(x) for part in self.parts])

    def apply_transposed(self, y: Array) -> Array:
        """``W.T @ y``."""
        total = np.zeros((self.shape[1], *y.shape[1:]))
        for part, own in zip(self.parts, self._split(y), strict=True):
            total += part.apply_transposed(own)
        return total

    def gram(self, weights: Array | None = None) -> Array:
        """``W.T @ diag(weights) @ W``."""
        first, *others = self.parts
        shares = [None] * len(self.parts) if weights is None else self._split(weights)
        total = first.gram(shares[0])
        for part, own in zip(others, shares[1:], strict=True):
            total += part.gram(own)
        return total

    def quadratic_forms(self, symmetric: Array) -> Array:
        """``diag(W @ symmetric @ W.T)``."""
        return np.concatenate([part.quadratic_forms(symmetric) for part in self.parts])

    def squared_row_norms(self) -> Array:
        """Squared 2-norm of every query."""
        return np.concatenate([part.squared_row_norms() for part in self.parts])

    def squared_column_norms(self, weights: Array | None = None) -> Array:
        """``diag(gram(weights))``."""
        given = np.ones(self.shape[0]) if weights is None else weights
        pairs = zip(self.parts, self._split(given), strict=True)
        return np.asarray(sum(part.squared_column_norms(own) for part, own in pairs))

    def rows(self, at: Indices) -> Array:
        """The queries with these numbers, dense, shape (len(at), d)."""
        rows = np.empty((len(at), self.shape[1]))
        first = 0
        for part in self.parts:
            own = (at >= first) & (at < first + part.shape[0])
            rows[own] = part.rows(at[own] - first)
            first += part.shape[0]
        return rows

    def matrix(self) -> Matrix:
        """W, CSR where every part is, else dense."""
        matrices = [part.matrix() for part in self.parts]
        sparse = [sp.csr_array(matrix) for matrix in matrices if sp.issparse(matrix)]
        if len(sparse) == len(matrices):
            return sp.csr_array(sp.vstack(sparse))
        return np.vstack([dense(matrix) for matrix in matrices])

    def _split(self, y: Array) -> list[Array]:
        return np.split(y, np.cumsum([part.shape[0] for part in self.parts])[:-1])


@dataclass(frozen=True, eq=False)
class Stacked(InParts):
    """W, the queries of all parts in order, with the structure of each.

    Attributes
    ----------
    parts : tuple of QueryOperator
        At least one.
    """

    parts: tuple[QueryOperator, ...]
