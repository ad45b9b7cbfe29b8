"""The scaled workload A = diag(c)^-1/2 W in a basis of its row space."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from solvers import memory
from solvers.product_unions import InCoordinates, in_coordinates
from solvers.row_space import (
    NEARLY_FULL,
    WELL_CONDITIONED,
    clear_row_space,
    factor_if_well_conditioned,
    row_space,
)
from workloads.operators import (
    Array,
    Composed,
    Explicit,
    Matrix,
    QueryOperator,
    Scaled,
    dense,
    on_cells,
)
from workloads.operators.blas import product

_FAR_APART = 1e3
_NEGLIGIBLE = 1e-9
_COARSEST = 256
_ALIKE = 0.25
_SQUARE_WORK = 5
"""What a solve by structure takes beside the forms, over d³, if a dense one takes m d²."""


@dataclass(frozen=True, eq=False)
class Factors:
    """``A = left @ basis`` with a basis of full row rank k.

    Attributes
    ----------
    operator : QueryOperator
        The queries in the basis, shape (m, k); A itself where the basis is the identity.
    basis : numpy.ndarray of shape (k, d), or None
        None stands for the identity (k = d).
    known : numpy.ndarray of shape (m, d), optional
        A itself, where it is at hand and computed with.
    """

    operator: QueryOperator
    basis: Array | None
    known: Array | None = None

    @cached_property
    def left(self) -> Array:
        """The queries in the basis, dense, shape (m, k)."""
        return dense(self.operator.matrix())

    @cached_property
    def whole(self) -> Array:
        """A itself, dense, shape (m, d); exactly zero where no query sees a cell."""
        if self.known is not None:
            return self.known
        return self.left if self.basis is None else product(self.left, self.basis)

    @property
    def squared_norms(self) -> tuple[Array, Array]:
        """Squared norms of the columns of A, shape (d,), and of its rows, shape (m,)."""
        if self.basis is None or not self.structured:
            queries = self.operator if self.basis is None else Explicit(self.whole)
            return queries.squared_column_norms(), queries.squared_row_norms()
        squares = product(self.operator.gram(), self.basis)
        columns: Array = np.einsum("kd,kd->d", self.basis, squares)
        return columns, self.operator.quadratic_forms(product(self.basis, self.basis.T))

    @property
    def structured(self) -> bool:
        """Whether the queries are known by their structure rather than dense."""
        return not isinstance(self.operator, Explicit)

    @property
    def nearly_full(self) -> bool:
        """Whether it is dense and of so high a rank that it pays to compute with all cells."""
        return not self.structured and self.rank >= NEARLY_FULL * self.cells

    @property
    def queries(self) -> int:
        """Number of queries m."""
        return self.operator.shape[0]

    @property
    def rank(self) -> int:
        """Rank k."""
        return self.operator.shape[1]

    @property
    def cells(self) -> int:
        """Number of cells d."""
        return self.rank if self.basis is None else self.basis.shape[1]


def structured(operator: QueryOperator) -> Factors | None:
    """Factors that keep the structure of the scaled workload, where that pays.

    None where the structure saves nothing against the dense matrix, or where its rank is
    not clear.
    """
    union = in_coordinates(operator)
    if union is not None:
        return _of_union(operator, union)
    if not structure_pays(operator):
        return None
    seen = seen_cells(operator)
    if not seen.all():
        return _on_seen_cells(operator, seen)
    norms = np.sqrt(operator.squared_row_norms())
    unit = Scaled(operator, np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0))
    gram = unit.gram()
    if factor_if_well_conditioned(gram, WELL_CONDITIONED) is not None:
        return Factors(operator, None)
    columns = np.sqrt(gram.diagonal())
    if columns.max() > _FAR_APART * columns.min():
        return None
    rows = clear_row_space(unit, gram, least_rank=1)
    inner = None if rows is None else Composed(operator, rows.T)
    return Factors(inner, rows) if inner is not None and structure_pays(inner) else None


def seen_cells(operator: QueryOperator) -> NDArray[np.bool_]:
    """Which cells some query sees, shape (d,); exactly, whatever rounding makes of the norms."""
    norms = operator.squared_column_norms()
    seen: NDArray[np.bool_] = norms > _NEGLIGIBLE * norms.max()
    for cell in np.flatnonzero(~seen):
        column = np.zeros(norms.size)
        column[cell] = 1.0
        seen[cell] = operator.apply(column).any()
    return seen


def _of_union(operator: QueryOperator, union: InCoordinates) -> Factors | None:
    """With a basis of the coordinates that some product of a union sees."""
    factors = structured(union.operator)
    if factors is None:
        return None
    rows = union.rows
    basis = rows if factors.basis is None else product(factors.basis, rows)
    return Factors(factors.operator, np.where(seen_cells(operator), basis, 0.0))


def _on_seen_cells(operator: QueryOperator, seen: NDArray[np.bool_]) -> Factors | None:
    """With a basis of the cells that some query sees: the others' columns are zero."""
    factors = structured(on_cells(operator, np.flatnonzero(seen)))
    if factors is None:
        return None
    if factors.basis is None:
        return Factors(factors.operator, np.eye(seen.size)[seen])
    basis = np.zeros((factors.rank, seen.size))
    basis[:, seen] = factors.basis
    return Factors(factors.operator, basis)


def structure_pays(operator: QueryOperator) -> bool:
    """Whether forms and a few products of size d are less work than a product with W."""
    m, d = operator.shape
    return operator.form_work + _SQUARE_WORK * d**3 < m * d**2


def compact(operator: QueryOperator) -> QueryOperator:
    """The queries as they are computed with: a union in the coordinates that it sees."""
    union = in_coordinates(operator)
    return operator if union is None else union.operator


def bytes_of_basis(rank: int, cells: int) -> float:
    """What it takes with the vectors of a spectrum in it; nothing where it is the identity."""
    return 32.0 * rank * cells if rank < cells else 0.0


def form_work(operator: QueryOperator) -> int | None:
    """The work of its forms, where solves with equal targets take its structure."""
    if memory.shortage(24.0 * operator.shape[1] ** 2) or structured(operator) is None:
        return None
    return operator.form_work


def factorise(scaled: Matrix) -> Factors:
    """A rank-revealing factorisation of the scaled workload.

    Parameters
    ----------
    scaled : numpy.ndarray or scipy.sparse.csr_array, shape (m, d)
        A = diag(c)^-1/2 W.

    Returns
    -------
    Factors
        With the identity as basis where W has rank d, with W's own rows where it has
        rank m < d, with an orthonormal basis of the row space otherwise.
    """
    matrix = dense(scaled)
    m, d = matrix.shape
    norms = np.linalg.norm(matrix, axis=1)
    unit = matrix / np.where(norms > 0, norms, 1.0)[:, None]
    gram = unit.T @ unit if m >= d else unit @ unit.T
    if factor_if_well_conditioned(gram, WELL_CONDITIONED) is not None:
        left, basis = (matrix, None) if m >= d else (np.eye(m), matrix)
        return Factors(Explicit(left), basis)
    rows = row_space(unit, gram if m >= d else None)
    if len(rows) < d:
        columns = np.linalg.norm(unit, axis=0)
        seen = columns[columns > 0]
        if seen.max() > _FAR_APART * seen.min():
            return _in_units_of_columns(matrix, unit, columns)
    full = len(rows) == d
    return Factors(Explicit(matrix), None) if full else _in_rows(matrix, matrix, rows)


def coarsened(factors: Factors) -> Factors | None:
    """Every second query and cell of an ordered domain; None where its neighbours are not alike.

    They are where the differences of neighbouring rows are small beside the rows, and those of
    columns beside the columns: prefixes are.
    """
    if factors.structured or factors.basis is not None or factors.cells < _COARSEST:
        return None
    matrix = factors.left
    small = _ALIKE * np.linalg.norm(matrix)
    if any(np.linalg.norm(np.diff(matrix, axis=axis)) > small for axis in (0, 1)):
        return None
    return factorise(matrix[::2, ::2])


def _in_units_of_columns(matrix: Array, unit: Array, columns: Array) -> Factors:
    """With a rank that the scale of no cell changes: small columns count beside large ones."""
    units = np.where(columns > 0, columns, 1.0)
    rows = row_space(unit / units)
    if len(rows) == matrix.shape[1]:
        return Factors(Explicit(matrix), None)
    return _in_rows(matrix, matrix / units, rows, units)


def _in_rows(matrix: Array, divided: Array, rows: Array, units: Array | float = 1.0) -> Factors:
    """With a basis of the rows times the units, in which the matrix over them is computed with."""
    known = matrix if len(rows) >= NEARLY_FULL * matrix.shape[1] else None
    return Factors(Explicit(divided @ rows.T), rows * units, known)
