"""The scaled workload A = diag(c)^-1/2 W in a basis of its row space.

A union of Kronecker products is written in coordinates chosen so that each product uses only a few
of them. The first coordinate of every attribute is the total over its values, so a product that
sums over an attribute uses no other coordinate of this attribute. Coordinates that no product uses
are left out. The number of remaining coordinates is close to the rank, however many domain cells
there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import scipy
from numpy.typing import NDArray

from solvers.problem.row_space import (
    NEARLY_FULL,
    WELL_CONDITIONED,
    clear_row_space,
    column_norms,
    factor_if_well_conditioned,
    row_space,
)
from workloads.operators import (
    Array,
    Composed,
    Explicit,
    Kronecker,
    Matrix,
    QueryOperator,
    Scaled,
    Stacked,
    cumulative,
    dense,
    on_cells,
)
from workloads.operators.blas import product

_PARALLEL = 1e-14
"""Largest entry beside the first coordinate, relative to it, that is a rounding error.

A factor of fewer than `_MOST_VALUES` equal numbers is reflected with an error of a few eps.
"""
_MOST_CELLS = 10_000_000
"""Most domain cells whose coordinates are marked: the mask and the numbers take 90 MB."""
_MOST_VALUES = 5_000
"""Largest number of values of an attribute for which products are written in coordinates.

The coordinates of an attribute form a square matrix with a row for each of its values: 200 MB.
"""

Product = tuple[Sequence[Matrix], Array]
"""The factors of a Kronecker product, one for each attribute, and a scale for each row."""


@dataclass(frozen=True, eq=False)
class InCoordinates:
    """A union W of Kronecker products, written in the coordinates that at least one product uses.

    Attributes
    ----------
    operator : QueryOperator
        W in the coordinates, shape (m, k).
    frames : tuple of numpy.ndarray
        For each attribute, a square matrix with orthonormal rows. The rows of the Kronecker product
        of these matrices are the coordinates, whether or not a product uses them.
    seen : numpy.ndarray of int, shape (k,)
        The indices of the coordinates that some product uses.
    """

    operator: QueryOperator
    frames: tuple[Array, ...]
    seen: NDArray[np.intp]

    @property
    def rows(self) -> Array:
        """The coordinates in use, as orthonormal rows, shape (k, d)."""
        return Kronecker((self.frames,)).rows(self.seen)


def in_coordinates(operator: QueryOperator) -> InCoordinates | None:
    """Write an operator in the coordinates that at least one of its products uses.

    Return None if the operator is not a union of Kronecker products, if it uses all coordinates, or
    if there are too many domain cells or too many values of an attribute.
    """
    products = _products(operator)
    if not products or operator.shape[1] > _MOST_CELLS:
        return None
    if max(int(factor.shape[1]) for factor in products[0][0]) > _MOST_VALUES:
        return None
    # 1. for each attribute, coordinates whose first one is the total; each factor in them
    frames = [
        _frame(factors) for factors in zip(*(factors for factors, _ in products), strict=True)
    ]
    turned = [
        [_turned(factor, frame) for factor, frame in zip(factors, frames, strict=True)]
        for factors, _ in products
    ]
    # 2. the coordinates that some product uses, as a mask of all d
    seen = np.zeros([len(frame) for frame in frames], dtype=bool)
    places = [np.ix_(*(np.arange(f.shape[1]) for f in factors)) for factors in turned]
    for place in places:
        seen[place] = True
    if seen.all():
        return None
    # 3. each product on its own coordinates, which are selected from all that are used
    numbers = np.cumsum(seen).reshape(seen.shape) - 1
    # each row of the identity selects a coordinate of a product among all used ones
    every = scipy.sparse.eye_array(int(seen.sum()), format="csr")
    parts = [
        Composed(Scaled(_product(factors, own, frames), scale), every[numbers[place].ravel()])
        for (factors, scale), own, place in zip(products, turned, places, strict=True)
    ]
    return InCoordinates(Stacked(tuple(parts)), tuple(frames), np.flatnonzero(seen))


def _products(operator: QueryOperator) -> list[Product]:
    """List the products whose union is the operator; empty if it is not a union of products."""
    if isinstance(operator, Kronecker):
        sizes = operator.term_sizes
        return [(term, np.ones(size)) for term, size in zip(operator.terms, sizes, strict=True)]
    if isinstance(operator, Scaled):
        products = _products(operator.operator) * operator.times
        ends = np.cumsum([scale.size for _, scale in products])
        shares = np.split(operator.factors, ends)
        # the last share is empty, or all factors if there is no product
        return [(term, scale * own) for (term, scale), own in zip(products, shares, strict=False)]
    if isinstance(operator, Stacked):
        parts = [_products(part) for part in operator.parts]
        return [*chain(*parts)] if all(parts) else []
    return []


def _frame(factors: Sequence[Matrix]) -> Array:
    """Return the coordinates of an attribute as orthonormal rows, shape (values, values).

    If one of the factors has a single row, the matrix is a reflection whose first row is parallel
    to that row; otherwise the matrix is the identity.
    """
    size = int(factors[0].shape[1])
    single = [factor for factor in factors if factor.shape[0] == 1]
    frame = np.eye(size)
    if not single or size == 1:
        return frame
    total = dense(single[0]).ravel()
    normal = total / np.linalg.norm(total)
    normal[0] += np.copysign(1.0, normal[0])
    return np.asarray(frame - np.outer(normal, normal) * (2 / (normal @ normal)))


def _turned(factor: Matrix, frame: Array) -> Matrix:
    """Write a factor in its attribute's coordinates; drop all but the first if the rest is zero."""
    if np.count_nonzero(frame) == len(frame):
        return factor
    turned = dense(factor @ frame.T)
    beside = np.abs(turned[:, 1:]).max(initial=0.0)
    return turned[:, :1] if beside <= _PARALLEL * np.abs(turned[:, 0]).max() else turned


def _product(
    factors: Sequence[Matrix], turned: Sequence[Matrix], frames: Sequence[Array]
) -> QueryOperator:
    """Return a product as an operator on the coordinates that it uses.

    If only one factor uses more than one coordinate and the others are single numbers, a cumulative
    structure of that factor is preserved.
    """
    wide = [j for j, factor in enumerate(turned) if factor.shape[1] > 1]
    if len(wide) == 1 and all(f.shape[0] == 1 for j, f in enumerate(turned) if j not in wide):
        known = cumulative(factors[wide[0]])
        if known is not None:
            total = float(np.prod([dense(f) for j, f in enumerate(turned) if j not in wide]))
            return Composed(known, total * frames[wide[0]].T)
    return Kronecker((tuple(turned),))


_FAR_APART = 1e3
"""Ratio of the largest to the smallest norm of a column above which a rank would depend on scales.

Below it, rounding errors of the largest column are at most 2e-13 of the smallest: `row_space`
treats singular values of a few hundred cells as rounding errors only if they are smaller.
"""
_NEGLIGIBLE = 1e-9
"""Squared norm, relative to the largest, below which a column is compared with zero exactly.

Sums of squares over 10^6 queries have rounding errors of 1e-10 at most.
"""
_SPARSE_FROM, _SPARSE_BELOW = 2**18, 0.05
"""Least number of entries of a basis, and largest share of nonzero ones, to keep it sparse.

The calls of a sparse product take longer than the arithmetic for 48 prefixes under replace-one (all
47 x 1128 differences: twice the time of a solve), and an entry of one takes twenty times as long as
an entry of a dense product.
"""
_SQUARE_WORK = 5
"""Work of a structured solve in units of d³, without the work of its quadratic forms.

For comparison, the work of a dense solve is m d².
"""


@dataclass(frozen=True, eq=False)
class Factors:
    """A factorisation ``A = representation @ basis``, where the basis has full row rank k.

    Attributes
    ----------
    operator : QueryOperator
        The representation as an operator, shape (m, k); A itself if the basis is the identity.
    basis : numpy.ndarray of shape (k, d), or None
        The basis; None for the identity (k = d).
    known : numpy.ndarray of shape (m, d), optional
        A itself, which saves computing `whole`; default: None.
    """

    operator: QueryOperator
    basis: Array | None
    known: Array | None = None

    @cached_property
    def representation(self) -> Array:
        """``operator`` as a dense matrix, shape (m, k)."""
        return dense(self.operator.matrix())

    @cached_property
    def whole(self) -> Array:
        """A itself, dense, shape (m, d); columns that are zero in A are exactly zero."""
        if self.known is not None:
            return self.known
        own = self.representation
        return own if self.basis is None else product(own, self.basis)

    @cached_property
    def transposed_basis(self) -> Explicit | None:
        """The transposed basis as a sparse operator, shape (d, k); None if that saves no time."""
        if self.basis is None or self.basis.size < _SPARSE_FROM:
            return None
        operator = Explicit(scipy.sparse.csr_array(self.basis.T))
        few = operator.array.size <= _SPARSE_BELOW * self.basis.size
        return operator if few and structure_pays(operator) else None

    @property
    def squared_norms(self) -> tuple[Array, Array]:
        """Squared norms of the columns of A, shape (d,), and of its rows, shape (m,)."""
        if self.basis is None or not self.structured:
            queries = self.operator if self.basis is None else Explicit(self.whole)
            return queries.squared_column_norms(), queries.squared_row_norms()
        squares = product(self.operator.gram(), self.basis)
        columns = np.einsum("kd,kd->d", self.basis, squares)
        return columns, self.operator.quadratic_forms(product(self.basis, self.basis.T))

    @cached_property
    def structured(self) -> bool:
        """Whether ``operator`` uses the queries' structure; otherwise it is a dense matrix."""
        return not isinstance(self.operator, Explicit)

    @cached_property
    def nearly_full(self) -> bool:
        """Whether A is dense and has so high a rank that using A is faster than using the basis."""
        return not self.structured and self.rank >= NEARLY_FULL * self.cells

    @cached_property
    def rank(self) -> int:
        """The rank k of A."""
        return self.operator.shape[1]

    @cached_property
    def cells(self) -> int:
        """Number of domain cells d."""
        return self.operator.shape[1] if self.basis is None else self.basis.shape[1]


def structured(operator: QueryOperator) -> Factors | None:
    """Factorise the scaled workload without losing its structure, if that saves work.

    Return None if the structure saves no work compared with the dense matrix, or if rounding errors
    leave the rank unclear.
    """
    union = in_coordinates(operator)
    if union is None and not structure_pays(operator):
        return None
    seen = seen_cells(operator)
    if union is not None or not seen.all():
        # factorise on the coordinates, or the cells, that queries use
        used = on_cells(operator, np.flatnonzero(seen)) if union is None else union.operator
        factors = structured(used)
        if factors is None:
            return None
        own = np.eye(seen.size)[seen] if union is None else union.rows
        if factors.basis is not None:
            own = product(factors.basis, own)
        return Factors(factors.operator, np.where(seen, own, 0.0))
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
    """Mask of the domain cells on which at least one query depends, shape (d,).

    The mask is exact: a column whose norm may be a mere rounding error is computed and compared
    with zero.
    """
    norms = operator.squared_column_norms()
    seen: NDArray[np.bool_] = norms > _NEGLIGIBLE * norms.max()
    for cell in np.flatnonzero(~seen):
        column = np.zeros(norms.size)
        column[cell] = 1.0
        seen[cell] = operator.apply(column).any()
    return seen


def structure_pays(operator: QueryOperator) -> bool:
    """Return whether a structured solve takes less work than a dense solve's ``WᵀW``."""
    m, d = operator.shape
    return operator.form_work + _SQUARE_WORK * d**3 < m * d**2


def bytes_of_basis(rank: int, cells: int) -> float:
    """Bytes of a basis and of the singular vectors; 0 if the basis is the identity."""
    return 32.0 * rank * cells if rank < cells else 0.0


def factorise(scaled: Matrix) -> Factors:
    """Compute a rank-revealing factorisation of the scaled workload.

    Parameters
    ----------
    scaled : numpy.ndarray or scipy.sparse.csr_array, shape (m, d)
        A = diag(c)^-1/2 W.

    Returns
    -------
    Factors
        The basis is the identity if A has rank d. If m < d and the Gram matrix of A's normalised
        rows is well conditioned, the basis consists of the rows of A. Otherwise it is orthonormal
        up to scales of the cells.
    """
    matrix = dense(scaled)
    m, d = matrix.shape
    norms = column_norms(matrix.T)
    unit = matrix / np.where(norms > 0, norms, 1.0)[:, None]
    gram = unit.T @ unit if m >= d else unit @ unit.T
    if factor_if_well_conditioned(gram, WELL_CONDITIONED) is not None:
        left, basis = (matrix, None) if m >= d else (np.eye(m), matrix)
        return Factors(Explicit(left), basis)
    rows, units = row_space(unit, gram if m >= d else None), np.ones(d)
    if len(rows) < d:
        columns = column_norms(unit)
        seen = columns[columns > 0]
        if seen.max() > _FAR_APART * seen.min():
            # with columns of norm 1, the rank does not depend on the scale of any cell
            units = np.where(columns > 0, columns, 1.0)
            rows = row_space(unit / units)
    if len(rows) == d:
        return Factors(Explicit(matrix), None)
    known = matrix if len(rows) >= NEARLY_FULL * d else None
    return Factors(Explicit((matrix / units) @ rows.T), rows * units, known)
