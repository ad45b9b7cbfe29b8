"""The subsets of attributes that some marginals contain, for a domain of any size.

Attributes of n_i values; P_S is the Kronecker product of I - J/n over the attributes in S and
of J/n over the others (J all ones): a projection of rank w_S = prod of (n_i - 1) over S. The
queries of marginal T lie in the span of P_S for S within T. So only the downward closure of
the marginals matters, never the domain.

Attributes that occur in exactly the same marginals are one attribute with the product of
their values, W being the same; attributes of one value and those in no marginal are none.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from math import log, prod

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from workloads.operators import Array, Marginals

Index = NDArray[np.int64]
Blocks = tuple[tuple[int, ...], ...]

LARGEST_CLOSURE = 40_000_000
"""Most pairs of a marginal and a subset of it that are listed."""


@dataclass(frozen=True, eq=False)
class Closure:
    """The downward closure of some marginals.

    Attributes
    ----------
    blocks : tuple of tuple of int
        The attributes that were made one, for each attribute that is left.
    block_sizes : tuple of int
        Number of values of each block, Python ints of any size.
    members : numpy.ndarray of int, shape (number of subsets, largest order)
        The blocks of each subset, ascending, -1 after the last.
    incidence : scipy.sparse.csr_array, shape (number of marginals, number of subsets)
        1 where the marginal contains the subset.
    log_ranks : numpy.ndarray, shape (number of subsets,)
        Natural logarithms of w_S.
    """

    blocks: tuple[tuple[int, ...], ...]
    block_sizes: tuple[int, ...]
    members: Index
    incidence: sp.csr_array
    log_ranks: Array

    def subset(self, index: int) -> tuple[int, ...]:
        """The blocks of one subset."""
        return tuple(int(block) for block in self.members[index] if block >= 0)


def closure(operator: Marginals) -> Closure:
    """The downward closure of the operator's marginals, at most `LARGEST_CLOSURE` pairs of them."""
    blocks, marginals = _in_blocks(operator)
    sizes = tuple(prod(operator.sizes[i] for i in block) for block in blocks)
    owners, listed = _subsets_of(marginals)
    members, ids = _distinct(listed, len(blocks))
    incidence = sp.csr_array(
        (np.ones(ids.size), (owners, ids)), shape=(len(marginals), len(members))
    )
    ranks = np.append([log(size - 1) for size in sizes], 0.0)
    return Closure(blocks, sizes, members, incidence, ranks[members].sum(axis=1))


def pair_count(operator: Marginals) -> int:
    """Number of pairs of a marginal and a subset of it; at most that if it is small anyway."""
    if operator.contained_count <= LARGEST_CLOSURE:
        return operator.contained_count
    return sum(1 << len(marginal) for marginal in _in_blocks(operator)[1])


def _in_blocks(operator: Marginals) -> tuple[Blocks, list[tuple[int, ...]]]:
    """The attributes that are made one, and the marginals in terms of them."""
    blocks = _blocks(operator)
    first = {block[0]: position for position, block in enumerate(blocks)}
    return blocks, [tuple(first[i] for i in subset if i in first) for subset in operator.subsets]


def _blocks(operator: Marginals) -> Blocks:
    """Attributes of more than one value, those in the same marginals together."""
    blocks: dict[int, list[int]] = {}
    for position, subset in enumerate(operator.subsets):
        for attribute in subset:
            if operator.sizes[attribute] > 1:
                blocks.setdefault(attribute, []).append(position)
    together: dict[tuple[int, ...], list[int]] = {}
    for attribute in sorted(blocks):
        together.setdefault(tuple(blocks[attribute]), []).append(attribute)
    return tuple(map(tuple, together.values()))


def _subsets_of(marginals: list[tuple[int, ...]]) -> tuple[Index, Index]:
    """Every subset of every marginal: its marginal, and its blocks padded with -1."""
    widest = max(map(len, marginals))
    by_order: dict[int, list[int]] = {}
    for position, marginal in enumerate(marginals):
        by_order.setdefault(len(marginal), []).append(position)
    owners, listed = [], []
    for order, positions in by_order.items():
        attributes = np.array([marginals[p] for p in positions], dtype=np.int64)
        for kept in _all_subsets(range(order)):
            padded = np.full((len(positions), widest), -1, dtype=np.int64)
            padded[:, : len(kept)] = attributes.reshape(len(positions), order)[:, list(kept)]
            owners.append(np.array(positions, dtype=np.int64))
            listed.append(padded)
    return np.concatenate(owners), np.concatenate(listed)


def _all_subsets(items: range) -> Iterable[tuple[int, ...]]:
    return (kept for size in range(len(items) + 1) for kept in combinations(items, size))


def _distinct(rows: Index, largest: int) -> tuple[Index, Index]:
    """The distinct rows, and for each row the position of its equal among them."""
    ids = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        _, ids = np.unique(ids * (largest + 1) + column + 1, return_inverse=True)
    _, positions = np.unique(ids, return_index=True)
    return rows[positions], ids
