"""Matrix products computed with the BLAS library that scipy.linalg calls.

numpy and scipy each ship their own OpenBLAS, and the idle threads of one library spin while the
other computes. On two cores, a solve over a few hundred domain cells that alternates between the
libraries takes three times as long as on one thread. Loops that call scipy for eigendecompositions
or Cholesky factors therefore use scipy's BLAS for matrix products too.
"""

from typing import TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

Real = TypeVar("Real", np.float32, np.float64)


def product(left: NDArray[Real], right: NDArray[Real]) -> NDArray[Real]:
    """Return ``left @ right`` as an array in C order; ``right`` is a matrix or a vector.

    Operands that are contiguous in C or Fortran order are not copied.
    """
    columns = right[:, None] if right.ndim == 1 else right
    gemm = scipy.linalg.get_blas_funcs("gemm", (left, columns))
    turn_a, turn_b = columns.flags.f_contiguous, left.flags.f_contiguous
    a = columns if turn_a else np.ascontiguousarray(columns).T
    b = left if turn_b else np.ascontiguousarray(left).T
    turned: NDArray[Real] = gemm(1.0, a, b, trans_a=turn_a, trans_b=turn_b).T
    return turned[:, 0] if right.ndim == 1 else turned


def lower_gram(rows: NDArray[Real]) -> NDArray[Real]:
    """Return the lower triangle of ``rows @ rows.T`` in Fortran order, zeros above the diagonal."""
    if rows.size == 0:  # the BLAS rejects empty matrices
        return np.zeros((len(rows),) * 2, rows.dtype, order="F")
    syrk = scipy.linalg.get_blas_funcs("syrk", (rows,))
    transposed = int(rows.flags.f_contiguous)
    turned = rows if transposed else np.ascontiguousarray(rows).T
    gram: NDArray[Real] = syrk(1.0, turned, trans=1 - transposed, lower=1)
    return gram


def whole(lower: NDArray[Real]) -> NDArray[Real]:
    """Return the symmetric matrix with the lower triangle of ``lower``."""
    return np.tril(lower) + np.tril(lower, -1).T


def inner(left: NDArray[Real], right: NDArray[Real]) -> float:
    """Return the sum of the entrywise products of two vectors or matrices, without a BLAS."""
    return float(np.einsum("i,i->" if left.ndim == 1 else "ij,ij->", left, right))
