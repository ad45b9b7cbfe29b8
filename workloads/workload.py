"""The workload: a query matrix, what it is called and how it was made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from workloads.errors import WorkloadError
from workloads.operators import Array, Explicit, Matrix, QueryOperator

LARGEST_MATRIX_BYTES = 8 * 2**30


@dataclass(frozen=True, eq=False)
class Workload:
    """A batch of m linear queries over a domain of d cells.

    Attributes
    ----------
    name : str
        The family's name, for instance ``"prefix"``.
    operator : QueryOperator
        The query matrix W, shape (m, d), as an operator.
    params : Mapping[str, object]
        The parameters that made it, JSON-like.
    groups : numpy.ndarray of int, shape (m,), optional
        The group of every query (for instance its marginal), from 0; the targets by
        group read it.
    group_names : tuple of str
        One name for each group.
    """

    name: str
    operator: QueryOperator
    params: Mapping[str, object] = field(default_factory=dict)
    groups: NDArray[np.int64] | None = None
    group_names: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """(m, d)."""
        return self.operator.shape

    @property
    def m(self) -> int:
        """Number of queries."""
        return self.shape[0]

    @property
    def d(self) -> int:
        """Number of domain cells."""
        return self.shape[1]

    @cached_property
    def matrix(self) -> Matrix:
        """W, dense or CSR, shape (m, d).

        Raises
        ------
        WorkloadError
            If W would take more than 8 GiB.
        """
        return self.operator.matrix()

    @cached_property
    def dense(self) -> Array:
        """W as a dense float64 array, shape (m, d).

        Raises
        ------
        WorkloadError
            If W would take more than 8 GiB.
        """
        if 8 * self.m * self.d > LARGEST_MATRIX_BYTES:
            raise WorkloadError(
                f"workload {self.name!r}: a dense {self.m} x {self.d} matrix takes "
                f"{8 * self.m * self.d / 2**30:.3g} GiB, more than the limit of "
                f"{LARGEST_MATRIX_BYTES / 2**30:.0f} GiB; use a method that works on its structure"
            )
        matrix = self.matrix
        return np.asarray(matrix.todense()) if sp.issparse(matrix) else matrix


def from_matrix(matrix: ArrayLike | sp.sparray | sp.spmatrix, name: str = "matrix") -> Workload:
    """A workload from a numpy array or a scipy.sparse matrix.

    Parameters
    ----------
    matrix : array_like or scipy.sparse matrix, shape (m, d)
        One row for each linear query.
    name : str
        What to call it.

    Returns
    -------
    Workload

    Raises
    ------
    WorkloadError
        If the matrix is not two-dimensional and real, is empty, holds NaN or infinite
        entries, or has no entry other than zero.
    """
    held: Matrix
    if sp.issparse(matrix):
        held = sp.csr_array(matrix, dtype=np.float64)
        held.sum_duplicates()
        values = held.data
    else:
        array = np.asarray(matrix)
        if array.dtype.kind not in "biuf":
            raise WorkloadError(
                f"workload {name!r}: entries of type {array.dtype} are not real numbers; "
                "give an array of integers or floats"
            )
        held = np.ascontiguousarray(array, dtype=np.float64)
        values = held.ravel()
    if held.ndim != 2 or 0 in held.shape:
        raise WorkloadError(
            f"workload {name!r} has shape {held.shape}; expected a matrix with at least one "
            "query (row) and one domain cell (column)"
        )
    if not np.all(np.isfinite(values)):
        row, column = _first_bad_entry(held)
        raise WorkloadError(
            f"workload {name!r} holds a NaN or infinite entry at row {row}, column {column} "
            "(counted from 0); every entry must be finite"
        )
    if not np.any(values):
        raise WorkloadError(f"workload {name!r} has no entry other than zero: nothing is asked")
    return Workload(name, Explicit(held))


def _first_bad_entry(held: Matrix) -> tuple[int, int]:
    if sp.issparse(held):
        entries = sp.coo_array(held)
        at = int(np.flatnonzero(~np.isfinite(entries.data))[0])
        return int(entries.coords[0][at]), int(entries.coords[1][at])
    row, column = np.argwhere(~np.isfinite(held))[0]
    return int(row), int(column)
