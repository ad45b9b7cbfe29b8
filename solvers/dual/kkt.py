"""Linear systems with constraints (KKT systems), and the systems of scalar blocks without them.

`LowRankSystem` solves ``diag(1/g) + A diag(e) A.T`` for a non-negative A, dense or sparse. Columns
of a sparse A with a single entry (subsets that lie in one marginal) only add to the diagonal. For
the others, the smaller of two dense matrices is factorised: the system itself, with one row for
each row of A; or, if the shared columns are fewer than half the rows, one row for each of those
columns by the Woodbury identity, which is more sensitive to rounding. If both are large, conjugate
gradients solve the system.
"""

from collections.abc import Callable

import numpy as np
import scipy

from workloads.operators import Array, Matrix
from workloads.operators.blas import lower_gram, product

Solve = Callable[[Array], Array]

LARGEST_FACTORISED = 3000
"""Rows of the largest dense matrix that is factorised."""

_RIDGE = 1e-15
_RESIDUAL = 1e-11
_MOST_PRODUCTS = 2000


class LowRankSystem:
    """The constant part of the systems: A, with its columns split by kind.

    Parameters
    ----------
    matrix : numpy.ndarray or scipy.sparse.csr_array, shape (rows, columns)
        A.
    largest_factorised : int
        Rows of the largest dense matrix that is factorised.
    """

    def __init__(self, matrix: Matrix, largest_factorised: int = LARGEST_FACTORISED) -> None:
        self._largest_factorised = largest_factorised
        columns = scipy.sparse.csc_array(matrix) if scipy.sparse.issparse(matrix) else matrix
        counts = np.diff(scipy.sparse.csc_array(columns).indptr)
        self._shared = np.flatnonzero(counts > 1)
        self._single = np.flatnonzero(counts == 1)
        self._a = _by_row(columns[:, self._shared])
        self._at = _by_row(self._a.T)
        self._squares = _by_row(_squared(columns[:, self._single]))
        self._by_rows = matrix.shape[0] <= 2 * self._shared.size

    def factorised(self, g: Array, e: Array) -> Solve:
        """The solution operator of ``diag(1/g) + A diag(e) A.T``.

        Parameters
        ----------
        g : numpy.ndarray, shape (rows,)
            Non-negative; a zero means an infinite diagonal entry.
        e : numpy.ndarray, shape (columns,)
            The diagonal e, positive.

        Returns
        -------
        callable
            Maps right-hand sides, shape (rows,) or (rows, any number), to the solutions.
        """
        g = g / (1 + g * (self._squares @ e[self._single]))
        shared = e[self._shared]
        return self._on_rows(g, shared) if self._by_rows else self._on_columns(g, shared)

    def _on_rows(self, g: Array, e: Array) -> Solve:
        """``I + G^1/2 A E A.T G^1/2``."""
        root = np.sqrt(g)
        inner = self._inverse(_scaled(self._a, root, np.sqrt(e)))
        return lambda right: _times(root, inner(_times(root, right)))

    def _on_columns(self, g: Array, e: Array) -> Solve:
        """Woodbury: ``G - G A E^1/2 (I + E^1/2 A.T G A E^1/2)^-1 E^1/2 A.T G``."""
        root = np.sqrt(e)
        inner = self._inverse(_scaled(self._at, root, np.sqrt(g)))

        def solve(right: Array) -> Array:
            shared = _times(root, inner(_times(root, self._at @ _times(g, right))))
            return _times(g, right - self._a @ shared)

        return solve

    def _inverse(self, half: Matrix) -> Solve:
        """The inverse of ``I + half @ half.T``, scaled to ones on the diagonal."""
        diagonal = 1.0 + np.asarray(_squared(half).sum(axis=1), dtype=np.float64)
        root = np.sqrt(1 / diagonal)
        unit = _scaled(half, root, np.ones(half.shape[1]))
        few = half.shape[0] <= self._largest_factorised
        solve = (_by_cholesky if few else _by_conjugate_gradients)(unit, np.square(root))
        return lambda right: _times(root, solve(_times(root, right)))


def _times(diagonal: Array, right: Array) -> Array:
    return (diagonal * right.T).T


def _by_row(matrix: "Matrix | scipy.sparse.csc_array") -> Matrix:
    return (
        scipy.sparse.csr_array(matrix)
        if scipy.sparse.issparse(matrix)
        else np.ascontiguousarray(matrix)
    )


def _squared(matrix: "Matrix | scipy.sparse.csc_array") -> "Matrix | scipy.sparse.csc_array":
    return matrix.power(2) if scipy.sparse.issparse(matrix) else np.square(matrix)


def _scaled(matrix: Matrix, left: Array, right: Array) -> Matrix:
    if scipy.sparse.issparse(matrix):
        return scipy.sparse.csr_array(matrix.multiply(left[:, None]).multiply(right))
    return matrix * left[:, None] * right


def _by_cholesky(half: Matrix, diagonal: Array) -> Solve:
    """The inverse of ``diag(diagonal) + half @ half.T``, a matrix with ones on its diagonal."""
    gram = (half @ half.T).toarray() if scipy.sparse.issparse(half) else lower_gram(half)
    gram[np.diag_indices_from(gram)] += diagonal + _RIDGE * len(gram)
    factor = scipy.linalg.cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
    return lambda right: scipy.linalg.cho_solve(factor, right, check_finite=False)


def _by_conjugate_gradients(half: Matrix, diagonal: Array) -> Solve:
    """The same without forming the matrix; an inexact solution only costs more Newton steps."""
    turned = _by_row(half.T)
    operator = scipy.sparse.linalg.LinearOperator(
        (diagonal.size, diagonal.size),
        matvec=lambda x: diagonal * x + half @ (turned @ x),
        dtype=np.float64,
    )

    def solve(right: Array) -> Array:
        if right.ndim == 2:
            return np.stack([solve(column) for column in right.T], axis=1)
        return scipy.sparse.linalg.cg(operator, right, rtol=_RESIDUAL, maxiter=_MOST_PRODUCTS)[0]

    return solve


class ConstrainedSystem:
    """``H z + constraints @ nu = b`` with ``constraints.T @ z = r``, by the Schur complement.

    Parameters
    ----------
    inverse : callable
        ``inv(H) @ b`` for b of shape (n,) or (n, number of columns).
    constraints : numpy.ndarray, shape (n, number of groups)
        Its columns are linearly independent.
    """

    bends = False
    products = 0

    def __init__(self, inverse: Callable[[Array], Array], constraints: Array) -> None:
        self._inverse = inverse
        self._constraints = constraints
        solved = inverse(constraints)
        self._turned = bool(solved.flags.f_contiguous)
        self._solved = solved if self._turned else np.ascontiguousarray(solved).T
        self._inverse_schur = np.linalg.pinv(product(constraints.T, solved))

    def approximate(self, b: Array, r: Array) -> tuple[Array, Array]:
        """(z, nu)."""
        solved = self._inverse(b)
        # solvers.dual multiplies with one BLAS (workloads.operators.blas). These products are the
        # most frequent ones, so they call it without looking up the function.
        dgemm = scipy.linalg.blas.dgemm
        excess = dgemm(1.0, solved[:, None], self._constraints.T, trans_a=1, trans_b=1)[0] - r
        nu = self._inverse_schur @ excess
        back = dgemm(1.0, nu[:, None], self._solved, trans_a=1, trans_b=self._turned)[0]
        return solved - back, nu

    def bend(self, z: Array, negligible: float) -> Array:
        """Zero: the exact system needs no second-order correction."""
        return np.zeros_like(z)

    def solve(self, b: Array, r: Array, reduction: float) -> tuple[Array, Array]:
        """(z, nu): the inverse is exact, so there is no residual to reduce."""
        return self.approximate(b, r)
