"""Unions of Kronecker products of small matrices, and marginals of a domain of any size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from math import prod

import numpy as np
import scipy

from workloads.operators.blas import product
from workloads.operators.combined import InParts
from workloads.operators.cumulative import Cumulative, cumulative, row_products
from workloads.operators.explicit import Explicit
from workloads.operators.protocol import (
    Array,
    Indices,
    Matrix,
    QueryOperator,
    Turned,
    dense,
    entry_count,
    kron,
    refuse_above_limit,
    refuse_large_gram,
    times,
)

Term = tuple[Matrix, ...]


@dataclass(frozen=True, eq=False)
class Kronecker(InParts):
    """W, made of stacked terms, each of which is the Kronecker product of its factors.

    Attributes
    ----------
    terms : tuple of tuple of matrices
        The factors of each term, one for each attribute, dense or CSR; factor i of every
        term has as many columns as attribute i has values.
    """

    terms: tuple[Term, ...]

    @property
    def term_sizes(self) -> tuple[int, ...]:
        """Number of queries of each term, Python ints of any size."""
        return tuple(prod(int(factor.shape[0]) for factor in term) for term in self.terms)

    @property
    def rows_apart(self) -> int:
        """Number of queries, if those that differ only in rows of identity factors count as one."""
        apart = ([f for f in term if kind_of(f) != "identity"] for term in self.terms)
        return sum(prod(int(factor.shape[0]) for factor in factors) for factors in apart)

    @cached_property
    def parts(self) -> tuple["Product", ...]:
        """The terms as products; terms that share a factor share its `Pairs`."""
        pairs = {id(factor): Pairs(factor) for term in self.terms for factor in term}
        return tuple(Product(tuple(pairs[id(factor)] for factor in term)) for term in self.terms)

    def matrix(self) -> Matrix:
        """W as CSR."""
        entries = sum(prod(entry_count(factor) for factor in term) for term in self.terms)
        m, d = self.shape
        refuse_above_limit(
            2 * entries, f"a sparse {m} x {d} matrix", "use a mechanism that works on its structure"
        )
        return super().matrix()


def kind_of(factor: Matrix) -> str:
    """The kind of a factor: ``identity``, ``total`` or another ``matrix``."""
    rows, columns = factor.shape
    if rows == 1 and np.all(dense(factor) == 1):
        return "total"
    # the last row alone shows that a large triangle of ones is no identity
    if rows == columns and entry_count(factor[-1:]) == 1 and np.all(factor.diagonal() == 1):
        return "identity" if entry_count(factor) == rows else "matrix"
    return "matrix"


class Pairs:
    """The matrix P of a factor: row r has all products of two entries of the factor's row r.

    P has shape (rows, columns²) and is sparse if the factor is. Products with P use the differences
    of the factor's columns if that saves work. To save memory, P is not built for products of a
    dense factor with fewer vectors than the factor has columns.

    Parameters
    ----------
    factor : numpy.ndarray or scipy.sparse.csr_array
        A factor of a term.
    """

    def __init__(self, factor: Matrix) -> None:
        self.rows, self.columns = (int(size) for size in factor.shape)
        self.factor = factor

    @cached_property
    def _structured(self) -> Cumulative | None:
        return cumulative(self.factor)

    @cached_property
    def _matrix(self) -> Matrix:
        if scipy.sparse.issparse(self.factor):
            return row_products(scipy.sparse.csr_array(self.factor))
        return (self.factor[:, :, None] * self.factor[:, None, :]).reshape(self.rows, -1)

    @property
    def work(self) -> int:
        """Approximate number of operations of one `forms` and one `sums` for a single column."""
        if self._structured is not None:
            return self._structured.form_work
        if scipy.sparse.issparse(self.factor):
            return int(self.factor.nnz)
        return self.rows * self.columns**2

    def forms(self, x: Array) -> Array:
        """``P @ x``, shape (rows, n), for x of shape (columns², n)."""
        n = self.columns
        if self._structured is not None:
            return self._structured.paired_forms(x.reshape(n, n, -1))
        if scipy.sparse.issparse(self.factor) or x.shape[1] >= n:
            return times(self._matrix, x)
        moved = product(self.factor, x.reshape(n, -1)).reshape(self.rows, n, -1)
        return np.asarray(np.einsum("ri,rin->rn", self.factor, moved))

    def sums(self, y: Array) -> Array:
        """``P.T @ y``."""
        n = self.columns
        if self._structured is not None:
            return self._structured.paired_sums(y).reshape(n * n, -1)
        if scipy.sparse.issparse(self.factor) or y.shape[1] >= n:
            return times(self._matrix.T, y)
        weighted = (self.factor[:, :, None] * y[:, None, :]).reshape(self.rows, -1)
        return product(self.factor.T, weighted).reshape(n * n, -1)


@dataclass(frozen=True, eq=False)
class Product(QueryOperator):
    """The Kronecker product of some factors.

    Attributes
    ----------
    pairs : tuple of Pairs
        The factors, each with the products of the entries of its rows.
    """

    pairs: tuple[Pairs, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """(m, d)."""
        return prod(factor.rows for factor in self.pairs), prod(self._sizes)

    @property
    def form_work(self) -> int:
        """Approximate number of operations to contract both sides of a matrix with every factor."""
        rows, cells = 1, self.shape[1]
        work = 0
        for factor in self.pairs:
            cells //= factor.columns
            work += factor.work * rows * cells**2
            rows *= factor.rows
        return work

    def apply(self, x: Array) -> Array:
        """``W @ x``, one attribute at a time."""
        return _multiply(self._factors, x)

    def apply_transposed(self, y: Array) -> Array:
        """``W.T @ y``, one attribute at a time."""
        return _multiply([factor.T for factor in self._factors], y)

    def gram(self, weights: Array | None = None) -> Array:
        """``W.T @ diag(weights) @ W``; with weights, the transposed map of `quadratic_forms`."""
        d = self.shape[1]
        refuse_large_gram(d)
        if weights is None:
            return kron(Explicit(factor).gram() for factor in self._factors)
        maps, rows = [factor.sums for factor in self.pairs], [factor.rows for factor in self.pairs]
        doubled = [size for size in self._sizes for _ in range(2)]
        apart = np.arange(len(doubled)).reshape(-1, 2).T.ravel()
        paired = _in_turn(maps, rows, weights).reshape(doubled)
        return paired.transpose(apart).reshape(d, d)

    def quadratic_forms(self, symmetric: Array) -> Array:
        """``(⊗ P_i) S`` for a symmetric matrix S; P_i is the matrix of `Pairs` of factor i."""
        sizes = self._sizes
        pairs = np.arange(2 * len(sizes)).reshape(2, -1).T.ravel()
        paired = np.ascontiguousarray(symmetric.reshape(sizes + sizes).transpose(pairs))
        squares = [size**2 for size in sizes]
        return _in_turn([factor.forms for factor in self.pairs], squares, paired.reshape(-1))

    def squared_row_norms(self, weights: Array | None = None) -> Array:
        """Squared 2-norm of every query, from the factors with squared entries."""
        if weights is not None:
            return _multiply([factor**2 for factor in self._factors], weights)
        return kron(Explicit(factor).squared_row_norms() for factor in self._factors)

    def squared_column_norms(self, weights: Array | None = None) -> Array:
        """``diag(gram(weights))``, from the factors with squared entries."""
        given = np.ones(self.shape[0]) if weights is None else weights
        return _multiply([(factor**2).T for factor in self._factors], given)

    def rows(self, at: Indices) -> Array:
        """The queries at these indices: products of one row of every factor."""
        numbers = np.unravel_index(at, [factor.rows for factor in self.pairs])
        pairs = zip(self._factors, numbers, strict=True)
        chosen = (Explicit(factor).rows(rows).T for factor, rows in pairs)
        return np.ascontiguousarray(reduce(scipy.linalg.khatri_rao, chosen).T)

    def matrix(self) -> Matrix:
        """W as CSR."""
        built = scipy.sparse.csr_array(np.ones((1, 1)))
        for factor in self._factors:
            built = scipy.sparse.csr_array(scipy.sparse.kron(built, factor))
        return built

    @property
    def _factors(self) -> list[Matrix]:
        return [factor.factor for factor in self.pairs]

    @property
    def _sizes(self) -> list[int]:
        return [factor.columns for factor in self.pairs]


def _multiply(factors: Sequence[Turned], x: Array) -> Array:
    """The Kronecker product of the factors times x, computed one attribute at a time."""
    sizes = [int(factor.shape[1]) for factor in factors]
    return _in_turn([partial(times, factor) for factor in factors], sizes, x)


def _in_turn(maps: Sequence[Callable[[Array], Array]], sizes: Sequence[int], x: Array) -> Array:
    """Apply each map along its own axis of x; every step rotates the axes by one."""
    turned = x.reshape(x.shape[0], -1)
    columns = turned.shape[1]
    for along, size in zip(maps, sizes, strict=True):
        turned = along(turned.reshape(size, -1)).T
    return np.ascontiguousarray(turned.reshape(columns, -1).T).reshape(-1, *x.shape[1:])


@dataclass(frozen=True)
class Marginals(InParts):
    """All counts of some marginals: one query for each cell of each marginal, in C order.

    The domain is the product of the attributes; cells are numbered in C order, the last
    attribute fastest. There may be more cells than any array can have (10^100): all sizes
    are Python ints, and operations that need such an array raise `WorkloadError`.

    Attributes
    ----------
    sizes : tuple of int
        The number of values of each attribute, at least one attribute and one value.
    subsets : tuple of tuple of int
        The attributes of each marginal, ascending, counted from 0; () is the total. At least one
        marginal, and all of them different.
    """

    sizes: tuple[int, ...]
    subsets: tuple[tuple[int, ...], ...]

    @cached_property
    def shape(self) -> tuple[int, int]:
        """(m, d), of any size."""
        return sum(self.marginal_sizes), prod(self.sizes)

    @cached_property
    def marginal_sizes(self) -> tuple[int, ...]:
        """Number of queries (cells) of each marginal."""
        return tuple(prod(self.sizes[i] for i in subset) for subset in self.subsets)

    @cached_property
    def contained_count(self) -> int:
        """Number of pairs of a marginal and a subset of its attributes."""
        orders = np.bincount(np.fromiter(map(len, self.subsets), dtype=np.int64))
        return sum(int(count) << order for order, count in enumerate(orders))

    @property
    def form_work(self) -> int:
        """Approximate number of operations of one `gram` and one `quadratic_forms`."""
        return len(self.subsets) * self.shape[1] ** 2

    @cached_property
    def parts(self) -> tuple[Explicit]:
        """All marginals as one sparse matrix, which is quicker than one matrix per marginal."""
        refuse_above_limit(
            self.shape[1],
            "one number for each domain cell",
            "use a mechanism that works on marginals without building them",
        )
        identities = [scipy.sparse.eye_array(size, format="csr") for size in self.sizes]
        totals = [np.ones((1, size)) for size in self.sizes]
        axes = range(len(self.sizes))
        terms = [tuple((identities if i in s else totals)[i] for i in axes) for s in self.subsets]
        return (Explicit(Kronecker(tuple(terms)).matrix()),)

    def matrix(self) -> Matrix:
        """W as CSR."""
        return self.parts[0].array
