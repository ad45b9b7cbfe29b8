"""Linear systems ``diag(1/g) + A diag(e) A.T`` for a sparse non-negative A.

Columns with a single entry (subsets that lie in one marginal) only add to the diagonal. For
the others the smaller of two dense matrices is factorised: the system itself, one row for each
constraint, or by the Woodbury identity one row for each shared column. Where both are large,
conjugate gradients.
"""

from collections.abc import Callable

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from workloads.operators import Array

Solve = Callable[[Array], Array]

LARGEST_DENSE = 6000
"""Rows of the largest matrix that is factorised."""

_REFINEMENTS = 2


class System:
    """The part of the systems that does not change: A, split into its kinds of columns."""

    def __init__(self, matrix: sp.csr_array) -> None:
        counts = np.bincount(matrix.indices, minlength=matrix.shape[1])
        self._shared = np.flatnonzero(counts > 1)
        self._single = np.flatnonzero(counts == 1)
        columns = sp.csc_array(matrix)
        self._a = sp.csr_array(columns[:, self._shared])
        self._at = sp.csr_array(self._a.T)
        self._squares = sp.csr_array(columns[:, self._single].power(2))
        self._by_rows = matrix.shape[0] <= self._shared.size

    def factorised(self, g: Array, e: Array) -> Solve:
        """The solution operator of ``diag(1/g) + A diag(e) A.T``.

        Parameters
        ----------
        g : numpy.ndarray, shape (rows,)
            Non-negative; a zero stands for an infinite diagonal entry.
        e : numpy.ndarray, shape (columns,)
            Positive.

        Returns
        -------
        callable
            From a right-hand side, shape (rows,), to the solution.
        """
        g = g / (1 + g * (self._squares @ e[self._single]))
        shared = e[self._shared]
        return self._on_rows(g, shared) if self._by_rows else self._on_columns(g, shared)

    def _on_rows(self, g: Array, e: Array) -> Solve:
        """``I + G^1/2 A E A.T G^1/2``, eigenvalues from 1 on."""
        root = np.sqrt(g)
        half = self._a.multiply(root[:, None]).multiply(np.sqrt(e)).toarray()
        gram = half @ half.T
        gram[np.diag_indices_from(gram)] += 1.0
        factor = sla.cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
        return lambda right: root * sla.cho_solve(factor, root * right, check_finite=False)

    def _on_columns(self, g: Array, e: Array) -> Solve:
        """Woodbury: ``G - G A E^1/2 (I + E^1/2 A.T G A E^1/2)^-1 E^1/2 A.T G``."""
        root = np.sqrt(e)
        scaled = sp.csr_array(self._at.multiply(root[:, None]).multiply(np.sqrt(g)))
        gram = (scaled @ scaled.T).toarray()
        gram[np.diag_indices_from(gram)] += 1.0
        factor = sla.cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)

        def solve(right: Array) -> Array:
            inner = sla.cho_solve(factor, root * (self._at @ (g * right)), check_finite=False)
            first: Array = g * (right - self._a @ (root * inner))
            return first

        return solve
