"""Unions of Kronecker products of small matrices."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np
import scipy.sparse as sp

from workloads.operators.explicit import Explicit
from workloads.operators.protocol import Array, Matrix, refuse_above_limit

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
        return sum(self.term_sizes), prod(int(factor.shape[1]) for factor in self.terms[0])

    @property
    def term_sizes(self) -> tuple[int, ...]:
        """Number of queries of each term, Python ints of any size."""
        return tuple(prod(int(factor.shape[0]) for factor in term) for term in self.terms)

    def apply(self, x: Array) -> Array:
        return np.concatenate([_multiply(term, x) for term in self.terms])

    def apply_transposed(self, y: Array) -> Array:
        return sum(
            _multiply([factor.T for factor in term], part)
            for term, part in zip(self.terms, self._split(y), strict=True)
        ) + np.zeros((self.shape[1], *y.shape[1:]))

    def gram(self, weights: Array | None = None) -> Array:
        d = self.shape[1]
        refuse_above_limit(
            d * d, f"a {d} x {d} Gram matrix", "use a method that only applies the workload"
        )
        total = np.zeros((d, d))
        if weights is None:
            for term in self.terms:
                total += reduce(np.kron, (Explicit(factor).gram() for factor in term))
            return total
        for term, part in zip(self.terms, self._split(weights), strict=True):
            total += _weighted_gram(term, part)
        return total

    def quadratic_forms(self, symmetric: Array) -> Array:
        return np.concatenate([_quadratic_forms(term, symmetric) for term in self.terms])

    def squared_row_norms(self) -> Array:
        return np.concatenate(
            [
                reduce(np.kron, (Explicit(factor).squared_row_norms() for factor in term))
                for term in self.terms
            ]
        )

    def squared_column_norms(self, weights: Array | None = None) -> Array:
        squared = Kronecker(tuple(tuple(_squares(f) for f in term) for term in self.terms))
        return squared.apply_transposed(np.ones(self.shape[0]) if weights is None else weights)

    def matrix(self) -> Matrix:
        entries = sum(prod(_entries(factor) for factor in term) for term in self.terms)
        m, d = self.shape
        refuse_above_limit(
            2 * entries, f"a sparse {m} x {d} matrix", "use a method that works on its structure"
        )
        return sp.csr_array(
            sp.vstack(
                [reduce(_sparse_kron, term, sp.csr_array(np.ones((1, 1)))) for term in self.terms]
            )
        )

    def _split(self, y: Array) -> list[Array]:
        return np.split(y, np.cumsum(self.term_sizes)[:-1])


def _entries(factor: Matrix) -> int:
    return int(factor.nnz) if sp.issparse(factor) else int(np.count_nonzero(factor))


def _squares(factor: Matrix) -> Matrix:
    return factor.power(2) if sp.issparse(factor) else np.square(factor)


def _dense(factor: Matrix) -> Array:
    return factor.toarray() if sp.issparse(factor) else factor


def _sparse_kron(left: Matrix, right: Matrix) -> sp.csr_array:
    return sp.csr_array(sp.kron(left, right))


def _multiply(factors: Sequence[Matrix], x: Array) -> Array:
    """Kronecker product times x, one attribute at a time: each step turns the axes by one."""
    turned = x.reshape(x.shape[0], -1)
    columns = turned.shape[1]
    for factor in factors:
        turned = np.asarray(factor @ turned.reshape(factor.shape[1], -1)).T
    return np.ascontiguousarray(turned.reshape(columns, -1).T).reshape(-1, *x.shape[1:])


def _quadratic_forms(factors: Sequence[Matrix], symmetric: Array) -> Array:
    """Contract both sides of ``symmetric`` with one factor after the other."""
    left = symmetric[None]
    for factor in map(_dense, factors):
        values = factor.shape[1]
        rest = left.shape[1] // values
        blocks = left.reshape(-1, values, rest, values, rest)
        one_side = np.tensordot(factor, blocks, axes=(1, 1))
        left = np.einsum("rbxiy,ri->brxy", one_side, factor).reshape(-1, rest, rest)
    return left.reshape(-1)


def _weighted_gram(factors: Sequence[Matrix], weights: Array) -> Array:
    """Expand the weights into a Gram matrix, one factor after the other from the last."""
    built = weights.reshape(-1, 1, 1)
    for factor in map(_dense, reversed(factors)):
        rows, values = factor.shape
        size = built.shape[1]
        blocks = built.reshape(-1, rows, size, size).transpose(0, 2, 3, 1)
        grams = (blocks[..., None, :] * factor.T) @ factor
        built = grams.transpose(0, 3, 1, 4, 2).reshape(-1, values * size, values * size)
    return built[0]
