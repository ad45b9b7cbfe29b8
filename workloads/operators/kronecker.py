"""Stacked Kronecker products of small matrices, and marginals of domains of any size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from math import prod

import numpy as np
import scipy

from workloads.operators.blas import product
from workloads.operators.combined import InParts
from workloads.operators.cumulative import Cumulative, cumulative, row_products
from workloads.operators.explicit import Explicit, InMemory
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
    times,
)

Term = tuple[Matrix, ...]


@dataclass(frozen=True, eq=False)
class Kronecker(InParts):
    """The operator of stacked terms; each term is the Kronecker product of its factors.

    Attributes
    ----------
    terms : tuple of tuple of matrices
        The factors of each term, one for each attribute, dense or CSR; factor i of every
        term has as many columns as attribute i has values.
    """

    terms: tuple[Term, ...]

    @property
    def term_sizes(self) -> tuple[int, ...]:
        """Number of queries of each term, as Python ints of any size."""
        return tuple(prod(int(factor.shape[0]) for factor in term) for term in self.terms)

    @property
    def rows_apart(self) -> int:
        """Number of queries that there would be if every identity factor had a single row."""
        apart = ([f for f in term if kind_of(f) != "identity"] for term in self.terms)
        return sum(prod(int(factor.shape[0]) for factor in factors) for factors in apart)

    @cached_property
    def parts(self) -> tuple["Product", ...]:
        """The terms as `Product` operators; terms that share a factor share one `Pairs` for it."""
        pairs = {id(factor): Pairs(factor) for term in self.terms for factor in term}
        return tuple(Product(tuple(pairs[id(factor)] for factor in term)) for term in self.terms)

    def matrix(self) -> Matrix:
        """W as a CSR matrix."""
        entries = sum(prod(entry_count(factor) for factor in term) for term in self.terms)
        m, d = self.shape
        refuse_above_limit(2 * entries, f"a sparse {m} x {d} matrix")
        return super().matrix()


def kind_of(factor: Matrix) -> str:
    """Return the kind of a factor: ``identity``, ``total`` (a row of ones) or else ``matrix``."""
    rows, columns = factor.shape
    if rows == 1 and np.all(dense(factor) == 1):
        return "total"
    # the last row is tested first, to avoid counting the entries of a large triangle of ones
    if rows == columns and entry_count(factor[-1:]) == 1 and np.all(factor.diagonal() == 1):
        return "identity" if entry_count(factor) == rows else "matrix"
    return "matrix"


class Pairs:
    """The matrix P of a factor, shape (rows, columns²), which is sparse if the factor is.

    Row r of P contains the products of all pairs of entries in row r of the factor. Products with P
    use a `Cumulative` of the factor if that saves work. To save memory, P is not computed if the
    factor is dense and P would multiply fewer vectors than the factor has columns.

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
        """Approximate number of operations in a call of `forms` plus a call of `sums`, if n = 1."""
        if self._structured is not None:
            return self._structured.form_work
        if scipy.sparse.issparse(self.factor):
            return int(self.factor.nnz)
        return self.rows * self.columns**2

    def forms(self, x: Array) -> Array:
        """Return ``P @ x``, shape (rows, n), for x of shape (columns², n)."""
        n = self.columns
        if self._structured is not None:
            return self._structured.paired_forms(x.reshape(n, n, -1))
        if scipy.sparse.issparse(self.factor) or x.shape[1] >= n:
            return times(self._matrix, x)
        moved = product(self.factor, x.reshape(n, -1)).reshape(self.rows, n, -1)
        return np.asarray(np.einsum("ri,rin->rn", self.factor, moved))

    def sums(self, y: Array) -> Array:
        """Return ``P.T @ y``, shape (columns², n), for y of shape (rows, n)."""
        n = self.columns
        if self._structured is not None:
            return self._structured.paired_sums(y).reshape(n * n, -1)
        if scipy.sparse.issparse(self.factor) or y.shape[1] >= n:
            return times(self._matrix.T, y)
        weighted = (self.factor[:, :, None] * y[:, None, :]).reshape(self.rows, -1)
        return product(self.factor.T, weighted).reshape(n * n, -1)


@dataclass(frozen=True, eq=False)
class Product(QueryOperator):
    """The operator of one Kronecker product.

    Attributes
    ----------
    pairs : tuple of Pairs
        The factors, one for each attribute, as `Pairs`.
    """

    pairs: tuple[Pairs, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (m, d)."""
        return prod(factor.rows for factor in self.pairs), prod(self._sizes)

    @property
    def form_work(self) -> int:
        """Approximate number of operations in a call of `gram` plus a call of `quadratic_forms`."""
        rows, cells = 1, self.shape[1]
        work = 0
        for factor in self.pairs:
            cells //= factor.columns
            work += factor.work * rows * cells**2
            rows *= factor.rows
        return work

    def apply(self, x: Array) -> Array:
        """Return ``W @ x``, one attribute at a time."""
        return _multiply(self._factors, x)

    def apply_transposed(self, y: Array) -> Array:
        """Return ``W.T @ y``, one attribute at a time."""
        return _multiply([factor.T for factor in self._factors], y)

    def gram(self, weights: Array | None = None) -> Array:
        """Return ``W.T @ diag(weights) @ W``, by the transpose of `quadratic_forms`."""
        d = self.shape[1]
        refuse_above_limit(d * d, f"a {d} x {d} Gram matrix")
        if weights is None:
            return kron(Explicit(factor).gram() for factor in self._factors)
        maps, rows = [factor.sums for factor in self.pairs], [factor.rows for factor in self.pairs]
        # the transposed `Pairs` give the entries in the order (i₁ k₁ i₂ k₂ ...); sort them into
        # the order of the Gram matrix, (i₁ i₂ ... k₁ k₂ ...)
        doubled = [size for size in self._sizes for _ in range(2)]
        apart = np.arange(len(doubled)).reshape(-1, 2).T.ravel()
        paired = _in_turn(maps, rows, weights).reshape(doubled)
        return paired.transpose(apart).reshape(d, d)

    def quadratic_forms(self, symmetric: Array) -> Array:
        """Return ``diag(W @ symmetric @ W.T)``, with the `Pairs` of one factor after another."""
        sizes = self._sizes
        # sort the entries (i₁ i₂ ... k₁ k₂ ...) into (i₁ k₁ i₂ k₂ ...), a vector for each `Pairs`
        pairs = np.arange(2 * len(sizes)).reshape(2, -1).T.ravel()
        paired = np.ascontiguousarray(symmetric.reshape(sizes + sizes).transpose(pairs))
        squares = [size**2 for size in sizes]
        return _in_turn([factor.forms for factor in self.pairs], squares, paired.reshape(-1))

    def squared_row_norms(self, weights: Array | None = None) -> Array:
        """Return ``diag(W @ diag(weights) @ W.T)``, from the factors' squared entries."""
        if weights is not None:
            return _multiply([factor**2 for factor in self._factors], weights)
        return kron(Explicit(factor).squared_row_norms() for factor in self._factors)

    def squared_column_norms(self, weights: Array | None = None) -> Array:
        """Return ``diag(gram(weights))``, computed from the factors with squared entries."""
        given = np.ones(self.shape[0]) if weights is None else weights
        return _multiply([(factor**2).T for factor in self._factors], given)

    def rows(self, at: Indices) -> Array:
        """Return the queries at these indices, each the product of one row from every factor."""
        numbers = np.unravel_index(at, [factor.rows for factor in self.pairs])
        pairs = zip(self._factors, numbers, strict=True)
        chosen = (Explicit(factor).rows(rows).T for factor, rows in pairs)
        return np.ascontiguousarray(reduce(scipy.linalg.khatri_rao, chosen).T)

    def matrix(self) -> Matrix:
        """W as a CSR matrix."""
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
    """Return the Kronecker product of the factors times x, computed one attribute at a time."""
    sizes = [int(factor.shape[1]) for factor in factors]
    return _in_turn([partial(times, factor) for factor in factors], sizes, x)


def _in_turn(maps: Sequence[Callable[[Array], Array]], sizes: Sequence[int], x: Array) -> Array:
    """Split the first axis of x into axes of these sizes, and apply one map along each of them."""
    turned = x.reshape(x.shape[0], -1)
    columns = turned.shape[1]
    for along, size in zip(maps, sizes, strict=True):
        # map the first remaining axis; the transpose moves it behind all others
        turned = along(turned.reshape(size, -1)).T
    return np.ascontiguousarray(turned.reshape(columns, -1).T).reshape(-1, *x.shape[1:])


@dataclass(frozen=True)
class Marginals(InMemory):
    """The operator of some marginals: one query for each cell of each marginal, in C order.

    The domain is the product of the attributes; its cells are numbered in C order, where the last
    attribute varies fastest. There may be more domain cells than fit into an array, such as 10^100:
    all sizes are Python ints, and operations that would need such an array raise `WorkloadError`.

    Attributes
    ----------
    sizes : tuple of int
        The number of values of each attribute; there is at least one attribute, and each has at
        least one value.
    subsets : tuple of tuple of int
        The attributes of each marginal, as ascending indices from 0; () is the total. There is at
        least one marginal, and no marginal is repeated.
    """

    sizes: tuple[int, ...]
    subsets: tuple[tuple[int, ...], ...]

    @cached_property
    def shape(self) -> tuple[int, int]:
        """The shape (m, d), as Python ints of any size."""
        return sum(self.marginal_sizes), prod(self.sizes)

    @cached_property
    def marginal_sizes(self) -> tuple[int, ...]:
        """Number of queries (cells) of each marginal."""
        return tuple(prod(self.sizes[i] for i in subset) for subset in self.subsets)

    @cached_property
    def contained_count(self) -> int:
        """The number of subsets of a marginal's attributes, summed over all marginals."""
        orders = np.bincount(np.fromiter(map(len, self.subsets), dtype=np.int64))
        return sum(int(count) << order for order, count in enumerate(orders))

    @property
    def form_work(self) -> int:
        """Approximate number of operations in a call of `gram` plus a call of `quadratic_forms`."""
        return len(self.subsets) * self.shape[1] ** 2

    @cached_property
    def array(self) -> Matrix:
        """W as a CSR matrix, which is faster than a product for each marginal."""
        refuse_above_limit(self.shape[1], "one number for each domain cell")
        identities = [scipy.sparse.eye_array(size, format="csr") for size in self.sizes]
        totals = [np.ones((1, size)) for size in self.sizes]
        axes = range(len(self.sizes))
        terms = [tuple((identities if i in s else totals)[i] for i in axes) for s in self.subsets]
        return Kronecker(tuple(terms)).matrix()
