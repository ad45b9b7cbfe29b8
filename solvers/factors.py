"""The scaled workload A = diag(c)^-1/2 W in a basis of its row space."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
from numpy.typing import NDArray

from solvers import memory
from solvers.unions import InCoordinates, in_coordinates
from workloads.operators import Array, Composed, Explicit, Matrix, QueryOperator, Scaled, on_cells
from workloads.operators.blas import lower_gram, product

_WELL_CONDITIONED = 1e-10
_FAR_APART = 1e3
_NEGLIGIBLE = 1e-9
NEARLY_FULL = 0.9
"""From which rank on, over d, it pays to compute with all cells and leave the null space out."""
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
    """

    operator: QueryOperator
    basis: Array | None

    @cached_property
    def left(self) -> Array:
        """The queries in the basis, dense, shape (m, k)."""
        matrix = self.operator.matrix()
        return np.asarray(matrix.todense()) if sp.issparse(matrix) else matrix

    @cached_property
    def whole(self) -> Array:
        """A itself, dense, shape (m, d); exactly zero where no query sees a cell."""
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


def dense(left: Array, basis: Array | None) -> Factors:
    """Factors whose queries are a dense matrix."""
    return Factors(Explicit(left), basis)


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
    if factor_if_well_conditioned(gram, _WELL_CONDITIONED) is not None:
        return Factors(operator, None)
    columns = np.sqrt(gram.diagonal())
    if columns.max() > _FAR_APART * columns.min():
        return None
    rows = _clear_row_space(unit, gram, least_rank=1)
    found = None if rows is None else Composed(operator, rows.T)
    return Factors(found, rows) if found is not None and structure_pays(found) else None


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
    found = structured(union.operator)
    if found is None:
        return None
    rows = union.rows
    basis = rows if found.basis is None else product(found.basis, rows)
    return Factors(found.operator, np.where(seen_cells(operator), basis, 0.0))


def _on_seen_cells(operator: QueryOperator, seen: NDArray[np.bool_]) -> Factors | None:
    """With a basis of the cells that some query sees: the others' columns are zero."""
    found = structured(on_cells(operator, np.flatnonzero(seen)))
    if found is None:
        return None
    if found.basis is None:
        return Factors(found.operator, np.eye(seen.size)[seen])
    basis = np.zeros((found.rank, seen.size))
    basis[:, seen] = found.basis
    return Factors(found.operator, basis)


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
    if memory.trouble(24.0 * operator.shape[1] ** 2) or structured(operator) is None:
        return None
    return operator.form_work


def factorise(scaled: Matrix) -> Factors:
    """A rank-revealing factorisation of the scaled workload.

    Returns
    -------
    Factors
        With the identity as basis where W has rank d, with W's own rows where it has
        rank m < d, with an orthonormal basis of the row space otherwise.
    """
    matrix = np.asarray(scaled.todense()) if sp.issparse(scaled) else scaled
    m, d = matrix.shape
    norms = np.linalg.norm(matrix, axis=1)
    unit = matrix / np.where(norms > 0, norms, 1.0)[:, None]
    gram = unit.T @ unit if m >= d else unit @ unit.T
    if factor_if_well_conditioned(gram, _WELL_CONDITIONED) is not None:
        return dense(matrix, None) if m >= d else dense(np.eye(m), matrix)
    rows = _row_space(unit)
    if len(rows) < d:
        columns = np.linalg.norm(unit, axis=0)
        seen = columns[columns > 0]
        if seen.max() > _FAR_APART * seen.min():
            return _in_units_of_columns(matrix, unit, columns)
    return dense(matrix, None) if len(rows) == d else dense(matrix @ rows.T, rows)


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


def _row_space(matrix: Array) -> Array:
    """An orthonormal basis of it, up to rounding; exactly zero where the matrix is."""
    least = NEARLY_FULL * matrix.shape[1]
    rows = None
    if len(matrix) >= least:
        rows = _clear_row_space(Explicit(matrix), lower_gram(matrix.T), least)
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


def _clear_row_space(queries: QueryOperator, gram: Array, least_rank: float) -> Array | None:
    """The row space by the Gram matrix; None where it is not clear which directions are null."""
    squares, vectors = sla.eigh(gram, driver="evd", check_finite=False)
    count = int(np.sum(squares <= _WELL_CONDITIONED * squares[-1]))
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


def _in_units_of_columns(matrix: Array, unit: Array, columns: Array) -> Factors:
    """With a rank that the scale of no cell changes: small columns count beside large ones."""
    units = np.where(columns > 0, columns, 1.0)
    rows = _row_space(unit / units)
    if len(rows) == matrix.shape[1]:
        return dense(matrix, None)
    return dense((matrix / units) @ rows.T, rows * units)


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
