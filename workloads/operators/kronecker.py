"""Unions of Kronecker products of small matrices."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from math import prod

import numpy as np
import scipy.sparse as sp

from workloads.operators.blas import product
from workloads.operators.cumulative import cumulative, row_products
from workloads.operators.explicit import Explicit
from workloads.operators.matrices import dense, entry_count, squared, times, transposed
from workloads.operators.protocol import Array, Indices, Matrix, refuse_above_limit

Term = tuple[Matrix, ...]


@dataclass(frozen=True, eq=False)
class Kronecker:
    """W, the stacked terms, each the Kronecker product of its factors.

    Attributes
    ----------
    terms : tuple of tuple of matrices
        The factors of each term, one for each attribute, dense or CSR; factor i of every
        term has as many columns as attribute i has values.
    """

    terms: tuple[Term, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """(m, d)."""
        return sum(self.term_sizes), prod(int(factor.shape[1]) for factor in self.terms[0])

    @property
    def term_sizes(self) -> tuple[int, ...]:
        """Number of queries of each term, Python ints of any size."""
        return tuple(prod(int(factor.shape[0]) for factor in term) for term in self.terms)

    @property
    def rows_apart(self) -> int:
        """Number of queries, counting those once that differ only in values that are kept apart."""
        apart = ([f for f in term if kind_of(f) != "identity"] for term in self.terms)
        return sum(prod(int(factor.shape[0]) for factor in factors) for factors in apart)

    @property
    def form_work(self) -> int:
        """Operations, roughly, of one `gram` and one `quadratic_forms`."""
        return sum(_form_work(pairs) for pairs in self._pairs)

    def apply(self, x: Array) -> Array:
        """``W @ x``, one attribute at a time."""
        return np.concatenate([_multiply(term, x) for term in self.terms])

    def apply_transposed(self, y: Array) -> Array:
        """``W.T @ y``, one attribute at a time."""
        total = np.zeros((self.shape[1], *y.shape[1:]))
        for term, part in zip(self.terms, self._split(y), strict=True):
            total += _multiply([transposed(factor) for factor in term], part)
        return total

    def gram(self, weights: Array | None = None) -> Array:
        """``W.T @ diag(weights) @ W``."""
        d = self.shape[1]
        refuse_above_limit(
            d * d, f"a {d} x {d} Gram matrix", "use a mechanism that only applies the workload"
        )
        total = np.zeros((d, d))
        if weights is None:
            for term in self.terms:
                total += _dense_kron(Explicit(factor).gram() for factor in term)
            return total
        for pairs, part in zip(self._pairs, self._split(weights), strict=True):
            total += _weighted_gram(pairs, part)
        return total

    def quadratic_forms(self, symmetric: Array) -> Array:
        """``diag(W @ symmetric @ W.T)``, one attribute at a time."""
        return np.concatenate([_quadratic_forms(pairs, symmetric) for pairs in self._pairs])

    def squared_row_norms(self) -> Array:
        """Squared 2-norm of every query, from those of the factors."""
        norms = [_dense_kron(Explicit(f).squared_row_norms() for f in term) for term in self.terms]
        return np.concatenate(norms)

    def squared_column_norms(self, weights: Array | None = None) -> Array:
        """``diag(gram(weights))``, by the factors with squared entries."""
        squares = Kronecker(tuple(tuple(squared(f) for f in term) for term in self.terms))
        return squares.apply_transposed(np.ones(self.shape[0]) if weights is None else weights)

    def rows(self, at: Indices) -> Array:
        """The queries with these numbers, dense, shape (len(at), d)."""
        rows = np.empty((len(at), self.shape[1]))
        first = 0
        for term, size in zip(self.terms, self.term_sizes, strict=True):
            own = (at >= first) & (at < first + size)
            rows[own] = _some_rows(term, at[own] - first)
            first += size
        return rows

    def matrix(self) -> Matrix:
        """W as CSR."""
        entries = sum(prod(entry_count(factor) for factor in term) for term in self.terms)
        m, d = self.shape
        refuse_above_limit(
            2 * entries, f"a sparse {m} x {d} matrix", "use a mechanism that works on its structure"
        )
        return sp.csr_array(sp.vstack([_sparse_kron(term) for term in self.terms]))

    @cached_property
    def _pairs(self) -> list[list["Pairs"]]:
        """The factors of each term, found once for each matrix."""
        known = {id(factor): factor for term in self.terms for factor in term}
        pairs = {at: Pairs(factor) for at, factor in known.items()}
        return [[pairs[id(factor)] for factor in term] for term in self.terms]

    def _split(self, y: Array) -> list[Array]:
        return np.split(y, np.cumsum(self.term_sizes)[:-1])


def kind_of(factor: Matrix) -> str:
    """The kind of a factor: ``identity``, ``total`` or another ``matrix``."""
    rows, columns = factor.shape
    if rows == 1 and np.all(dense(factor) == 1):
        return "total"
    if rows == columns and sp.issparse(factor) and factor.nnz == rows:
        return "identity" if np.all(factor.diagonal() == 1) else "matrix"
    if rows == columns and not sp.issparse(factor) and _is_identity(factor):
        return "identity"
    return "matrix"


def _is_identity(factor: Array) -> bool:
    ends = np.count_nonzero(factor[[0, -1]], axis=1)
    return bool(
        np.all(ends == 1) and np.all(factor.diagonal() == 1) and entry_count(factor) == len(factor)
    )


def _dense_kron(arrays: Iterable[Array]) -> Array:
    return reduce(lambda left, right: np.asarray(np.kron(left, right)), arrays)


def _sparse_kron(factors: Iterable[Matrix]) -> sp.csr_array:
    built = sp.csr_array(np.ones((1, 1)))
    for factor in factors:
        built = sp.csr_array(sp.kron(built, factor))
    return built


class Pairs:
    """P of a factor, whose rows are all products of two entries of its rows, (rows, columns²).

    By the differences of its columns where that saves work, never dense where the factor is sparse,
    and never built for fewer columns than the factor has: that takes less memory.

    Parameters
    ----------
    factor : numpy.ndarray or scipy.sparse.csr_array
        Of a term.
    """

    def __init__(self, factor: Matrix) -> None:
        self.rows, self.columns = (int(size) for size in factor.shape)
        self._structured = cumulative(factor)
        self._factor = factor

    @cached_property
    def _matrix(self) -> Matrix:
        if sp.issparse(self._factor):
            return row_products(sp.csr_array(self._factor))
        return (self._factor[:, :, None] * self._factor[:, None, :]).reshape(self.rows, -1)

    @property
    def work(self) -> int:
        """Operations, roughly, of one `forms` and one `sums` for a single column."""
        if self._structured is not None:
            return self._structured.form_work
        return int(self._factor.nnz) if sp.issparse(self._factor) else self.rows * self.columns**2

    def forms(self, x: Array) -> Array:
        """``P @ x``, x symmetric in the pairs of columns, or added to its image."""
        n = self.columns
        if self._structured is not None:
            return self._structured.paired_forms(x.reshape(n, n, -1))
        if sp.issparse(self._factor) or x.shape[1] >= n:
            return times(self._matrix, x)
        moved = product(self._factor, x.reshape(n, -1)).reshape(self.rows, n, -1)
        return np.asarray(np.einsum("ri,rin->rn", self._factor, moved))

    def sums(self, y: Array) -> Array:
        """``P.T @ y``."""
        n = self.columns
        if self._structured is not None:
            return self._structured.paired_sums(y).reshape(n * n, -1)
        if sp.issparse(self._factor) or y.shape[1] >= n:
            return times(transposed(self._matrix), y)
        weighted = (self._factor[:, :, None] * y[:, None, :]).reshape(self.rows, -1)
        return product(self._factor.T, weighted).reshape(n * n, -1)


def _form_work(pairs: Sequence[Pairs]) -> int:
    """Of contracting both sides of a matrix with one factor after the other."""
    rows, cells = 1, prod(factor.columns for factor in pairs)
    work = 0
    for factor in pairs:
        cells //= factor.columns
        work += factor.work * rows * cells**2
        rows *= factor.rows
    return work


def _some_rows(factors: Sequence[Matrix], at: Indices) -> Array:
    """Rows of a Kronecker product: products of one row of every factor."""
    numbers = np.unravel_index(at, [int(factor.shape[0]) for factor in factors])
    found = np.ones((len(at), 1))
    for factor, rows in zip(factors, numbers, strict=True):
        chosen = Explicit(factor).rows(rows)
        paired = found[:, :, None] * chosen[:, None, :]
        found = paired.reshape(len(at), found.shape[1] * chosen.shape[1])
    return found


def _multiply(factors: Sequence[Matrix], x: Array) -> Array:
    """Kronecker product times x, one attribute at a time."""
    sizes = [int(factor.shape[1]) for factor in factors]
    return _in_turn([partial(times, factor) for factor in factors], sizes, x)


def _in_turn(maps: Sequence[Callable[[Array], Array]], sizes: Sequence[int], x: Array) -> Array:
    """Each map along its own axis of x: every step turns the axes by one."""
    turned = x.reshape(x.shape[0], -1)
    columns = turned.shape[1]
    for along, size in zip(maps, sizes, strict=True):
        turned = along(turned.reshape(size, -1)).T
    return np.ascontiguousarray(turned.reshape(columns, -1).T).reshape(-1, *x.shape[1:])


def _quadratic_forms(factors: Sequence[Pairs], symmetric: Array) -> Array:
    """``(⊗ P_i) S``, where row r of P_i holds the products of all two entries of row r."""
    sizes = [factor.columns for factor in factors]
    pairs = np.arange(2 * len(sizes)).reshape(2, -1).T.ravel()
    paired = np.ascontiguousarray(symmetric.reshape(sizes + sizes).transpose(pairs))
    squares = [size**2 for size in sizes]
    return _in_turn([factor.forms for factor in factors], squares, paired.reshape(-1))


def _weighted_gram(factors: Sequence[Pairs], weights: Array) -> Array:
    """The transpose of `_quadratic_forms`: ``(⊗ P_i).T @ weights``, as a matrix."""
    sizes = [factor.columns for factor in factors]
    paired = _in_turn([factor.sums for factor in factors], [f.rows for f in factors], weights)
    doubled = [size for size in sizes for _ in range(2)]
    apart = np.arange(2 * len(sizes)).reshape(-1, 2).T.ravel()
    return paired.reshape(doubled).transpose(apart).reshape(prod(sizes), -1)
