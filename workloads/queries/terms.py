"""Queries that are products of choices by attribute, which structured solvers can use."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workloads.operators import Kronecker
from workloads.queries.cells import Choices
from workloads.queries.domain import Domain
from workloads.queries.rows import Asked

LEAST_CELLS = 2048
"""Over fewer cells a query matrix is quickly written out and solved as such."""

MOST_TERMS = 256
"""With more products the matrix itself is quicker."""


@dataclass(frozen=True, eq=False)
class Group:
    """Consecutive queries that are all combinations of one choice for each attribute.

    Attributes
    ----------
    factors : tuple of scipy.sparse.csr_array
        One for each attribute, a row for each choice, of zeros and ones; the queries are their
        Kronecker product.
    targets : numpy.ndarray
        The variance target of each query.
    """

    factors: tuple[sp.csr_array, ...]
    targets: np.ndarray[tuple[int], np.dtype[np.float64]]


def groups(asked: Sequence[Asked], domain: Domain) -> tuple[Group, ...] | None:
    """The queries as products, in order; None if some query is not a product.

    Neighbouring rows that differ in one attribute become one group where that keeps the order:
    a hundred ranges of ages, a row each, are one group with a factor of a hundred rows.
    """
    merged: list[Group] = []
    for query in asked:
        if not query.is_product:
            return None
        factors = tuple(
            _factor(chosen, size) for chosen, size in zip(query.choices, domain.sizes, strict=True)
        )
        weighted = (sp.csr_array(query.weight * factors[0]), *factors[1:])
        group = Group(weighted, np.full(query.count, query.target.variance))
        joined = _joined(merged[-1], group) if merged else None
        if joined is None:
            merged.append(group)
        else:
            merged[-1] = joined
    return tuple(merged)


def structured(asked: Sequence[Asked], domain: Domain) -> Kronecker | None:
    """The queries as a union of Kronecker products, where that pays; else None."""
    if domain.size < LEAST_CELLS:
        return None
    products = groups(asked, domain)
    if products is None or len(products) > MOST_TERMS:
        return None
    return Kronecker(tuple(group.factors for group in products))


def _factor(chosen: Choices, size: int) -> sp.csr_array:
    positions = [choice.positions for choice in chosen.listed]
    starts = np.concatenate([[0], np.cumsum([len(p) for p in positions])])
    cells = np.concatenate(positions)
    return sp.csr_array((np.ones(len(cells)), cells, starts), shape=(len(positions), size))


def _joined(first: Group, second: Group) -> Group | None:
    """The two groups as one, if they differ in one attribute and all before it have one choice."""
    pairs = list(zip(first.factors, second.factors, strict=True))
    other = [at for at, (left, right) in enumerate(pairs) if not _equal(left, right)]
    if len(other) != 1 or any(factor.shape[0] > 1 for factor, _ in pairs[: other[0]]):
        return None
    at = other[0]
    stacked = sp.csr_array(sp.vstack(pairs[at]))
    factors = (*first.factors[:at], stacked, *first.factors[at + 1 :])
    return Group(factors, np.concatenate([first.targets, second.targets]))


def _equal(first: sp.csr_array, second: sp.csr_array) -> bool:
    return (
        first.shape == second.shape
        and np.array_equal(first.indptr, second.indptr)
        and np.array_equal(first.indices, second.indices)
        and np.array_equal(first.data, second.data)
    )
