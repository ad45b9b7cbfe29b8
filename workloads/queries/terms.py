"""Queries that are products of choices by attribute, which structured solvers can use."""

from collections.abc import Sequence

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


Product = tuple[sp.csr_array, ...]
"""Consecutive queries, the Kronecker product of a factor for each attribute: a row each choice."""


def products(asked: Sequence[Asked], domain: Domain) -> tuple[Product, ...] | None:
    """The queries as products, in order; None if some query is not a product.

    Neighbouring rows that differ in one attribute become one group where that keeps the order:
    a hundred ranges of ages, a row each, are one group with a factor of a hundred rows.
    """
    merged: list[Product] = []
    for query in asked:
        if not query.is_product:
            return None
        factors = tuple(
            _factor(chosen, size) for chosen, size in zip(query.choices, domain.sizes, strict=True)
        )
        weighted = (sp.csr_array(query.weight * factors[0]), *factors[1:])
        joined = _joined(merged[-1], weighted) if merged else None
        if joined is None:
            merged.append(weighted)
        else:
            merged[-1] = joined
    return tuple(merged)


def structured(asked: Sequence[Asked], domain: Domain) -> Kronecker | None:
    """The queries as a union of Kronecker products, where that pays; else None."""
    if domain.size < LEAST_CELLS:
        return None
    found = products(asked, domain)
    return None if found is None or len(found) > MOST_TERMS else Kronecker(found)


def _factor(chosen: Choices, size: int) -> sp.csr_array:
    positions = [choice.positions for choice in chosen.listed]
    starts = np.concatenate([[0], np.cumsum([len(p) for p in positions])])
    cells = np.concatenate(positions)
    return sp.csr_array((np.ones(len(cells)), cells, starts), shape=(len(positions), size))


def _joined(first: Product, second: Product) -> Product | None:
    """Both as one product, if they differ in one attribute and all before it have one choice."""
    pairs = list(zip(first, second, strict=True))
    other = [at for at, (left, right) in enumerate(pairs) if not _equal(left, right)]
    if len(other) != 1 or any(factor.shape[0] > 1 for factor, _ in pairs[: other[0]]):
        return None
    at = other[0]
    return (*first[:at], sp.csr_array(sp.vstack(pairs[at])), *first[at + 1 :])


def _equal(first: sp.csr_array, second: sp.csr_array) -> bool:
    return (
        first.shape == second.shape
        and np.array_equal(first.indptr, second.indptr)
        and np.array_equal(first.indices, second.indices)
        and np.array_equal(first.data, second.data)
    )
