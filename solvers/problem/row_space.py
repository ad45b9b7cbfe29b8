"""Row spaces and null spaces of matrices, and factors and inverses of Gram matrices."""

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from workloads.operators import Array, Explicit, Matrix, QueryOperator, dense
from workloads.operators.blas import Real, product, whole

WELL_CONDITIONED = 1e-10
"""Reciprocal condition number above which a Gram matrix is treated as invertible.

Solving with the matrix then loses ten of sixteen digits, and singular values are known to 1e-6.
"""
NEARLY_FULL = 0.9
"""Least ratio of rank to d at which it is faster to compute with d columns than in a basis."""


def power_of_two(largest: ArrayLike) -> Array:
    """Return the power of two next below each positive number: dividing by it changes no digit."""
    return np.asarray(np.ldexp(1.0, np.frexp(largest)[1] - 1))


def column_norms(matrix: Array) -> Array:
    """Return the norms of all columns, shape (d,), even if their squares overflow or underflow."""
    units = power_of_two(np.abs(matrix).max(axis=0, initial=0.0))
    return np.asarray(units * np.linalg.norm(matrix / units, axis=0))


def row_space(matrix: Array, gram: Array | None = None) -> Array:
    """Compute an orthonormal basis of a matrix's row space, shape (rank, d).

    Columns that are zero in the matrix are exactly zero in the basis. ``gram`` is
    ``matrix.T @ matrix``; it is computed if it is needed and not given.
    """
    least = NEARLY_FULL * matrix.shape[1]
    rows = None
    if len(matrix) >= least:
        known = matrix.T @ matrix if gram is None else gram
        rows = clear_row_space(Explicit(matrix), known, least)
    if rows is None:
        singular, right = _right_singular(matrix)
        rows = right[: int(np.sum(singular > _rounding(matrix.shape) * singular[0]))]
    return np.where(np.any(matrix, axis=0), rows, 0.0)


def singular_rows(matrix: Matrix) -> tuple[Array, Array]:
    """Compute the singular values above rounding error and their right singular vectors.

    ``diag(singular) @ rows`` has the Gram matrix of ``matrix`` and full row rank.

    Parameters
    ----------
    matrix : numpy.ndarray or scipy.sparse.csr_array, shape (r, d)
        A matrix with at least one nonzero entry.

    Returns
    -------
    singular : numpy.ndarray, shape (k,)
        The singular values, positive, in descending order.
    rows : numpy.ndarray, shape (k, d)
        The right singular vectors as orthonormal rows.
    """
    array = dense(matrix)
    m, d = array.shape
    if m > d:
        array = np.asarray(scipy.linalg.qr(array, mode="r", check_finite=False)[0][:d])
    singular, rows = _right_singular(array)
    rank = int(np.sum(singular > max(m, d) * np.finfo(float).eps * singular[0]))
    return singular[:rank], rows[:rank]


def _right_singular(matrix: Array) -> tuple[Array, Array]:
    """Singular values in descending order, and right singular vectors as rows.

    LAPACK's slower algorithm is used where its faster one does not converge, which happens for some
    matrices with many equal singular values.
    """
    try:
        _, singular, right = scipy.linalg.svd(matrix, full_matrices=False, check_finite=False)
    except scipy.linalg.LinAlgError:
        _, singular, right = scipy.linalg.svd(
            matrix, full_matrices=False, check_finite=False, lapack_driver="gesvd"
        )
    return singular, right


def clear_row_space(queries: QueryOperator, gram: Array, least_rank: float) -> Array | None:
    """Compute an orthonormal basis of the row space from the Gram matrix.

    Return None if the rank is full or below ``least_rank``, or if rounding errors leave it unclear.
    Pivoted Cholesky factorisation selects well-conditioned columns on which all other columns
    depend linearly. So no nonzero singular value of the matrix is less than the least singular
    value of the selected columns.
    """
    # 1. P Gram Pᵀ = R Rᵀ for the leading columns, O(rank² d)
    largest = gram.diagonal().max()
    factor, order, rank, _ = scipy.linalg.lapack.dpstrf(
        gram, tol=WELL_CONDITIONED * largest, lower=1
    )
    if not least_rank <= rank < len(gram):
        return None
    leading, known, others = factor[:rank, :rank], order[:rank] - 1, order[rank:] - 1
    reciprocal, _ = scipy.linalg.lapack.dpocon(leading, np.linalg.norm(gram, 1), uplo="L")
    if not reciprocal > WELL_CONDITIONED:
        return None
    # 2. each other column as a combination of the leading ones: vectors of the null space. One step
    # of iterative refinement removes the error that the Gram matrix squares.
    dependent = np.zeros((len(gram), len(others)))
    dependent[others, np.arange(len(others))] = 1.0
    dependent[known] = -scipy.linalg.solve_triangular(
        leading, factor[rank:, :rank].T, lower=True, trans=1
    )
    image = queries.apply_transposed(queries.apply(dependent))
    dependent[known] -= scipy.linalg.cho_solve((leading, True), image[known])
    # 3. an orthonormal basis of these vectors, and of their complement, the row space
    both = np.asarray(
        scipy.linalg.qr(dependent, overwrite_a=True, check_finite=False)[0], dtype=np.float64
    )
    null, rows = both[:, : len(others)], both[:, len(others) :]
    # 4. the null space is one up to rounding; ‖G‖_F² / tr G is at most the largest eigenvalue of G
    least_of_largest = np.linalg.norm(gram) / np.sqrt(np.trace(gram))
    if np.linalg.norm(queries.apply(null)) > _rounding(queries.shape) * least_of_largest:
        return None
    return np.ascontiguousarray(rows.T)


def _rounding(shape: tuple[int, ...]) -> float:
    """Ten times LAPACK's bound on the error of a singular value, relative to the largest."""
    return float(10 * max(shape) * np.finfo(float).eps)


def parted(
    matrix: NDArray[Real], squares: NDArray[Real], vectors: NDArray[Real], count: int
) -> tuple[NDArray[Real], NDArray[Real]]:
    """Separate the null space of a matrix from its row space by a step of Newton's method.

    The computed eigenvectors of a Gram matrix mix the two spaces, by about the rounding error
    divided by the least eigenvalue of the row space. The step reduces the mixture to the square of
    this ratio.

    Parameters
    ----------
    squares, vectors : numpy.ndarray, shapes (d,) and (d, d)
        The eigenvalues, ascending, and eigenvectors of ``matrix.T @ matrix``.
    count : int
        The dimension of the null space, whose eigenvalues are far below the others.

    Returns
    -------
    tuple of numpy.ndarray
        Orthonormal columns that span the null space, shape (d, count), and the row space, shape
        (d, d - count).
    """
    null, rows = vectors[:, :count], vectors[:, count:]
    image = product(matrix.T, product(matrix, null))
    mixed = product(rows.T, image) / squares[count:, None]
    return null - product(rows, mixed), rows + product(null, mixed.T)


def factor_if_well_conditioned(gram: Array, least: float) -> Array | None:
    """Return the lower Cholesky factor of a positive semidefinite matrix.

    Parameters
    ----------
    gram : numpy.ndarray, shape (k, k)
        Symmetric positive semidefinite, not zero.
    least : float
        The reciprocal condition number (in the 1-norm) that the matrix must exceed.

    Returns
    -------
    numpy.ndarray or None
        The factor; None if the reciprocal condition number does not exceed ``least``.
    """
    try:
        lower = scipy.linalg.cholesky(gram, lower=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        return None
    reciprocal, _ = scipy.linalg.lapack.dpocon(lower, np.linalg.norm(gram, 1), uplo="L")
    return lower if reciprocal > least else None


def invert_positive(matrix: Array) -> Array:
    """Invert a symmetric matrix; LinAlgError if it is not positive definite."""
    lower = scipy.linalg.cholesky(matrix, lower=True, check_finite=False)
    return whole(scipy.linalg.lapack.dpotri(lower, lower=1)[0])
