"""The workload: a query matrix with its name, its parameters and its groups of queries."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from workloads.arrays import masked_count
from workloads.errors import WorkloadError
from workloads.operators import (
    LARGEST_MATRIX_BYTES,
    Array,
    Explicit,
    Kronecker,
    Matrix,
    QueryOperator,
    dense,
    refuse_above_limit,
)

__all__ = [
    "LARGEST_LISTED",
    "LARGEST_MATRIX_BYTES",
    "Stated",
    "Workload",
    "from_factors",
    "from_matrix",
    "in_blocks",
]

LARGEST_LISTED = 10_000_000
"""Workloads of groups with more queries than this have one target for each group."""


@dataclass(frozen=True, eq=False)
class Stated:
    """How accurate the queries are to be, as whoever wrote them stated it.

    Attributes
    ----------
    targets : numpy.ndarray, shape (m,)
        The largest variance that each answer may have.
    confidences : numpy.ndarray, shape (m,)
        The confidence of each margin of error, stated as such or 0.95.
    """

    targets: Array
    confidences: Array


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
        The group of every query (for instance its marginal), from 0. None where the
        workload has no groups, or is not `listed`.
    group_names : tuple of str
        One name for each group.
    group_sizes : tuple of int
        Number of queries of each group, Python ints of any size. If the workload is not
        `listed` the groups are consecutive blocks of these sizes.
    labels : tuple of str
        The name of every query, distinct; empty where queries have no names.
    stated : Stated, optional
        The targets that came with the queries.
    """

    name: str
    operator: QueryOperator
    params: Mapping[str, object] = field(default_factory=dict)
    groups: NDArray[np.int64] | None = None
    group_names: tuple[str, ...] = ()
    group_sizes: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    stated: Stated | None = None

    def __post_init__(self) -> None:
        if len(self.labels) not in (0, self.m):
            raise WorkloadError(
                f"workload {self.name!r}: {len(self.labels)} labels for {self.m} queries; expected "
                "one for each, or none"
            )
        names, sizes = len(self.group_names), len(self.group_sizes)
        if names != sizes or (sizes and sum(self.group_sizes) != self.m):
            raise WorkloadError(
                f"workload {self.name!r}: {names} group names and {sizes} group sizes that sum to "
                f"{sum(self.group_sizes)}; expected as many names as sizes, and a sum of {self.m}"
            )
        known = 0 if self.groups is None else len(self.groups)
        if known != (self.m if sizes and self.listed else 0):
            raise WorkloadError(
                f"workload {self.name!r}: {known} queries have a group; expected the group of each "
                f"of the {self.m} queries, with group_names and group_sizes"
            )

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

    @property
    def listed(self) -> bool:
        """Whether there is one target for each query rather than one for each group.

        False for workloads of groups with more than `LARGEST_LISTED` queries together.
        """
        return not self.group_sizes or self.m <= LARGEST_LISTED

    @property
    def target_count(self) -> int:
        """Length of the targets: m, or the number of groups if not `listed`."""
        return self.m if self.listed else len(self.group_sizes)

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
        refuse_above_limit(
            self.m * self.d,
            f"workload {self.name!r}: a dense {self.m} x {self.d} matrix",
            "use a mechanism that works on its structure",
        )
        return dense(self.matrix)


def in_blocks(
    name: str, operator: QueryOperator, names: Iterable[str], sizes: Iterable[int]
) -> Workload:
    """A workload whose groups are consecutive blocks of queries.

    Parameters
    ----------
    sizes : iterable of int
        Number of queries of each block; they sum to m.
    """
    counts = tuple(sizes)
    listed = sum(counts) <= LARGEST_LISTED
    groups = np.repeat(np.arange(len(counts)), counts) if listed else None
    return Workload(name, operator, groups=groups, group_names=tuple(names), group_sizes=counts)


def from_matrix(matrix: ArrayLike | sp.sparray | sp.spmatrix, name: str = "matrix") -> Workload:
    """A workload from a numpy array or a scipy.sparse matrix, copied and read-only.

    Later changes to the array affect neither the workload nor a solution of it.

    Parameters
    ----------
    matrix : array_like or scipy.sparse matrix, shape (m, d)
        One row for each linear query.
    name : str
        Its name in messages and results.

    Raises
    ------
    WorkloadError
        If the matrix is not two-dimensional and real, is empty, has masked, NaN or infinite
        entries, or has only zero entries.
    """
    array: Any = matrix if sp.issparse(matrix) else _as_array(matrix, name)
    if array.dtype.kind not in "biuf":
        raise WorkloadError(
            f"workload {name!r}: entries of type {array.dtype} are not real numbers; "
            "give an array of integers or floats"
        )
    held: Matrix
    values: Array
    if sp.issparse(array):
        held, values = _as_csr(array)
    else:
        held = np.array(array, dtype=np.float64, order="C")
        values = held.ravel()
        held.flags.writeable = False
    if held.ndim != 2 or 0 in held.shape:
        raise WorkloadError(
            f"workload {name!r} has shape {held.shape}; expected a matrix with at least one "
            "query (row) and one domain cell (column)"
        )
    if not np.all(np.isfinite(values)):
        row, column = _first_bad_entry(held)
        raise WorkloadError(
            f"workload {name!r} has a NaN or infinite entry at row {row}, column {column} "
            "(counted from 0); every entry must be finite"
        )
    if not np.any(values):
        raise WorkloadError(f"workload {name!r} has only zero entries: it asks nothing")
    return Workload(name, Explicit(held))


def from_factors(
    terms: Sequence[Sequence[ArrayLike | sp.sparray | sp.spmatrix]],
    name: str = "products",
    names: Sequence[str] | None = None,
) -> Workload:
    """A workload of Kronecker products, one below another, never written out.

    Parameters
    ----------
    terms : sequence of sequences of array_like or scipy.sparse matrix
        The factors of each product, one for each attribute, in the order of the cells: the
        identity keeps its values apart, a row of ones sums over them, any other matrix asks its
        rows of an ordered attribute.
    name : str
        Its name in messages and results.
    names : sequence of str, optional
        Of the products, each a group of queries; ``"1"``, ``"2"`` and so on if not given.

    Returns
    -------
    Workload
        Solved by its structure, whatever the size of the domain.

    Raises
    ------
    WorkloadError
        If there is no product, a factor is no matrix (see `from_matrix`), or two products are
        over different attributes.
    """
    known: dict[int, Matrix] = {}
    for at, term in enumerate(terms, 1):
        for axis, factor in enumerate(term):
            title = f"{name}, factor {axis + 1} of product {at}"
            known.setdefault(id(factor), _held(factor, title))
    made = tuple(tuple(known[id(factor)] for factor in term) for term in terms)
    sizes = [tuple(int(factor.shape[1]) for factor in term) for term in made]
    if not all(sizes) or not sizes:
        raise WorkloadError(f"workload {name!r}: no product, or one without factors")
    for at, size in enumerate(sizes, 1):
        if size != sizes[0]:
            raise WorkloadError(
                f"workload {name!r}: product {at} is over attributes of {size} values, the first "
                f"over {sizes[0]}; expected the same for all"
            )
    operator = Kronecker(made)
    titles = names or [str(at) for at in range(1, len(made) + 1)]
    return in_blocks(name, operator, titles, operator.term_sizes)


def _held(factor: ArrayLike | sp.sparray | sp.spmatrix, title: str) -> Matrix:
    operator = from_matrix(factor, title).operator
    assert isinstance(operator, Explicit)
    return operator.array


def _as_csr(matrix: Any) -> tuple[sp.csr_array, Array]:
    """A frozen copy of the matrix as CSR without duplicate entries, and its values."""
    held = sp.csr_array(matrix, dtype=np.float64, copy=True)
    held.sum_duplicates()
    for part in (held.data, held.indices, held.indptr):
        part.flags.writeable = False
    return held, held.data


def _as_array(matrix: Any, name: str) -> NDArray[Any]:
    missing = masked_count(matrix)
    if missing:
        raise WorkloadError(
            f"workload {name!r}: {missing} entries are masked; a query weighs every cell: fill "
            "them with numbers (matrix.filled(0)) or leave the cells out"
        )
    try:
        return np.asarray(matrix)
    except ValueError as error:
        raise WorkloadError(f"workload {name!r} is not a matrix: {error}") from error


def _first_bad_entry(held: Matrix) -> tuple[int, int]:
    if sp.issparse(held):
        entries = sp.coo_array(held)
        at = int(np.flatnonzero(~np.isfinite(entries.data))[0])
        return int(entries.coords[0][at]), int(entries.coords[1][at])
    row, column = np.argwhere(~np.isfinite(held))[0]
    return int(row), int(column)
