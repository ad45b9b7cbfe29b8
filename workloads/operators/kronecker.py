"""Unions of Kronecker products of small matrices."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np
import scipy.sparse as sp

from workloads.operators.blas import product
from workloads.operators.explicit import Explicit
from workloads.operators.protocol import Array, Indices, Matrix, refuse_above_limit

Term = tuple[Matrix, ...]


@dataclass(frozen=True, eq=False)
class Kronecker:
    """W, the terms one below another, each the Kronecker product of its factors.

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
        """Number of queries, those counted once that differ in values kept apart alone."""
        apart = ([f for f in term if kind_of(f) != "identity"] for term in self.terms)
        return sum(prod(int(factor.shape[0]) for factor in factors) for factors in apart)

    @property
    def form_work(self) -> int:
        """Operations, roughly, of one `gram` and one `quadratic_forms`."""
        return sum(_form_work(term) for term in self.terms)

    def apply(self, x: Array) -> Array:
        """``W @ x``, one attribute at a time."""
        return np.concatenate([_multiply(term, x) for term in self.terms])

    def apply_transposed(self, y: Array) -> Array:
        """``W.T @ y``, one attribute at a time."""
        total = np.zeros((self.shape[1], *y.shape[1:]))
        for term, part in zip(self.terms, self._split(y), strict=True):
            total += _multiply([_transposed(factor) for factor in term], part)
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
        for term, part in zip(self.terms, self._split(weights), strict=True):
            total += _weighted_gram(term, part)
        return total

    def quadratic_forms(self, symmetric: Array) -> Array:
        """``diag(W @ symmetric @ W.T)``, one attribute at a time."""
        return np.concatenate([_quadratic_forms(term, symmetric) for term in self.terms])

    def squared_row_norms(self) -> Array:
        """Squared 2-norm of every query, from those of the factors."""
        norms = [_dense_kron(Explicit(f).squared_row_norms() for f in term) for term in self.terms]
        return np.concatenate(norms)

    def squared_column_norms(self, weights: Array | None = None) -> Array:
        """``diag(gram(weights))``, by the factors with squared entries."""
        squared = Kronecker(tuple(tuple(_squares(f) for f in term) for term in self.terms))
        return squared.apply_transposed(np.ones(self.shape[0]) if weights is None else weights)

    def rows(self, at: Indices) -> Array:
        """The queries with these numbers, dense, shape (len(at), d)."""
        found = np.empty((len(at), self.shape[1]))
        first = 0
        for term, size in zip(self.terms, self.term_sizes, strict=True):
            own = (at >= first) & (at < first + size)
            found[own] = _some_rows(term, at[own] - first)
            first += size
        return found

    def matrix(self) -> Matrix:
        """W as CSR."""
        entries = sum(prod(_entries(factor) for factor in term) for term in self.terms)
        m, d = self.shape
        refuse_above_limit(
            2 * entries, f"a sparse {m} x {d} matrix", "use a mechanism that works on its structure"
        )
        return sp.csr_array(sp.vstack([_sparse_kron(term) for term in self.terms]))

    def _split(self, y: Array) -> list[Array]:
        return np.split(y, np.cumsum(self.term_sizes)[:-1])


def kind_of(factor: Matrix) -> str:
    """What a factor is: the ``identity``, the ``total`` or another ``matrix``."""
    rows, columns = factor.shape
    entries = factor.tocoo().data if sp.issparse(factor) else factor.ravel()
    if rows == 1 and len(entries) == columns and np.all(entries == 1):
        return "total"
    if rows == columns and sp.issparse(factor) and factor.nnz == rows:
        return "identity" if np.all(factor.diagonal() == 1) else "matrix"
    if rows == columns and not sp.issparse(factor) and np.array_equal(factor, np.eye(rows)):
        return "identity"
    return "matrix"


def _entries(factor: Matrix) -> int:
    return int(factor.nnz) if sp.issparse(factor) else int(np.count_nonzero(factor))


def _transposed(factor: Matrix) -> Matrix:
    return sp.csr_array(factor.T) if sp.issparse(factor) else factor.T


def _squares(factor: Matrix) -> Matrix:
    return factor.power(2) if sp.issparse(factor) else np.square(factor)


def _dense(factor: Matrix) -> Array:
    return factor.toarray() if sp.issparse(factor) else factor


def _dense_kron(arrays: Iterable[Array]) -> Array:
    return reduce(lambda left, right: np.asarray(np.kron(left, right)), arrays)


def _sparse_kron(factors: Iterable[Matrix]) -> sp.csr_array:
    built = sp.csr_array(np.ones((1, 1)))
    for factor in factors:
        built = sp.csr_array(sp.kron(built, factor))
    return built


def _form_work(factors: Sequence[Matrix]) -> int:
    """Of contracting both sides of a matrix with one factor after the other."""
    rows, cells = 1, prod(int(factor.shape[1]) for factor in factors)
    work = 0
    for factor in factors:
        rows *= int(factor.shape[0])
        work += rows * cells**2
        cells //= int(factor.shape[1])
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


def _times(factor: Matrix, x: Array) -> Array:
    return np.asarray(factor @ x) if sp.issparse(factor) else product(factor, x)


def _multiply(factors: Sequence[Matrix], x: Array) -> Array:
    """Kronecker product times x, one attribute at a time: each step turns the axes by one."""
    turned = x.reshape(x.shape[0], -1)
    columns = turned.shape[1]
    for factor in factors:
        turned = _times(factor, turned.reshape(factor.shape[1], -1)).T
    return np.ascontiguousarray(turned.reshape(columns, -1).T).reshape(-1, *x.shape[1:])


def _quadratic_forms(factors: Sequence[Matrix], symmetric: Array) -> Array:
    """``(⊗ F_i) S``, where row r of F_i holds the products of all two entries of row r."""
    sizes = [int(factor.shape[1]) for factor in factors]
    pairs = np.arange(2 * len(sizes)).reshape(2, -1).T.ravel()
    paired = np.ascontiguousarray(symmetric.reshape(sizes + sizes).transpose(pairs))
    return _multiply([_pair_products(factor) for factor in factors], paired.reshape(-1))


def _weighted_gram(factors: Sequence[Matrix], weights: Array) -> Array:
    """The transpose of `_quadratic_forms`: ``(⊗ F_i).T @ weights``, as a matrix."""
    sizes = [int(factor.shape[1]) for factor in factors]
    paired = _multiply([_pair_products(factor).T for factor in factors], weights)
    doubled = [size for size in sizes for _ in range(2)]
    apart = np.arange(2 * len(sizes)).reshape(-1, 2).T.ravel()
    return paired.reshape(doubled).transpose(apart).reshape(prod(sizes), -1)


def _pair_products(factor: Matrix) -> Array:
    dense = _dense(factor)
    rows, values = dense.shape
    return (dense[:, :, None] * dense[:, None, :]).reshape(rows, values * values)
