"""Linear systems ``diag(1/g) + A diag(e) A.T`` for a sparse non-negative A.

Columns with a single entry (subsets that lie in one marginal) only add to the diagonal. For
the others the smaller of two dense matrices is factorised: the system itself, one row for each
constraint, or by the Woodbury identity one row for each shared column. Where both are large,
conjugate gradients on the smaller.
"""

from collections.abc import Callable

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg

from workloads.operators import Array

Solve = Callable[[Array], Array]

LARGEST_FACTORISED = 3000
"""Rows of the largest dense matrix that is factorised."""

_RIDGE = 1e-15
_RESIDUAL = 1e-11
_MOST_PRODUCTS = 2000


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
        """``I + G^1/2 A E A.T G^1/2``."""
        root = np.sqrt(g)
        inner = _inverse(_scaled(self._a, root, np.sqrt(e)))
        return lambda right: root * inner(root * right)

    def _on_columns(self, g: Array, e: Array) -> Solve:
        """Woodbury: ``G - G A E^1/2 (I + E^1/2 A.T G A E^1/2)^-1 E^1/2 A.T G``."""
        root = np.sqrt(e)
        inner = _inverse(_scaled(self._at, root, np.sqrt(g)))

        def solve(right: Array) -> Array:
            return np.asarray(
                g * (right - self._a @ (root * inner(root * (self._at @ (g * right)))))
            )

        return solve


def _scaled(matrix: sp.csr_array, left: Array, right: Array) -> sp.csr_array:
    return sp.csr_array(matrix.multiply(left[:, None]).multiply(right))


def _inverse(half: sp.csr_array) -> Solve:
    """The inverse of ``I + half @ half.T``, scaled to ones on the diagonal."""
    diagonal = 1.0 + np.asarray(half.power(2).sum(axis=1), dtype=np.float64)
    root = np.sqrt(1 / diagonal)
    unit = _scaled(half, root, np.ones(half.shape[1]))
    inner = _by_cholesky if half.shape[0] <= LARGEST_FACTORISED else _by_conjugate_gradients
    solve = inner(unit, np.square(root))
    return lambda right: root * solve(root * right)


def _by_cholesky(half: sp.csr_array, diagonal: Array) -> Solve:
    """The inverse of ``diag(diagonal) + half @ half.T``, which has ones on its diagonal."""
    gram = (half @ half.T).toarray()
    gram[np.diag_indices_from(gram)] += diagonal + _RIDGE * len(gram)
    factor = sla.cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
    return lambda right: sla.cho_solve(factor, right, check_finite=False)


def _by_conjugate_gradients(half: sp.csr_array, diagonal: Array) -> Solve:
    """The same without the matrix. A solution that is not exact costs Newton steps, no more."""
    turned = sp.csr_array(half.T)
    operator = LinearOperator(
        (diagonal.size, diagonal.size),
        matvec=lambda x: diagonal * x + half @ (turned @ x),
        dtype=np.float64,
    )
    return lambda right: cg(operator, right, rtol=_RESIDUAL, maxiter=_MOST_PRODUCTS)[0]
