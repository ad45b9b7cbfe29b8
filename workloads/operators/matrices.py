"""Operations on matrices that are dense or in CSR."""

import numpy as np
import scipy.sparse as sp

from workloads.operators.blas import product
from workloads.operators.protocol import Array, Matrix


def dense(matrix: Matrix | sp.csc_array) -> Array:
    """The matrix as an array."""
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


def transposed(matrix: Matrix) -> Matrix:
    """The transpose, again in CSR if the matrix is."""
    return sp.csr_array(matrix.T) if sp.issparse(matrix) else matrix.T


def squared(matrix: Matrix) -> Matrix:
    """The squares of the entries."""
    return matrix.power(2) if sp.issparse(matrix) else np.square(matrix)


def entry_count(matrix: Matrix) -> int:
    """How many entries are not zero."""
    return int(matrix.count_nonzero() if sp.issparse(matrix) else np.count_nonzero(matrix))


def times(left: Matrix, right: Array) -> Array:
    """``left @ right``."""
    return np.asarray(left @ right) if sp.issparse(left) else product(left, right)
