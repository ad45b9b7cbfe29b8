"""Row spaces and null spaces, and whether a matrix is conditioned well enough to have none."""

import numpy as np
import scipy.linalg as sla

from workloads.operators import Array, Explicit, QueryOperator
from workloads.operators.blas import lower_gram, product

WELL_CONDITIONED = 1e-10
"""The least reciprocal condition number of a Gram matrix whose rank is not looked into."""
NEARLY_FULL = 0.9
"""From which rank on, over d, it pays to compute with all cells and leave the null space out."""


def row_space(matrix: Array) -> Array:
    """An orthonormal basis of it, up to rounding; exactly zero where the matrix is."""
    least = NEARLY_FULL * matrix.shape[1]
    rows = None
    if len(matrix) >= least:
        rows = clear_row_space(Explicit(matrix), lower_gram(matrix.T), least)
    if rows is None:
        singular, right = _right_singular(matrix)
        rows = right[: int(np.sum(singular > _rounding(matrix.shape) * singular[0]))]
    return np.where(np.any(matrix, axis=0), rows, 0.0)


def _right_singular(matrix: Array) -> tuple[Array, Array]:
    """Singular values, descending, and right vectors as rows.

    LAPACK's faster algorithm fails to converge on some matrices with many equal singular values.
    """
    try:
        _, singular, right = sla.svd(matrix, full_matrices=False, check_finite=False)
    except sla.LinAlgError:
        _, singular, right = sla.svd(
            matrix, full_matrices=False, check_finite=False, lapack_driver="gesvd"
        )
    return singular, right


def clear_row_space(queries: QueryOperator, gram: Array, least_rank: float) -> Array | None:
    """The row space by the Gram matrix; None where it is not clear which directions are null."""
    squares, vectors = sla.eigh(gram, driver="evd", check_finite=False)
    count = int(np.sum(squares <= WELL_CONDITIONED * squares[-1]))
    if not 0 < count <= len(gram) - least_rank:
        return None
    image = queries.apply_transposed(queries.apply(vectors[:, :count]))
    null, rows = _parted(image, squares, vectors)
    if np.linalg.norm(queries.apply(null)) > _rounding(queries.shape) * np.sqrt(squares[-1]):
        return None
    return rows.T


def _rounding(shape: tuple[int, ...]) -> float:
    return float(10 * max(shape) * np.finfo(float).eps)


def parted(matrix: Array, squares: Array, vectors: Array, count: int) -> tuple[Array, Array]:
    """The null space of a matrix and the space of its rows, parted by a step of Newton's method.

    The eigenvectors of a Gram matrix have them mixed by the rounding error over the least
    eigenvalue of the rows; afterwards by the square of that.

    Parameters
    ----------
    squares, vectors : numpy.ndarray, shapes (d,) and (d, d)
        The eigenvalues, ascending, and eigenvectors of ``matrix.T @ matrix``.
    count : int
        The dimension of the null space, well parted from the other eigenvalues.

    Returns
    -------
    tuple of numpy.ndarray
        Orthonormal columns, shapes (d, count) and (d, d - count).
    """
    null = vectors[:, :count]
    return _parted(product(matrix.T, product(matrix, null)), squares, vectors)


def _parted(image: Array, squares: Array, vectors: Array) -> tuple[Array, Array]:
    """`parted`, from what the Gram matrix makes of the null space."""
    count = image.shape[1]
    null, rows = vectors[:, :count], vectors[:, count:]
    mixed = product(rows.T, image) / squares[count:, None]
    return null - product(rows, mixed), rows + product(null, mixed.T)


def factor_if_well_conditioned(gram: Array, least: float) -> Array | None:
    """The lower Cholesky factor of a positive semidefinite matrix.

    Parameters
    ----------
    gram : numpy.ndarray, shape (k, k)
        Symmetric positive semidefinite, not zero.
    least : float
        The reciprocal condition number (in the 1-norm) that it must exceed.

    Returns
    -------
    numpy.ndarray or None
        None if it does not.
    """
    try:
        lower = sla.cholesky(gram, lower=True, check_finite=False)
    except sla.LinAlgError:
        return None
    reciprocal, _ = sla.lapack.dpocon(lower, np.linalg.norm(gram, 1), uplo="L")
    return lower if reciprocal > least else None
